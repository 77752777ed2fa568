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
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// TestCancelSessionAtEachEvent: wherever the run is, also while the model speaks, nothing more is begun, and the run ends as
// cancelled. The next message doesn't begin it either.
func TestCancelSessionAtEachEvent(t *testing.T) {
	for _, layers := range []interceptor.Chain{nil, {passing}} {
		for n, events := 1, 2; n < events; n++ {
			t.Run(fmt.Sprintf("event %d through %d layers", n, len(layers)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var c counter
					model := fakellm.New(
						fakellm.Says("I will see.").And("act", `{"text":"a"}`).And("job", `{"text":"b"}`).And("act", `{"text":"c"}`).Chunks(6),
						fakellm.Says("Next."))
					r := newRig(t, agent.Config{
						Model: model, Tools: []tool.Tool{instant("act", tool.Once, &c), waiting("job", tool.Once, &c)}, Interceptors: layers, Concurrency: 1,
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
					if got := r.transcript(); got.Finish != event.FinishCancelled || !strings.Contains(got.Why, "enough") || len(got.Pending) != 0 {
						t.Errorf("the session is shown as %q: %q, and %v wait", got.Finish, got.Why, got.Pending)
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

// TestCancelSession: of one that nobody drives, whatever it waits for, and whoever cancels it.
func TestCancelSession(t *testing.T) {
	var n counter
	cancel := func(r *rig) error { return r.CancelSession(r.t.Context(), chat, "bob", "enough") }
	config := agent.Config{
		Model:        fakellm.New(fakellm.Calls("job", `{"text":"a"}`).And("refund", `{"text":"b"}`).And("act", `{"text":"c"}`), fakellm.Says("Next.")),
		Tools:        []tool.Tool{waiting("job", tool.Once, &n), instant("refund", tool.Once, &n), instant("act", tool.ReadOnly, &n)},
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}})},
	}
	for name, test := range map[string]struct {
		interrupted bool
		cancel      func(r *rig) error
	}{
		"paused":      {false, cancel},
		"interrupted": {true, cancel},
		"by a runner without the agent": {false, func(r *rig) error {
			front, err := runner.New(nil, r.store, nil)
			must(r.t, err)
			if err := front.CancelSession(r.t.Context(), chat, "bob", "enough"); err != nil {
				return err
			}
			must(r.t, front.Close())
			ctx, cancel := context.WithCancel(r.t.Context())
			if err := r.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
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
				if got.Finish != event.FinishCancelled || got.Why != "enough" || len(got.Pending) != 0 || len(got.History) != 3 {
					t.Fatalf("it is shown as %q: %q, with %d messages, and %v wait", got.Finish, got.Why, len(got.History), got.Pending)
				}
				for _, asked := range got.History[1].ToolCalls()[:2] { // those that waited
					c, err := r.Call(t.Context(), chat, asked.ID, user)
					must(t, err)
					if c.Settled != event.Cancelled || c.By != "bob" || !strings.Contains(string(c.Output), "the run was ended: enough") {
						t.Errorf("%s is kept as %s by %q: %s", c.Tool, c.Settled, c.By, c.Output)
					}
				}
				if len(inbox(t, r, chat)) != 0 {
					t.Error("its approval is still in the inbox")
				}
				r.acceptable()
				must(t, r.CancelSession(t.Context(), chat, "bob", "once more")) // there is nothing to cancel
				r.restart()
				run := r.say("Hello?").finished(event.FinishStop)
				for _, got := range of[event.Result](run) {
					if got.Status != event.Cancelled && got.Result.Name != "act" { // what it shows was settled before
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

// TestResultsOfACancelledSessionAreShown: by the next run, once, with what the
// session's other calls showed before left out.
func TestResultsOfACancelledSessionAreShown(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("job", `{"text":"a"}`).And("act", `{"text":"c"}`), fakellm.Says("Next."), fakellm.Says("More.")),
		Tools: []tool.Tool{waiting("job", tool.Once, &n), instant("act", tool.ReadOnly, &n)},
	}, nil)
	shows(t, r.say("Go.").finished(event.FinishPaused), "act done")
	must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
	r.restart()
	run := r.say("Something else.").finished(event.FinishStop)
	shows(t, run, "job cancelled")
	if m, ok := run.events[1].(event.Message); !ok || m.Number != 2 || m.Message.Role != llm.RoleTool {
		t.Errorf("after the result it shows %+v", run.events[1])
	}
	shows(t, r.say("And?").finished(event.FinishStop))
	r.acceptable()
}

// TestUnseenResultsOutliveTheSweep: a session was cancelled, and its user comes
// back long after. The next run shows the results, which the sweep has spared;
// or it goes on without those that an older version's sweep has removed. After
// that they are swept like others.
func TestUnseenResultsOutliveTheSweep(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(map[bool]string{false: "spared", true: "removed"}[gone], func(t *testing.T) {
			var n counter
			at := newClock()
			r := newRig(t, agent.Config{
				Model: fakellm.New(fakellm.Calls("job", `{"text":"a"}`).And("job", `{"text":"b"}`), fakellm.Says("Next."), fakellm.Says("More.")),
				Tools: []tool.Tool{waiting("job", tool.Once, &n)},
			}, &rigOptions{session: &session.Options{Now: at.now}})
			p := r.say("Go.").finished(event.FinishPaused).pause("job")
			must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
			at.pass(40 * 24 * time.Hour)
			if swept := must2(r.store.Sweep(t.Context(), nil)); swept.Calls != 0 {
				t.Errorf("records of %d calls were removed that no run has shown", swept.Calls)
			}
			want := []string{"job cancelled", "job cancelled"}
			if gone {
				_, err := r.engine.Apply(t.Context(), kvstore.Batch{Deletes: [][]byte{kvstore.Key("c", chat, p.Call)}})
				must(t, err)
				want = want[1:]
			}
			r.restart()
			shows(t, r.say("Something else.").finished(event.FinishStop), want...)
			shows(t, r.say("And?").finished(event.FinishStop))
			if swept := must2(r.store.Sweep(t.Context(), nil)); swept.Calls != len(want) {
				t.Errorf("records of %d calls were removed after they were shown", swept.Calls)
			}
		})
	}
}
