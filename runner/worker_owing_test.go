package runner_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A worker that works until its session is over isn't done while a tool of the
// session, or of one below it, is to call something off, though it has to try
// twice. What was given up doesn't keep it.
func TestWorkIsNotOverWhileSomethingIsToBeCalledOff(t *testing.T) {
	for name, c := range map[string]struct{ nested, gaveUp bool }{
		"own": {}, "nested": {nested: true},
		"own, given up": {gaveUp: true}, "nested, given up": {nested: true, gaveUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			var tries atomic.Int32
			var h hooked
			var reads atomic.Int32
			h.get = func([]byte) error { reads.Add(1); return nil }
			let := make(chan struct{}) // the worker is there
			build := tool.Must(tool.Func(tool.Spec{Name: "build", MayPause: true,
				Cancel: tool.Cancel{Tries: 2, Wait: time.Millisecond,
					Do: func(ctx context.Context, _ tool.Cancelled) error {
						if tries.Add(1) == 1 || c.gaveUp {
							return errors.New("no answer")
						}
						select {
						case <-let:
							return nil
						case <-ctx.Done():
							return context.Cause(ctx)
						}
					}}},
				func(context.Context, textIn) (tool.Result[textOut], error) {
					return tool.Pending[textOut](tool.Await{Key: "job"}), nil
				}))
			tools, turn := []tool.Tool{build}, fakellm.Calls("build", `{"text":"x"}`)
			if c.nested {
				tools = []tool.Tool{nestedTool(t, "helper",
					fakellm.New(turn, fakellm.Says("Well.")), build)}
				turn = fakellm.Calls("helper", `{"what":"Build."}`)
			}
			r := newRig(t, agent.Config{Tools: tools, Model: fakellm.New(turn, fakellm.Says("Well."))},
				&rigOptions{memory: true, wrap: h.exclusive, runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}})
			r.say("Go.").finished(event.FinishPaused)
			_, err := r.Cancel(t.Context(), chat, r.onlyCall(), "ada", "not now")
			must(t, err)
			r.carryOn().finished(event.FinishStop)
			worked := make(chan error, 1)
			go func() {
				worked <- r.Work(t.Context(), &runner.WorkOptions{Session: chat, UntilOver: true,
					Poll: time.Millisecond})
			}()
			if !c.gaveUp {
				waitFor(t, func() bool { return tries.Load() >= 2 })
				// While the second try is under way, the worker looks some times.
				looked := reads.Load()
				waitFor(t, func() bool { return reads.Load() > looked+10 || len(worked) > 0 })
				if len(worked) > 0 {
					t.Error("the worker is done before it is called off")
				}
				close(let)
			}
			must(t, <-worked)
			id := chat
			if c.nested {
				id = session.ChildID(session.PauseID(r.onlyCall(), 1))
			}
			st, err := r.store.Load(t.Context(), id)
			if must(t, err); len(st.Outbox) > 0 != c.gaveUp || tries.Load() != 2 {
				t.Errorf("after %d tries, it owes %v", tries.Load(), st.Outbox)
			}
			must(t, r.Close())
		})
	}
}

// What a session owes to one that doesn't take it is tried less and less often.
// No worker is kept busy by it, also not once the session is deleted.
func TestWhatCantBeToldKeepsNoWorkerBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var reads atomic.Int32
		var h hooked
		h.get = func([]byte) error {
			if reads.Add(1) > 1500 {
				cancel() // or time would stand still
			}
			return nil
		}
		wait := tool.Must(tool.Func(tool.Spec{Name: "wait", MayPause: true},
			func(context.Context, struct{}) (tool.Result[textOut], error) {
				return tool.Pending[textOut](tool.Await{}), nil
			}))
		model := modelFunc(func(req llm.Request) []llm.Event {
			turn := calls("wait", `{}`)
			if req.Messages[0].Text() != "Wait." {
				turn = says("Well.")
			}
			return []llm.Event{llm.PartDone{Part: turn[0]}, llm.Finish{Reason: llm.StopEnd}}
		})
		r := newRig(t, agent.Config{Tools: []tool.Tool{wait}, Model: model},
			&rigOptions{memory: true, wrap: h.exclusive})
		r.say("Wait.").finished(event.FinishPaused)
		done := make(chan error, 1)
		go func() { done <- r.Work(ctx, &runner.WorkOptions{Poll: 10 * time.Second}) }()
		must2(r.Send(ctx, user, "other", llm.UserText("Wait."), nil))
		synctest.Wait()
		e := runner.EndEvent{Session: chat, Event: "ended"}
		if over, err := r.TellEnd(ctx, "other", e, "ada"); over || err != nil {
			t.Errorf("the run is over: %t, %v", over, err)
		}
		must(t, r.CancelSession(ctx, "other", "ada", ""))
		time.Sleep(time.Hour)
		must(t, r.Delete(ctx, "other", "ada"))
		time.Sleep(time.Hour)
		// The worker polls each ten seconds.
		if ctx.Err() != nil {
			t.Errorf("%d reads in two hours, and more", reads.Load())
		}
		cancel()
		<-done
		must(t, r.Close())
	})
}
