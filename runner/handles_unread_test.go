package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// What an earlier body has produced stays, although it can't be read just when
// the next body begins: what that one produces stands behind it.
func TestContentThatCannotBeReadJustNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken, failed atomic.Bool
		var entries atomic.Int32
		body := func(ctx context.Context, c tool.Call) (tool.Execution, error) {
			live := c.Host.(tool.Live)
			if entries.Add(1) == 1 {
				live.Produce(ctx, c, tool.Content{Total: 4, Tail: "one\n"})
				<-ctx.Done()
				return tool.Execution{}, ctx.Err()
			}
			broken.Store(true)
			live.Produce(ctx, c, tool.Content{Total: 4, Tail: "two\n"})
			broken.Store(false)
			live.Produce(ctx, c, tool.Content{Total: 10, Tail: "two\nthree\n"})
			mail, _, err := live.NextMail(ctx, c, 0)
			if err != nil {
				return tool.Execution{}, err
			}
			return tool.Execution{Output: mail[0].Payload}, nil
		}
		own := rawTool{tool.Spec{Name: "build", Effect: tool.Idempotent, MayPause: true,
			Input:   json.RawMessage(`{"type":"object","properties":{}}`),
			Mailbox: []tool.MailboxEvent{{Name: tool.InputEvent}}}, body}
		r := newRig(t, agent.Config{Model: fakellm.New(fakellm.Says("Hi.")),
			Tools: []tool.Tool{kept(t, own)}},
			&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
				return &hooked{Store: kv, get: func(key []byte) error {
					parts, err := kvstore.Parts(key)
					if err == nil && parts[0] == "q" && broken.Load() {
						failed.Store(true)
						return errors.New("the disk is away")
					}
					return nil
				}}
			}})
		r.say("Hello.").finished(event.FinishStop)
		s := r.spawned("a", "build", `{}`)
		synctest.Wait()
		if c, err := r.store.Content(t.Context(), s.Session, s.Call); err != nil || c == nil {
			t.Fatalf("nothing is stored: %v", err)
		}
		r.restart()
		_, err := r.Fetch(t.Context(), chat, "a", user)
		must(t, err)
		time.Sleep(public.DefaultLease + public.DefaultLease/10)
		if _, err = r.Fetch(t.Context(), chat, "a", user); !failed.Load() {
			must(t, err) // or else it was this look that could not read
		}
		synctest.Wait()
		h, err := r.Fetch(t.Context(), chat, "a", user)
		must(t, err)
		if text := h.Content.Head + h.Content.Tail; text != "one\ntwo\nthree\n" || !failed.Load() {
			t.Errorf("it has produced %d bytes, %q (the read failed: %v)", h.Content.Total, text,
				failed.Load())
		}
	})
}
