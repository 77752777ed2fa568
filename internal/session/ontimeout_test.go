package session_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// A program that would let a call expire, where its pause has the tool entered
// again, take the answer to one question for that to another, or let anyone
// decide, doesn't read the head; any other pause it reads.
func TestPausesThatOlderProgramsWouldMisread(t *testing.T) {
	for _, c := range []struct {
		await   tool.Await
		version int
	}{
		{tool.Await{Timeout: time.Hour}, session.Version},
		{tool.Await{Deadline: time.Now().Add(time.Hour)}, session.Version},
		{tool.Await{Timeout: time.Hour, OnTimeout: tool.ReenterOnTimeout}, 3},
		{tool.Await{Mode: tool.ModeReenter, Question: "which"}, 3},
		{tool.Await{Gate: "approval"}, session.Version},
		{tool.Await{Gate: "approval", Approvers: []string{"grace"}}, 3},
	} {
		s := session.NewStore(kvstore.NewMemory(), nil)
		d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
		must(t, err)
		await, err := c.await.Normalize()
		must(t, err)
		must(t, d.Update(t.Context(), func(tx *session.Tx) error {
			return tx.Say(entry(t, llm.UserText("Go.")), "", "", false)
		}))
		must(t, d.Update(t.Context(), func(tx *session.Tx) error {
			return tx.Reply(entry(t, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
				llm.ToolCall{ID: "c1", Name: "pay", Arguments: json.RawMessage(`{}`)},
			}}), []session.Call{{ID: "c1", Tool: "pay", Status: session.Requested,
				Effect: tool.ReadOnly, MayPause: true}}, session.Stopped{}, 0)
		}))
		must(t, d.Update(t.Context(), func(tx *session.Tx) error {
			return tx.Pause("c1", &session.Hold{Await: await})
		}))
		st, err := s.Load(t.Context(), "s")
		must(t, err)
		if st.Version != c.version {
			t.Errorf("with %+v the head has version %d", c.await, st.Version)
		}
	}
}
