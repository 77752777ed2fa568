package llm

import (
	"errors"
	"testing"
)

func TestErrorSaysWhatItKnows(t *testing.T) {
	boom := errors.New("boom")
	for want, e := range map[string]*Error{
		"overloaded":                            {Kind: ErrOverloaded},
		"acme: rate_limited (request r1): boom": {Kind: ErrRateLimited, Provider: "acme", RequestID: "r1", Err: boom},
	} {
		if e.Error() != want {
			t.Errorf("%s, want %s", e, want)
		}
	}
	if err := error(&Error{Kind: ErrNetwork, Err: boom}); !errors.Is(err, boom) {
		t.Error("the cause can't be found")
	}
}

func TestTemporary(t *testing.T) {
	for kind, want := range map[ErrorKind]bool{
		ErrRateLimited: true, ErrOverloaded: true, ErrNetwork: true, ErrTruncated: true,
		ErrMalformed: false, ErrContextTooLong: false, ErrInvalid: false, ErrAuth: false, ErrRefused: false, "later": false,
	} {
		if got := (&Error{Kind: kind}).Retryable(); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

func TestUsage(t *testing.T) {
	u := Usage{Input: 1, Output: 2, Cached: 3, Reasoning: 4}.Add(Usage{Input: 10, Output: 20, Cached: 30, Reasoning: 40})
	if u != (Usage{Input: 11, Output: 22, Cached: 33, Reasoning: 44}) || u.Total() != 33 {
		t.Error(u, u.Total())
	}
}

func TestMessageParts(t *testing.T) {
	m := Message{Parts: []Part{Text{Text: "a"}, ToolCall{ID: "1"}, Reasoning{Text: "x"}, Text{Text: "b"}, ToolCall{ID: "2"}}}
	calls := m.ToolCalls()
	if m.Text() != "ab" || len(calls) != 2 || calls[0].ID != "1" || calls[1].ID != "2" {
		t.Error(m.Text(), calls)
	}
	if m := AssistantText("x"); m.Role != RoleAssistant || m.Text() != "x" {
		t.Error(m)
	}
	if m := UserText("x"); m.Role != RoleUser || m.Text() != "x" {
		t.Error(m)
	}
}
