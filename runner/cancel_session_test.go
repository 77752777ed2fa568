package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestCancelSessionAtEachEvent: wherever the run is, also while the model
// speaks, nothing more is begun, and the run ends as cancelled. The next
// message doesn't begin it either.
func TestCancelSessionAtEachEvent(t *testing.T) {
	for _, layers := range []interceptor.Chain{nil, {passesTurns}} {
		for n, events := 1, 2; n < events; n++ {
			t.Run(fmt.Sprintf("event %d through %d layers", n, len(layers)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var c counter
					model := fakellm.New(
						fakellm.Says("I will see.").And("act", `{"text":"a"}`).And("job",
							`{"text":"b"}`).And("act", `{"text":"c"}`).Chunks(6),
						fakellm.Says("Next."))
					r := newRig(t, agent.Config{
						Model: model, Tools: []tool.Tool{instant("act", tool.Once, &c),
							waiting("job", tool.Once, &c)}, Interceptors: layers, Concurrency: 1,
					}, &rigOptions{memory: true})
					count := func() int { return c.get("act") + c.get("job") }
					before, end := 0, event.End{}
					events = 0
					for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
						must(t, err)
						if events++; events == n {
							synctest.Wait() // a body that has been started runs
							before = count()
							must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
						}
						if e, ok := ev.(event.End); ok {
							end = e
						}
					}
					if n == events {
						return // it had ended
					}
					if end.Finish != event.FinishCancelled || len(end.Pending) != 0 {
						t.Errorf("the run ended as %q, and %v wait", end.Finish, end.Pending)
					}
					if got := r.transcript(); got.Finish != event.FinishCancelled ||
						!strings.Contains(got.Why, "enough") || len(got.Pending) != 0 {
						t.Errorf("the session is shown as %q: %q, and %v wait", got.Finish,
							got.Why, got.Pending)
					}
					r.say("Something else.").finished(event.FinishStop)
					if count() != before || len(model.Requests()) > 2 {
						t.Errorf("%d bodies were entered after it was cancelled; the model was called %d times", count()-before, len(model.Requests()))
					}
					r.acceptable()
				})
			})
		}
	}
}

// TestCancelSession: of one without a drive, in each state, by its user or
// another actor.
func TestCancelSession(t *testing.T) {
	var n counter
	cancel := func(r *rig) error { return r.CancelSession(r.t.Context(), chat, "bob", "enough") }
	config := agent.Config{
		Model: fakellm.New(fakellm.Calls("job", `{"text":"a"}`).And("refund",
			`{"text":"b"}`).And("act", `{"text":"c"}`), fakellm.Says("Next.")),
		Tools: []tool.Tool{waiting("job", tool.Once, &n), instant("refund", tool.Once, &n),
			instant("act", tool.ReadOnly, &n)},
		Interceptors: interceptor.Chain{
			interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}}),
		},
	}
	for name, test := range map[string]struct {
		interrupted bool
		cancel      func(r *rig) error
	}{
		"paused":      {false, cancel},
		"interrupted": {true, cancel},
		"by a runner without the agent": {false, func(r *rig) error {
			front, err := runner.New(nil, r.public, nil)
			must(r.t, err)
			if err := front.CancelSession(r.t.Context(), chat, "bob", "enough"); err != nil {
				return err
			}
			must(r.t, front.Close())
			ctx, cancel := context.WithCancel(r.t.Context())
			if err := r.Work(ctx,
				&runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
					if _, ok := ev.(event.End); ok {
						cancel()
					}
				}}); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, config, &rigOptions{memory: true})
				if test.interrupted {
					for ev := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
						if _, ok := ev.(event.Pause); ok {
							break
						}
					}
					synctest.Wait() // its bodies end
				} else {
					r.say("Go.").finished(event.FinishPaused)
				}
				must(t, test.cancel(r))
				got := r.transcript()
				if got.Finish != event.FinishCancelled || got.Why != "enough" ||
					len(got.Pending) != 0 || len(got.History) != 3 {
					t.Fatalf("it is shown as %q: %q, with %d messages, and %v wait", got.Finish,
						got.Why, len(got.History), got.Pending)
				}
				for _, asked := range got.History[1].ToolCalls()[:2] { // those that waited
					c, err := r.Call(t.Context(), chat, asked.ID, user)
					must(t, err)
					if c.Settled != event.Cancelled || c.Actor != "bob" ||
						!strings.Contains(string(c.Output), "the run was ended: enough") {
						t.Errorf("%s is kept as %s by %q: %s", c.Tool, c.Settled, c.Actor, c.Output)
					}
				}
				if len(inbox(t, r, chat)) != 0 {
					t.Error("its approval is still in the inbox")
				}
				r.acceptable()
				// there is nothing to cancel
				must(t, r.CancelSession(t.Context(), chat, "bob", "once more"))
				r.restart()
				run := r.say("Hello?").finished(event.FinishStop)
				for _, got := range of[event.Result](run) {
					// what it shows was settled before
					if got.Status != event.Cancelled && got.Result.Name != "act" {
						t.Errorf("the next message settles %v", got)
					}
				}
				if n.get("refund") != 0 {
					t.Error("a refund that nobody approved was made")
				}
				r.acceptable()
			})
		})
	}
}

// TestCancelSessionIsStoredWhateverFollows: what goes wrong after the
// cancellation is stored is no error of it, and is left to a worker.
func TestCancelSessionIsStoredWhateverFollows(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, commit int, cancel func()){
		"the runner is closed": func(r *rig, _ int, _ func()) { must(r.t, r.Runner.Close()) },
		"the context ends": func(r *rig, commit int, cancel func()) {
			r.afterCommit(commit, cancel)
		},
		"the store dies": func(r *rig, commit int, _ func()) {
			r.afterCommit(commit, r.faults.Kill)
		},
		"the store refuses one commit": func(r *rig, commit int, _ func()) {
			r.faults.Add(faultkv.FailAt(commit + 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			var log journal
			r := newRig(t, jobs(&n, 2), &rigOptions{
				runner: &runner.Options{
					Logger: log.logger(),
				},
			})
			r.say("Go.").finished(event.FinishPaused)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			spoil(r, r.faults.Applies()+1, cancel)
			must(t, r.CancelSession(ctx, chat, "bob", "enough"))
			logged := log.String()
			if closed := name == "the runner is closed"; strings.Contains(logged,
				"left to a worker") == closed {
				t.Errorf("the log has %q", logged)
			}
			r.restart()
			st := must2(r.store.Load(t.Context(), chat))
			if st.Ending == nil || st.Ending.Actor != "bob" || !r.store.Next(st).Working() {
				t.Errorf("it is stored as %+v, and what comes next is %v",
					st.Ending, r.store.Next(st).Kind)
			}
			must(t, r.Work(t.Context(), &runner.WorkOptions{Session: chat, UntilOver: true}))
			if got := r.transcript(); got.Finish != event.FinishCancelled || got.Why != "enough" ||
				len(got.Pending) != 0 {
				t.Errorf("a worker has left it as %q: %q, and %v wait", got.Finish,
					got.Why, got.Pending)
			}
			r.acceptable()
		})
	}
}

// The session is cancelled, and then its caller leaves: it stays cancelled.
func TestLeavingACancelledSession(t *testing.T) {
	r := newRig(t, agent.Config{Model: fakellm.New(fakellm.Says("Hello world, hello."))}, nil)
	for ev := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		if _, ok := ev.(event.TextDelta); ok {
			must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
			break
		}
	}
	if got := r.transcript(); got.Finish != event.FinishCancelled || got.Why != "enough" {
		t.Errorf("it is %q, since %q", got.Finish, got.Why)
	}
}

// A session is cancelled whose caller has left a body behind, which doesn't
// stop: after the grace its call is settled.
func TestCancelSessionOfABodyLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan string, 1), make(chan struct{})
		r := newRig(t, agent.Config{Tools: []tool.Tool{stubborn(entered, release)},
			Model: messages(calls("slow", `{"text":"a"}`), says("Done."))},
			&rigOptions{memory: true})
		ctx, cancel := context.WithCancel(context.Background())
		go func() { <-entered; cancel() }()
		watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil))
		call := r.onlyCall()
		must(t, r.CancelSession(context.Background(), chat, "bob", "stop"))
		time.Sleep(11 * time.Second)
		c, err := r.Call(context.Background(), chat, call, user)
		must(t, err)
		if c.Settled != event.Unknown {
			t.Errorf("it is %s %s", c.Status, c.Settled)
		}
		close(release)
		synctest.Wait()
	})
}

// A call of an interrupted session is cancelled. Its caller wants the session
// to go on, and so a worker carries it on.
func TestCancelLetsAnInterruptedSessionGoOn(t *testing.T) {
	var n counter
	r := newRig(t, jobs(&n, 1), nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	must(t, r.store.Update(t.Context(), chat, func(tx *session.Tx) error {
		tx.Stop(event.FinishInterrupted, "")
		return nil
	}))
	_, err := r.Cancel(t.Context(), chat, p.Call, user, "no longer needed")
	must(t, err)
	r.work(runner.WorkOptions{}, 1)
	if got := r.transcript().Finish; got != event.FinishStop {
		t.Errorf("it is %q", got)
	}
}
