package runner

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
)

// Of a session that rests nothing is kept for those who may follow it later,
// wherever followers have begun.
func TestAViewKeepsNoOldMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ag, err := agent.New(agent.Config{Name: "a", Model: fakellm.Echo()})
		if err != nil {
			t.Fatal(err)
		}
		rn, err := New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		const said = 5
		for range said {
			for range rn.Run(t.Context(), "ada", "chat", llm.UserText("Hi."), nil) {
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			for range rn.Follow(ctx, "chat", "ada", &FollowOptions{Stay: true}) {
			}
		}()
		for from := range 2 * said {
			shown := 0
			for ev := range rn.Follow(t.Context(), "chat", "ada", &FollowOptions{From: from}) {
				if _, is := ev.(event.Message); is {
					shown++
				}
			}
			if shown != 2*said-from {
				t.Errorf("from %d on there are %d messages", from, shown)
			}
		}
		synctest.Wait()
		rn.looks.mu.Lock()
		v := rn.looks.by["chat"].view
		rn.looks.mu.Unlock()
		v.mu.Lock()
		for name := range v.reads {
			if name.kind == "history" {
				t.Errorf("the messages from number %d on are kept", name.from)
			}
		}
		v.mu.Unlock()
		leave()
		<-over
		if err := rn.Close(); err != nil {
			t.Error(err)
		}
	})
}
