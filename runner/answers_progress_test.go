package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestProgress(t *testing.T) {
	// start is a rig whose one call waits; the clock stands.
	start := func(t *testing.T) (*rig, *clock, tool.Pause) {
		var n counter
		at := newClock()
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
				fakellm.Says("Deployed.")),
		}, &rigOptions{session: &session.Options{Now: at.now}})
		return r, at, r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	}
	report := func(r *rig, p tool.Pause, message string) error {
		return r.Progress(r.t.Context(), chat, p.Call, user,
			tool.Progress{Message: message, Fraction: 0.5})
	}
	t.Run("live from the body, each before the result", func(t *testing.T) {
		const reports = 10
		var n counter
		r := deploying(t,
			starting(tool.Once, &n,
				func(ctx context.Context, call tool.Call) (tool.Result[textOut], error) {
					for i := range reports {
						if err := call.Report(ctx,
							tool.Progress{Message: fmt.Sprint(i)}); err != nil {
							return nil, err
						}
					}
					return tool.Done(textOut{"done"}), nil
				}))
		changed, stop := r.store.WatchAll(chat)
		defer stop()
		shown, want := []string(nil), []string(nil)
		for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Deploy."), nil) {
			must(t, err)
			switch ev := ev.(type) {
			case event.Progress:
				if shown = append(shown, ev.Tool+" "+ev.Progress.Message); len(shown) > 1 {
					continue
				}
				for st, err := r.Call(t.Context(), chat,
					ev.Call, user); st.Settled == ""; st, err = r.Call(t.Context(), chat,
					ev.Call, user) {
					must(t, err)
					// the listener is slow: the result is there before all
					// progress is shown
					<-changed
				}
			case event.Result:
				shown = append(shown, string(ev.Status))
			}
		}
		for i := range reports {
			want = append(want, fmt.Sprintf("deploy %d", i))
		}
		if diff := cmp.Diff(append(want, "done"), shown); diff != "" {
			t.Errorf("it showed (-want +got):\n%s", diff)
		}
	})
	t.Run("live to whoever follows", func(t *testing.T) {
		r, _, p := start(t)
		// A session at rest has nothing to follow, so another call has to run
		// meanwhile: the model's.
		_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
		must(t, err)
		shown := 0
		for ev, err := range r.Follow(t.Context(), chat, user, nil) {
			must(t, err)
			switch ev := ev.(type) {
			case event.Message:
				if shown == 0 {
					must(t, report(r, p, "half"))
					shown++
				}
			case event.Progress:
				if ev.Progress.Message != "half" || ev.Tool != "deploy" || ev.Call != p.Call {
					t.Errorf("it showed %+v", ev)
				}
				r.carryOn().finished(event.FinishStop)
				shown++
			}
		}
		if shown != 2 {
			t.Error("the progress was not shown")
		}
	})
	t.Run("written at most every 250 ms", func(t *testing.T) {
		r, at, p := start(t)
		before := r.faults.Commits()
		stored := func(want string, commits int) {
			t.Helper()
			got := r.transcript().Pending[0].Progress
			if got == nil || got.Message != want || r.faults.Commits()-before != commits {
				t.Errorf("stored is %+v after %d commits, not %q after %d", got,
					r.faults.Commits()-before, want, commits)
			}
		}
		must(t, report(r, p, "first"))
		stored("first", 1)
		for i := range 5 {
			must(t, report(r, p, fmt.Sprint(i)))
		}
		at.pass(249 * time.Millisecond)
		must(t, report(r, p, "just before"))
		stored("first", 1)
		at.pass(time.Millisecond)
		must(t, report(r, p, "just then"))
		stored("just then", 2)
		r.restart()
		if got := r.transcript().Pending[0].Progress; got == nil || got.Message != "just then" {
			t.Errorf("after a restart it is %+v", got)
		}
	})
	t.Run("the last of a burst is written, though no more come", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var n counter
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
				Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
					fakellm.Says("Deployed.")),
			}, &rigOptions{memory: true})
			p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			before := r.faults.Commits()
			stored := func(want string, commits int) {
				t.Helper()
				synctest.Wait()
				got := r.transcript().Pending[0].Progress
				if got == nil || got.Message != want || r.faults.Commits()-before != commits {
					t.Errorf("stored is %+v after %d commits, not %q after %d", got,
						r.faults.Commits()-before, want, commits)
				}
			}
			for i := range 50 {
				must(t, report(r, p, fmt.Sprint(i)))
			}
			time.Sleep(249 * time.Millisecond)
			stored("0", 1)
			time.Sleep(time.Millisecond)
			stored("49", 2)
			must(t, report(r, p, "soon after"))
			stored("49", 2)
			time.Sleep(250 * time.Millisecond)
			stored("soon after", 3)
			must(t, report(r, p, "before it closes"))
			must(t, r.Close())
			stored("before it closes", 4)
			// by a caller that still has the runner: at once, since nothing
			// comes later
			must(t, report(r, p, "after that"))
			stored("after that", 5)
		})
	})
	t.Run("of two calls, each is written", func(t *testing.T) {
		r, pauses := many(t, 2)
		for i, p := range pauses {
			must(t, report(r, p, fmt.Sprint(i)))
		}
		for i, p := range r.transcript().Pending {
			if p.Progress == nil || p.Progress.Message != fmt.Sprint(i) {
				t.Errorf("that of call %d is %+v", i, p.Progress)
			}
		}
	})
	t.Run("it changes no call, and is refused once that is settled", func(t *testing.T) {
		r, at, p := start(t)
		before, err := r.store.Load(t.Context(), chat)
		must(t, err)
		must(t, report(r, p, "half"))
		must(t, r.Progress(t.Context(), chat, p.ID, user,
			tool.Progress{Message: "by the pause's id"}))
		after, err := r.store.Load(t.Context(), chat)
		must(t, err)
		if string(before.Commits) != string(after.Commits) ||
			after.Calls[0].Status != session.Pending {
			t.Errorf("the head was written; the call is %s", after.Calls[0].Status)
		}
		r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
		at.pass(time.Hour)
		if err := report(r, p, "late"); !errors.Is(err, session.ErrSettled) {
			t.Errorf("late progress is told %v", err)
		}
		if err := r.Progress(t.Context(), chat, "call_x",
			user, tool.Progress{}); !errors.Is(err, session.ErrUnknownCall) {
			t.Errorf("progress of nobody is told %v", err)
		}
	})
	t.Run("what makes no sense is refused", func(t *testing.T) {
		r, _, p := start(t)
		for name, pr := range map[string]tool.Progress{
			"too long":      {Message: strings.Repeat("x", 17<<10)},
			"more than all": {Fraction: 1.1}, "less than nothing": {Fraction: -0.1},
			"no number": {Fraction: math.NaN()},
			"no JSON":   {Data: []byte(`{"a":`)},
		} {
			if err := r.Progress(t.Context(), chat, p.Call, user, pr); !errors.Is(err,
				runner.ErrInvalidProgress) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := r.transcript().Pending[0].Progress; got != nil {
			t.Errorf("stored is %+v", got)
		}
	})
	t.Run("a write that fails is tried again with the next", func(t *testing.T) {
		r, _, p := start(t)
		r.faults.Add(failNext(r))
		if err := report(r, p, "lost"); err == nil {
			t.Error("the write failed, and nobody was told")
		}
		must(t, report(r, p, "next"))
		if got := r.transcript().Pending[0].Progress; got == nil || got.Message != "next" {
			t.Errorf("stored is %+v", got)
		}
	})
}

// TestAcceptedProgressIsStored: also if another report of the call is refused,
// if a write fails, and if the runner closes.
func TestAcceptedProgressIsStored(t *testing.T) {
	for name, befall := range map[string]func(r *rig, p tool.Pause){
		"a later one is for a pause that is not there": func(r *rig, p tool.Pause) {
			time.Sleep(249 * time.Millisecond)
			err := r.Progress(r.t.Context(), chat, p.Call+".7", user,
				tool.Progress{Message: "of another pause"})
			if !errors.Is(err, session.ErrUnknownPause) {
				r.t.Errorf("progress of a pause that is not there: %v", err)
			}
		},
		"a later one's sender leaves": func(r *rig, p tool.Pause) {
			time.Sleep(249 * time.Millisecond)
			ctx, cancel := context.WithCancel(r.t.Context())
			cancel()
			_ = r.Progress(ctx, chat, p.Call, user, tool.Progress{Message: "of one who left"})
		},
		"its write fails": func(r *rig, _ tool.Pause) { r.faults.Add(failNext(r)) },
		"its write fails twice": func(r *rig, _ tool.Pause) {
			r.faults.Add(failNext(r), faultkv.FailAt(r.faults.Applies()+2))
		},
		"the runner closes": func(r *rig, _ tool.Pause) { must(r.t, r.Runner.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				r := newRig(t, oneCall(waiting("deploy", tool.Once, &n)), &rigOptions{memory: true})
				p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
				must(t, r.Progress(t.Context(), chat, p.Call, user,
					tool.Progress{Message: "first"}))
				must(t, r.Progress(t.Context(), chat, p.Call, user,
					tool.Progress{Message: "second"}))
				befall(r, p)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if got := r.transcript().Pending[0].Progress; got == nil ||
					got.Message != "second" {
					t.Errorf("stored is %+v", got)
				}
			})
		})
	}
}

// TestNoProgressIsWrittenAfterClose: what a slow store has not taken when the
// time of Close is over is not written behind its back.
func TestNoProgressIsWrittenAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		turn := fakellm.Turn{}
		for i := range 20 {
			turn = turn.And("deploy", fmt.Sprintf(`{"text":"job-%d"}`, i))
		}
		r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
			Model: fakellm.New(turn, fakellm.Says("Done."))},
			&rigOptions{memory: true, runner: &runner.Options{CloseTimeout: time.Second,
				Logger: slog.New(slog.DiscardHandler)}})
		pauses := r.say("Go.").finished(event.FinishPaused).end.Pending
		for range 2 {
			for _, p := range pauses {
				must(t, r.Progress(t.Context(), chat, p.Call, user,
					tool.Progress{Message: "on it"}))
			}
		}
		var writes atomic.Int32
		r.faults.Before(func(faultkv.Call) {
			writes.Add(1)
			time.Sleep(300 * time.Millisecond)
		})
		must(t, r.Runner.Close())
		before := writes.Load()
		time.Sleep(time.Minute)
		if after := writes.Load(); before == 0 || after > before {
			t.Errorf("%d writes were begun before Close was over, and %d after that",
				before, after-before)
		}
	})
}

// Progress in floods, while answers come: none is lost over it, and none of it
// comes after the result.
func TestProgressWhileAnswersCome(t *testing.T) {
	r, pauses := many(t, 4)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			err := r.Progress(t.Context(), chat, pauses[i%4].Call, user,
				tool.Progress{Message: fmt.Sprint(i)})
			if err != nil && !errors.Is(err, session.ErrSettled) {
				t.Error(err)
				return
			}
		}
	}()
	for i, p := range pauses {
		want := event.FinishPaused
		if i == len(pauses)-1 {
			want = event.FinishStop
		}
		r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(want)
	}
	close(stop)
	<-ended
	r.acceptable()
}

func failNext(r *rig) faultkv.Fault { return faultkv.FailAt(r.faults.Applies() + 1) }

// Cancel and Progress that name a pause are about that one: once it was
// answered they do nothing.
func TestCancelAndProgressOfAPauseThatIsOver(t *testing.T) {
	entered := 0
	twice := tool.Must(tool.Func(tool.Spec{Name: "job", Description: "j",
		MayPause: true, Effect: tool.Idempotent},
		func(ctx context.Context, _ struct{}) (tool.Result[textOut], error) {
			if entered++; entered > 2 {
				return tool.Done(textOut{"done"}), nil
			}
			return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter}), nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{twice}, Model: messages(calls("job", `{}`), says("Done.")),
	}, nil)
	ctx := t.Context()
	first := r.say("Go.").finished(event.FinishPaused).pause("job")
	cancel := func(pause string) error {
		_, err := r.Cancel(ctx, chat, pause, "ci", "")
		return err
	}
	progress := func(pause string) error {
		return r.Progress(ctx, chat, pause, "ci", tool.Progress{Message: "half"})
	}
	for name, do := range map[string]func(string) error{"cancel": cancel, "progress": progress} {
		if err := do(session.PauseID(first.Call, 2)); !errors.Is(err, session.ErrUnknownPause) {
			t.Errorf("%s of a pause that nobody asked for: %v", name, err)
		}
	}
	must(t, progress(first.ID))

	_, err := r.Resume(ctx, chat, runner.Complete(first.ID, "ci", text("v")))
	must(t, err)
	for name, do := range map[string]func(string) error{"cancel": cancel, "progress": progress} {
		if err := do(first.ID); !errors.Is(err, session.ErrNotPaused) {
			t.Errorf("%s of an answered pause: %v", name, err)
		}
	}
	second := r.carryOn().finished(event.FinishPaused).pause("job")
	for name, do := range map[string]func(string) error{"cancel": cancel, "progress": progress} {
		if err := do(first.ID); !errors.Is(err, session.ErrNotPaused) {
			t.Errorf("%s of an answered pause, while the next is open: %v", name, err)
		}
	}
	must(t, cancel(second.ID))
	if receipt, err := r.Cancel(ctx, chat, second.ID, "ci", ""); err != nil || !receipt.Duplicate {
		t.Errorf("cancelled again: %+v, %v", receipt, err)
	}
	if err := cancel(first.ID); !errors.Is(err, session.ErrCancelled) {
		t.Errorf("cancel of an answered pause of a cancelled call: %v", err)
	}
	r.carryOn().finished(event.FinishStop)
}

// TestFloodOfProgressIsCoalesced: it is shown at once, and written four times a
// second at most.
func TestFloodOfProgressIsCoalesced(t *testing.T) {
	var n counter
	now := newClock()
	r := newRig(t, oneCall(waiting("job", tool.Once, &n)),
		&rigOptions{session: &session.Options{Now: now.now}})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	before := r.faults.Commits()
	for range 1000 {
		now.pass(time.Millisecond)
		must(t, r.Progress(t.Context(), chat, p.Call, user, tool.Progress{Message: "x"}))
	}
	if got := r.faults.Commits() - before; got > 5 {
		t.Errorf("a second of it took %d commits", got)
	}
}
