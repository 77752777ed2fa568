package session_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// A result is committed whatever its body has produced, and what was stored can
// be read.
func TestNoContentKeepsAResultBack(t *testing.T) {
	long := strings.Repeat("\x01", kvstore.MaxValue/6)
	for what, c := range map[string]tool.Content{
		"control bytes": {Total: len(long), Head: long},
		"no JSON":       {Total: 1, Head: "x", Question: &tool.LiveQuestion{ID: "q", Schema: json.RawMessage("{")}},
		"counts":        {Total: 1, Head: "xx"},
		"below nothing": {Total: -1},
	} {
		s := session.NewStore(kvstore.NewMemory(), nil)
		d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
		must(t, err)
		m := entry(t, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
			llm.ToolCall{ID: "c", Name: "pay", Arguments: []byte(`{}`)}}})
		c.At = s.Now()
		for _, change := range []session.Transition{
			func(tx *session.Tx) error { return tx.Say(entry(t, llm.UserText("Go.")), "m", "h", false) },
			func(tx *session.Tx) error {
				return tx.Reply(m, []session.Call{{ID: "c", Tool: "pay", Status: session.Requested,
					Effect: tool.ReadOnly}}, session.Stopped{}, 0)
			},
			func(tx *session.Tx) error {
				tx.PutContent("c", &session.Content{Content: c})
				return tx.Settle("c", &session.Outcome{Status: event.Done, Output: blob(t, `1`)})
			},
		} {
			if err := d.Update(t.Context(), change); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		d.Release()
		stored, err := s.Content(t.Context(), "s", "c")
		if err != nil || stored == nil || stored.Total != max(c.Total, 0) || stored.Head != "" {
			t.Errorf("%s: %v, %v", what, stored, err)
		}
	}
}
