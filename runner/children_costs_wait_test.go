package runner_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// While some nested agents of a turn wait for people, others come to their end
// one after the other. What the first wait for is read when the run ends, and
// not after each of the caller's drives.
func TestWhatOthersWaitForIsNotReadForEachEnd(t *testing.T) {
	reads := func(waiting, ending int) (n int64) {
		synctest.Test(t, func(t *testing.T) {
			c := &costs{}
			var begun atomic.Int64
			ends := streams(func(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
				i := begun.Add(1)
				time.Sleep(time.Second + time.Duration(i)*100*time.Millisecond)
				if i == 1 {
					n = c.reads.Load() // all others wait by now
				}
				return messages(says("It is 42.")).Generate(ctx, r)
			})
			var all []string
			for i := range waiting + ending {
				name := "asker"
				if i >= waiting {
					name = "helper"
				}
				all = append(all, name, `{"what":"Find it."}`)
			}
			r := newRig(t, agent.Config{Model: messages(calls(all...), says("I know.")),
				Tools: []tool.Tool{nestedTool(t, "helper", ends),
					nestedTool(t, "asker", messages(calls("ask", "{}")), roomTool())}},
				&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
					c.Exclusive = kv.(kvstore.Exclusive)
					return c
				}})
			s := r.say("Go.")
			if s.end.Finish != event.FinishPaused || len(s.end.Pending) != 2*waiting {
				t.Fatalf("%s, %d wait, %v", s.end.Finish, len(s.end.Pending), s.err)
			}
			must(t, r.Close())
			n = c.reads.Load() - n
		})
		return n
	}
	few, many := reads(2, 10), reads(40, 10)
	if each := (many - few) / 38; each > 25 {
		t.Errorf("what each waits for costs %d reads while ten others end", each)
	}
}

// A worker that passes many sessions over, which others have in hand, rests
// between its rounds. It takes up what else comes soon, though.
func TestAWorkerThatRestsTakesUpAnAnswerSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		held := streams(func(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
			<-ctx.Done()
			return messages(says("Too late.")).Generate(ctx, r)
		})
		m := modelFunc(func(r llm.Request) []llm.Event {
			if r.Messages[0].Text() == "Ask." {
				return messages(calls("ask", "{}"), says("I know."))(r)
			}
			return delegates(20, 20)(r)
		})
		r, _ := priced(t, "exclusive", m, held, roomTool())
		p := r.say("Ask.").pause("ask")
		took := make(chan time.Time, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var all, worker sync.WaitGroup
		worker.Go(func() {
			_ = r.Work(ctx, &runner.WorkOptions{SweepEvery: -1, Poll: time.Hour,
				OnEvent: func(id string, ev event.Event, _ error) {
					if _, is := ev.(event.End); is && id == chat {
						took <- time.Now()
					}
				}})
		})
		for i := range 57 { // more than a thousand children: the worker rests as long as it may
			all.Go(func() {
				watch(t, r.Run(t.Context(), user, fmt.Sprint("many-", i), llm.UserText("Go."), nil))
			})
		}
		time.Sleep(time.Second)
		signal := r.engine.(*kvstore.Memory).Local().Signal
		signal("work") // the round that follows passes all of them over
		synctest.Wait()
		at := time.Now()
		must2(r.Resume(t.Context(), chat, runner.Complete(p.ID, "ada", []byte(`"7"`))))
		if late := (<-took).Sub(at); late > 51*time.Millisecond {
			t.Errorf("it was taken up after %v", late)
		}
		cancel()
		worker.Wait()
		must(t, r.Close())
		all.Wait()
	})
}

// A worker of one session doesn't rest because of what it has passed over in
// its life.
func TestAWorkerOfOneSessionDoesNotRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nested := testlength.Part(2, 450) // the worker passes the session over for some of their ends
		m := modelFunc(func(r llm.Request) []llm.Event {
			if first := 1 + 2*nested; len(r.Messages) >= first {
				r.Messages = r.Messages[first:]
				return messages(calls("ask", "{}"), says("I know."))(r)
			}
			return delegates(nested, 1)(r)
		})
		r, _ := priced(t, "exclusive", m, messages(says("It is 42.")), roomTool())
		took := make(chan time.Time, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var worker sync.WaitGroup
		worker.Go(func() {
			_ = r.Work(ctx, &runner.WorkOptions{Session: chat, Poll: time.Hour,
				OnEvent: func(id string, ev event.Event, _ error) {
					if _, is := ev.(event.End); is && id == chat {
						took <- time.Now()
					}
				}})
		})
		p := r.say("Go.").pause("ask")
		synctest.Wait()
		time.Sleep(time.Minute)
		at := time.Now()
		must2(r.Resume(t.Context(), chat, runner.Complete(p.ID, "ada", []byte(`"7"`))))
		if late := (<-took).Sub(at); late > 2*time.Millisecond {
			t.Errorf("it was taken up after %v", late)
		}
		cancel()
		worker.Wait()
		must(t, r.Close())
	})
}
