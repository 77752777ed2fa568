package wire

import (
	"encoding/json"
	"testing"

	"github.com/fermata-ai/fermata/llm"
	"github.com/google/go-cmp/cmp"
)

func TestOriginNames(t *testing.T) {
	for _, c := range []struct{ base, option, want string }{
		{"https://api.acme.com/v1", "", "acme"},
		{"https://EU.Acme.com:443", "", "acme"},
		{"https://api.acme.com/v1", "gateway.example", "acme/gateway.example"},
		{"http://localhost:4000/acme", "", "acme/localhost:4000"},
		{"http://localhost:4000/acme", "api.acme.com", "acme"},
		{"http://notacme.com", "", "acme/notacme.com"},
		{"http://acme.com.evil.example", "", "acme/acme.com.evil.example"},
		{"", "http://acme.com", ""},
		{"", "a b", ""},
	} {
		o, err := NewOrigin("acme", "acme.com", c.base, c.option)
		if (err != nil) != (c.want == "") || o.Name() != c.want {
			t.Errorf("%q, %q: %q, %v, want %q", c.base, c.option, o.Name(), err, c.want)
		}
	}
}

// Each kind of part goes back to the server that made it, and to no other.
func TestOriginsOfParts(t *testing.T) {
	own, err := NewOrigin("acme", "acme.com", "https://api.acme.com", "")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewOrigin("acme", "acme.com", "http://localhost:1", "")
	if err != nil {
		t.Fatal(err)
	}
	by := func(name string) *llm.Native { return &llm.Native{Provider: name, Data: json.RawMessage(`{}`)} }
	parts := func(name string) []llm.Part {
		return []llm.Part{
			llm.Text{Text: "a", Native: by(name)}, llm.Reasoning{Native: by(name)}, llm.ToolCall{ID: "c", Native: by(name)}, llm.Media{Native: by(name)},
			llm.Opaque{Native: *by(name)}, llm.ToolResult{Media: []llm.Media{{Native: by(name)}, {}}}, llm.Unknown{Type: "later"}, llm.Text{Text: "b"},
		}
	}
	sent := func(o Origin, name string) []llm.Part {
		history := []llm.Message{{Role: llm.RoleAssistant, Parts: parts(name)}}
		got := o.Sent(history)[0].Parts
		if diff := cmp.Diff(parts(name), history[0].Parts); diff != "" {
			t.Errorf("the history was changed: %s", diff)
		}
		return got
	}
	for _, c := range []struct {
		to         Origin
		made, want string
	}{
		{own, "acme", "acme"},
		{own, "acme/localhost:1", "acme/localhost:1"},
		{other, "acme/localhost:1", "acme"},
		{other, "acme", "acme/"},
		{other, "acme/localhost:2", "acme/localhost:2"},
		{other, "another", "another"},
	} {
		if diff := cmp.Diff(parts(c.want), sent(c.to, c.made)); diff != "" {
			t.Errorf("%v, made by %s: %s", c.to, c.made, diff)
		}
	}
	for _, o := range []Origin{own, other} {
		for i, p := range parts("acme") {
			if diff := cmp.Diff(llm.Event(llm.PartDone{Part: parts(o.Name())[i]}), o.Made(llm.PartDone{Part: p})); diff != "" {
				t.Errorf("%v: %s", o, diff)
			}
		}
		if e := o.Made(llm.TextDelta{Text: "a"}); e != (llm.TextDelta{Text: "a"}) {
			t.Error(e)
		}
	}
}
