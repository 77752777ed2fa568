package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestDeadlineBeforeAnswer(t *testing.T) {
	start := func(t *testing.T, await tool.Await) (*rig, *clock, tool.Pause) {
		var n counter
		at := newClock()
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{starting(tool.Once, &n,
				func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
					if call.Answer != nil {
						return tool.Done(textOut{"went on"}), nil
					}
					return tool.Pending[textOut](await), nil
				})},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"a"}`), fakellm.Says("I see.")),
		}, &rigOptions{session: &session.Options{Now: at.now}})
		return r, at, r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	}
	hour := tool.Await{Timeout: time.Hour}
	t.Run("a millisecond before", func(t *testing.T) {
		r, at, p := start(t, hour)
		at.pass(time.Hour - time.Millisecond)
		_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
		must(t, err)
		at.pass(24 * time.Hour) // what was accepted doesn't expire
		r.restart()
		r.carryOn().finished(event.FinishStop)
		if got := string(r.result(p.Call).Output); got != string(text("v2")) {
			t.Errorf("the result is %s", got)
		}
	})
	// A caller that comes at the deadline finds the expiry applied, and it is
	// durable: nothing that comes later, by whatever clock, is told otherwise.
	late := map[string]func(*rig, tool.Pause) error{
		"an answer": func(r *rig, p tool.Pause) error {
			_, err := r.Resume(r.t.Context(), chat, runner.Complete(p.ID, "ci", text("late")))
			return err
		},
		"a failure": func(r *rig, p tool.Pause) error {
			_, err := r.Resume(r.t.Context(), chat, runner.Fail(p.ID, "ci", "late", false))
			return err
		},
		"a cancellation": func(r *rig, p tool.Pause) error {
			_, err := r.Cancel(r.t.Context(), chat, p.Call, "ada", "late")
			return err
		},
		"a new deadline": func(r *rig, p tool.Pause) error {
			return r.Extend(r.t.Context(), chat, p.ID, "ada", p.Deadline.Add(time.Hour))
		},
		"progress": func(r *rig, p tool.Pause) error {
			return r.Progress(r.t.Context(), chat, p.Call, user, tool.Progress{Message: "late"})
		},
	}
	for name, come := range late {
		t.Run("at its very millisecond comes "+name, func(t *testing.T) {
			r, at, p := start(t, hour)
			at.pass(time.Hour)
			if err := come(r, p); !errors.Is(err, session.ErrExpired) {
				t.Errorf("it is told %v", err)
			}
			at.pass(-time.Minute)
			r.restart()
			for again, come := range late {
				if err := come(r, p); !errors.Is(err, session.ErrExpired) {
					t.Errorf("%s, after that, is told %v", again, err)
				}
			}
			r.carryOn().finished(event.FinishStop)
			if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil ||
				st.Settled != event.Expired || len(st.Receipts) != 0 {
				t.Errorf("it settled as %s with receipts %v, %v", st.Settled, st.Receipts, err)
			}
		})
	}
	t.Run("found", func(t *testing.T) {
		r, at, p := start(t, tool.Await{Key: "job-1", Timeout: time.Hour})
		at.pass(time.Hour)
		for _, ref := range []runner.Ref{{Pause: p.ID}, {Tool: "deploy", Key: "job-1"}} {
			if found, err := r.Find(t.Context(), ref, user); err != nil || found.ID != p.ID ||
				found.Await.Reason != "" {
				t.Errorf("an overdue pause is found as %+v, %v", found, err)
			}
		}
	})
	t.Run("a timer's deadline is its answer", func(t *testing.T) {
		r, at, p := start(t, tool.Await{Reason: tool.ReasonTimer, Timeout: time.Hour})
		at.pass(time.Hour)
		_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("late")))
		var conflict *session.ConflictError
		if !errors.As(err, &conflict) || conflict.Receipt.Kind != session.KindTimer {
			t.Errorf("an answer is told %v", err)
		}
		r.carryOn().finished(event.FinishStop)
		if got := string(r.result(p.Call).Output); got != string(text("went on")) {
			t.Errorf("the result is %s", got)
		}
	})
}

// A timer of no length, or of one that is past, goes on at once.
func TestTimerThatIsOverAtOnce(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Second, time.Nanosecond} {
		t.Run(d.String(), func(t *testing.T) {
			var n counter
			r := deploying(t,
				starting(tool.Once, &n,
					func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
						if call.Answer != nil {
							return tool.Done(textOut{"slept"}), nil
						}
						return tool.Pending[textOut](tool.Await{
							Reason: tool.ReasonTimer, Timeout: d,
						}), nil
					}))
			s := r.say("Sleep.")
			for i := 0; s.err == nil && s.end.Finish == event.FinishPaused && i < 100; i++ {
				s = r.carryOn() // the clock goes on by the millisecond
			}
			s.finished(event.FinishStop)
			if got := string(r.result(r.onlyCall()).Output); got != string(text("slept")) ||
				n.get("deploy") != 2 {
				t.Errorf("the result is %s, after %d entries", got, n.get("deploy"))
			}
		})
	}
}

// A layer may wait, too. Its timer lets the call through to the layer again.
func TestLayerWaitsForATimer(t *testing.T) {
	var n counter
	at := newClock()
	brake := interceptor.Layer{Name: "brake",
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
				if _, waited := call.Decided("brake"); waited {
					return next(ctx, call)
				}
				return tool.Execution{
					Await: &tool.Await{Reason: tool.ReasonTimer, Timeout: time.Minute},
				}, nil
			}
		}}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("act", tool.Once, &n)}, Interceptors: interceptor.Chain{brake},
		Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`), fakellm.Says("Done.")),
	}, &rigOptions{session: &session.Options{Now: at.now}})
	p := r.say("Act.").finished(event.FinishPaused).pause("act")
	at.pass(time.Minute)
	r.carryOn().finished(event.FinishStop)
	if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil || st.Settled != event.Done ||
		n.get("act") != 1 {
		t.Errorf("it settled as %s with %s, %v; the body was entered %d times", st.Settled,
			st.Output, err, n.get("act"))
	}
}

func TestExtendMovesTheDeadline(t *testing.T) {
	var n counter
	at := newClock()
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n)}, // for an hour
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("I see.")),
	}, &rigOptions{session: &session.Options{Now: at.now}})
	p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	extend := func(pause string, by time.Duration) error {
		return r.Extend(t.Context(), chat, pause, "ada", at.now().Add(by))
	}
	if err := extend(p.ID, 0); err == nil {
		t.Error("a deadline that is past is taken")
	}
	if err := extend(session.PauseID(p.Call, 2), time.Hour); !errors.Is(err, session.ErrNotPaused) {
		t.Errorf("another pause is told %v", err)
	}
	must(t, extend(p.Call, 3*time.Hour))
	at.pass(2 * time.Hour)
	r.restart()
	r.carryOn().finished(event.FinishPaused)
	must(t, r.Extend(t.Context(), chat, p.ID, "ada", time.Time{})) // for ever
	at.pass(1000 * time.Hour)
	if got := r.carryOn().finished(event.FinishPaused).pause("deploy"); !got.Deadline.IsZero() {
		t.Errorf("its deadline is %s", got.Deadline)
	}
	must(t, extend(p.ID, time.Second))
	at.pass(time.Second)
	r.carryOn().finished(event.FinishStop)
	if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil ||
		st.Settled != event.Expired {
		t.Errorf("it settled as %s, %v", st.Settled, err)
	}
}

// What is due at once is due, whatever the clock shows: it is taken up also
// where a clock goes back, or another process's clock is behind.
func TestDueAtOnceBeforeEveryClock(t *testing.T) {
	for name, passed := range map[string]time.Duration{"an answer": 0,
		"an answer after the deadline of another call": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			cl := newClock()
			var n counter
			r := newRig(t, jobs(&n, 2), at(cl))
			p := r.say("Go.").finished(event.FinishPaused).end.Pending
			must(t, r.Extend(t.Context(), chat, p[1].ID, "ci", time.Time{}))
			cl.pass(passed)
			if passed == 0 {
				_, err := r.Resume(t.Context(), chat, runner.Complete(p[0].ID, "ci", text("v")))
				must(t, err)
			}
			_, err := r.Resume(t.Context(), chat, runner.Complete(p[1].ID, "ci", text("v")))
			must(t, err)
			cl.pass(-24 * time.Hour)
			due, _, _, err := r.store.Due(t.Context(), "ops", nil)
			if err != nil || len(due) != 1 || due[0].Session != chat {
				t.Errorf("due are %v, %v", due, err)
			}
			r.sound()
			r.work(runner.WorkOptions{}, 1)
			r.acceptable()
		})
	}
}

// What is stored can be read again: a deadline of a year that JSON has no form
// for is refused, and the pause is as it was.
func TestExtendRefusesWhatCannotBeStored(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
		Model: messages(calls("deploy", `{"text":"job"}`), says("Done.")),
	}, &rigOptions{memory: true})
	p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
	west := time.FixedZone("west", -3600)
	for _, far := range []time.Time{
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<50, 0),
		time.Date(9999, 12, 31, 23, 30, 0, 0, west),
	} {
		if err := r.Extend(t.Context(), chat, p.ID, "ada", far); err == nil {
			t.Errorf("%v is taken", far)
		}
		if got := r.transcript().Pending; len(got) != 1 || !got[0].Deadline.Equal(p.Deadline) {
			t.Errorf("after %v it waits for %+v", far, got)
		}
	}
	must(t, r.Extend(t.Context(), chat, p.ID, "ada",
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)))
	r.answer(runner.Complete(p.ID, "ci", text("v1"))).finished(event.FinishStop)
}

func TestDeadlinesSurviveRestarts(t *testing.T) {
	var n counter
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	sleep := tool.Must(tool.Func(tool.Spec{Name: "sleep", Description: "s",
		Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, _ struct{}) (tool.Result[textOut], error) {
			if n.add("sleep") == 1 {
				return tool.Pending[textOut](tool.Await{
					Reason: tool.ReasonTimer, Timeout: time.Hour,
				}), nil
			}
			if tool.CallFrom(ctx).Answer == nil {
				return nil, errors.New("no answer")
			}
			return tool.Done(textOut{"rested"}), nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{sleep, waiting("job", tool.Idempotent, &n)},
		Model: messages(calls("sleep", `{}`, "job", `{"text":"j"}`), says("Done.")),
	}, &rigOptions{session: &session.Options{Now: func() time.Time { return now }}})
	run := r.say("Go.").finished(event.FinishPaused)
	deadline := run.pause("sleep").Deadline
	for range 5 {
		now = now.Add(11 * time.Minute)
		r.restart()
		r.carryOn().finished(event.FinishPaused)
		if got := r.transcript().Pending; len(got) != 2 || !got[0].Deadline.Equal(deadline) {
			t.Fatalf("after %v, what waits is %v", now, got)
		}
	}
	r.restart()
	now = now.Add(5 * time.Minute) // it is over, and so is the job's
	ctx, cancel := context.WithCancel(t.Context())
	err := r.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
		if _, ok := ev.(event.End); ok {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := string(r.result(run.pause("sleep").Call).Output); got != string(text("rested")) {
		t.Errorf("the timer's call settled with %s", got)
	}
	if got := r.result(run.pause("job").Call); !got.Error ||
		!strings.Contains(string(got.Output), "Expired") {
		t.Errorf("the job's call settled with %s", got.Output)
	}
	if n.get("sleep") != 2 || n.get("job") != 1 {
		t.Errorf("bodies were entered %v", n.n)
	}
	r.acceptable()
}

// A pause that is overdue is over for every caller, also where more are overdue
// than one commit ends.
func TestOverdueForEverybody(t *testing.T) {
	for name, late := range map[string]func(*rig, tool.Pause, time.Time) error{
		"extend": func(r *rig, p tool.Pause, now time.Time) error {
			return r.Extend(context.Background(), chat, p.ID, user, now.Add(time.Hour))
		},
		"cancel": func(r *rig, p tool.Pause, _ time.Time) error {
			_, err := r.Cancel(context.Background(), chat, p.Call, user, "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			cl := newClock()
			r := newRig(t, jobs(&n, 20), &rigOptions{session: &session.Options{Now: cl.now}})
			pending := r.say("Go.").finished(event.FinishPaused).end.Pending
			cl.pass(2 * time.Hour)
			last := pending[len(pending)-1]
			if err := late(r, last, cl.now()); err == nil {
				t.Error("it is taken")
			}
			got, err := r.Call(t.Context(), chat, last.Call, user)
			must(t, err)
			if got.Settled != event.Expired {
				t.Errorf("the call is %s %s", got.Status, got.Settled)
			}
		})
	}
}
