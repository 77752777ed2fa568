package session_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// A session whose history has notices is refused by programs that don't know
// that kind of part. The check of a store counts notices as no results.
func TestOlderProgramsRefuseNotices(t *testing.T) {
	result := llm.ToolResult{Call: "c1", Output: json.RawMessage(`"no"`)}
	for name, parts := range map[string][]llm.Part{
		"without": {result},
		"with":    {result, llm.Notice{Handle: "build", State: "stopped", Text: "ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParent(t, kvstore.NewMemory(), "c1")
			p.do(pause("c1", tool.Await{Reason: tool.ReasonExternal}))
			must(t, p.store.Update(t.Context(), "top", cancels("c1")))
			p.refresh()
			results := llm.Message{Role: llm.RoleTool, Parts: parts}
			closing := entry(t, results)
			p.do(func(tx *session.Tx) error {
				return tx.Close(closing, []event.Status{event.Cancelled})
			})
			st := load(t, p.store, "top")
			if newer := st.Version > session.Version; newer != (name == "with") {
				t.Errorf("the head has version %d", st.Version)
			}
			history, err := p.store.History(t.Context(), st, 0)
			must(t, err)
			if d := cmp.Diff(results, history[len(history)-1]); d != "" {
				t.Errorf("the history has another message (-want +got):\n%s", d)
			}
			problems(t, p.store)
		})
	}
}
