package session_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// An answer came early, and was refused, since the pause wants the user's
// message. A message with the same words is no redelivery of it: where the
// pause is over when it comes, it is refused, and not taken for known.
func TestAMessageIsNoRedeliveryOfWhatWasRefused(t *testing.T) {
	for name, onTimeout := range map[string]tool.OnTimeout{
		"expired": "", "entered again": tool.ReenterOnTimeout,
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			s := session.NewStore(kvstore.NewMemory(),
				&session.Options{Now: func() time.Time { return now }})
			d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
			must(t, err)
			t.Cleanup(d.Release)
			m := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
				llm.ToolCall{ID: "c", Name: "ask", Arguments: json.RawMessage(`{}`)}}}
			open := []session.Call{{ID: "c", Tool: "ask", Status: session.Requested, MayPause: true}}
			for _, change := range []session.Transition{
				func(tx *session.Tx) error {
					return tx.Say(entry(t, llm.UserText("Go.")), "", "", false)
				},
				func(tx *session.Tx) error { return tx.Reply(entry(t, m), open, session.Stopped{}, 0) },
				func(tx *session.Tx) error { return tx.Claim("c") }, answers(t, "c.1"),
				pause("c", tool.Await{Reason: tool.ReasonInput, Mode: tool.ModeMessage,
					Timeout: time.Hour, OnTimeout: onTimeout}),
			} {
				must(t, d.Update(t.Context(), change))
			}
			now = now.Add(2 * time.Hour)
			var r session.Receipt
			must(t, d.Update(t.Context(), func(tx *session.Tx) (err error) {
				r, err = tx.Answer(&session.Incoming{Pause: "c.1", Kind: session.KindMessage,
					Hash: "h", Value: json.RawMessage(`2`), Payload: blob(t, `2`), Actor: "ada"}, fits)
				return err
			}))
			if r.Duplicate || !errors.Is(r.Err, session.ErrSettled) &&
				!errors.Is(r.Err, session.ErrResumeConflict) && !errors.Is(r.Err, session.ErrExpired) {
				t.Errorf("the message comes to %+v", r)
			}
		})
	}
}
