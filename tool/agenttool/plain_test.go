package agenttool

import "testing"

// TestTheFormIsTheTypes: what a call leaves out doesn't change the form in which
// the agent is told.
func TestTheFormIsTheTypes(t *testing.T) {
	type two struct {
		Task    string `json:"task,omitempty"`
		Context string `json:"context,omitempty"`
	}
	type one struct {
		Task string `json:"task"`
	}
	type lone struct {
		Count int `json:"count"`
	}
	for _, c := range []struct {
		in   any
		make func(any) (string, error)
		want string
	}{
		{two{"a", "b"}, plainer[two](), `{"task":"a","context":"b"}`},
		{two{"a", ""}, plainer[two](), `{"task":"a"}`},
		{two{"", "b"}, plainer[two](), `{"context":"b"}`},
		{one{"a"}, plainer[one](), "a"},
		{&one{"a"}, plainer[*one](), "a"},
		{lone{1}, plainer[lone](), `{"count":1}`},
		{"a", plainer[string](), "a"},
		{map[string]string{"k": "a"}, plainer[map[string]string](), `{"k":"a"}`},
	} {
		if got, err := c.make(c.in); err != nil || got != c.want {
			t.Errorf("%#v is told as %s, with %v", c.in, got, err)
		}
	}
}
