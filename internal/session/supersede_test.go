package session_test

import (
	"encoding/json"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// A superseding message denies the pauses that it was allowed to, and none that
// has come since.
func TestSupersedeDeniesWhatItIsTold(t *testing.T) {
	_, s := gated(t)
	d, err := s.Acquire(t.Context(), "third", &session.New{User: "ada"})
	must(t, err)
	defer d.Release()
	m := llm.Message{Role: llm.RoleAssistant}
	var calls []session.Call
	for _, id := range []string{"c7", "c8"} {
		m.Parts = append(m.Parts, llm.ToolCall{ID: id, Name: "pay",
			Arguments: json.RawMessage(`{}`)})
		calls = append(calls, session.Call{ID: id, Tool: "pay", Status: session.Requested})
	}
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		if err := tx.Say(entry(t, llm.UserText("Go.")), "", "", false); err != nil {
			return err
		}
		return tx.Reply(entry(t, m), calls, session.Stopped{}, 0)
	}))
	for _, id := range []string{"c7", "c8"} {
		must(t, d.Update(t.Context(), pause(id, tool.Await{
			Gate: "approval", Arguments: json.RawMessage(`{}`),
		})))
	}
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Supersede("ada", []string{"c7.1", "c8.2"}, nil)
	}))
	st, err := s.Load(t.Context(), "third")
	must(t, err)
	if st.Call("c7").Settled != event.Denied || st.Call("c8").Status != session.Pending {
		t.Errorf("the calls are %+v", st.Calls)
	}
}
