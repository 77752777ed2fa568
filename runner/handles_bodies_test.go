package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// What the next body of a handle produces, after the process of the first one
// has died, stands behind what the first one has produced: none of it is passed
// over, also where more was told of the first one than was stored.
func TestTheNextBodysContentIsTold(t *testing.T) {
	bodies := []chan tool.Content{make(chan tool.Content), make(chan tool.Content)}
	var entered atomic.Int32
	own := rawTool{tool.Spec{Name: "build", Effect: tool.Idempotent, MayPause: true,
		Input:   json.RawMessage(`{"type":"object","properties":{"target":{"type":"string"}}}`),
		Mailbox: []tool.MailboxEvent{{Name: tool.InputEvent}}},
		func(ctx context.Context, c tool.Call) (tool.Execution, error) {
			return talksUntil(bodies[entered.Add(1)-1], 1)(ctx, c)
		}}
	fetch := fakellm.Calls("build", `{"action":"fetch","id":"a"}`)
	model := fakellm.New(begin("a"), fakellm.Says("Begun."), fetch, fakellm.Says("1."),
		fetch, fakellm.Says("2."), fetch, fakellm.Says("3."))
	r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{kept(t, own)}},
		&rigOptions{memory: true})
	r.say("Go.").finished(event.FinishStop)
	more := func(body int, text string, total int) {
		t.Helper()
		bodies[body] <- tool.Content{Total: len(text), Tail: text}
		for {
			h, err := r.Fetch(t.Context(), chat, "a", user)
			must(t, err)
			if h.Content.Total == total {
				return
			}
		}
	}
	more(0, "one\n", 4)
	more(0, "one\nmore\n", 9) // within a second of the first: not stored
	r.say("1").finished(event.FinishStop)
	r.restart()
	if _, err := r.Fetch(t.Context(), chat, "a", user); err != nil {
		t.Fatal(err)
	}
	more(1, "two\n", 13)
	r.say("2").finished(event.FinishStop)
	more(1, "two\nand\n", 17)
	r.say("3").finished(event.FinishStop)
	var got []string
	for _, out := range r.outputs() {
		if strings.Contains(out, `"content"`) {
			got = append(got, out)
		}
	}
	if len(got) != 4 || !strings.Contains(got[1], `"content":"one\nmore\n"`) ||
		!strings.Contains(got[2], `"content":"two\n"`) || !strings.Contains(got[3], `"content":"and\n"`) {
		t.Errorf("%q", got)
	}
	must(t, r.Close())
	r.sound()
}

// A body whose input can't be read for a while goes on, and has it afterwards.
func TestABodyOutlivesAnInputThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		r := newRig(t, agent.Config{Tools: []tool.Tool{talks(t, tool.HandlePolicy{}, nil)},
			Model: messages(says("Hi."))}, &rigOptions{memory: true,
			wrap: func(kv kvstore.Store) kvstore.Store {
				h := &hooked{get: func(key []byte) error {
					if away.Load() && bytes.HasPrefix(key, kvstore.Key("p")) {
						return errAway
					}
					return nil
				}}
				return h.exclusive(kv)
			}})
		r.say("Hello.").finished(event.FinishStop)
		r.spawned("a", "build", `{}`)
		synctest.Wait()
		away.Store(true)
		input := text(strings.Repeat("x", 4<<10))
		_, err := r.Apply(t.Context(), chat, runner.Input{Handle: "a", Value: input, Actor: user, Delivery: "1"})
		must(t, err)
		time.Sleep(time.Minute)
		away.Store(false)
		if h := r.awaited("a"); h.Status != string(event.Done) || !bytes.Equal(h.Output, input) {
			t.Errorf("it came to %s: %s", h.Status, h.Output)
		}
	})
}
