package runner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// A call that settles while nobody drives its session is shown by the next drive, once, and by no other.
func TestSettledWhileNobodyDrives(t *testing.T) {
	// start is a rig of which the calls wait, but for the last one, which is done. The clock stands.
	start := func(t *testing.T, waits int) (*rig, *clock, []tool.Pause) {
		var n counter
		at := newClock()
		asked := calls("weather", `{"text":"Oslo"}`)
		for range waits {
			asked = append(calls("deploy", `{"text":"job"}`), asked...)
		}
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Once, &n), instant("weather", tool.ReadOnly, &n)},
			Model: messages(asked, says("Done."), says("And that, too.")),
		}, &rigOptions{session: &session.Options{Now: at.now}})
		s := r.say("Go.").finished(event.FinishPaused)
		shows(t, s, "weather done")
		return r, at, s.end.Pending
	}
	settle := map[string]func(r *rig, at *clock, p tool.Pause) error{
		"failed": func(r *rig, _ *clock, p tool.Pause) error {
			_, err := r.Resume(t.Context(), chat, runner.Fail(p.ID, "red", "ci", false))
			return err
		},
		"cancelled": func(r *rig, _ *clock, p tool.Pause) error {
			_, err := r.Cancel(t.Context(), chat, p.Call, "ada", "no")
			return err
		},
		"expired": func(r *rig, at *clock, p tool.Pause) error {
			at.pass(2 * time.Hour)
			if _, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, text("late"), "ci")); !errors.Is(err, session.ErrExpired) {
				return err
			}
			return nil
		},
	}
	drives := map[string]func(r *rig) *seen{
		"by Continue": (*rig).carryOn,
		"by Run":      func(r *rig) *seen { return r.say("And?") },
		"by Resume": func(r *rig) *seen { // of something that was accepted before
			res, err := r.Resume(t.Context(), chat, runner.Fail(r.transcript().History[1].ToolCalls()[0].ID, "red", "ci", false))
			if err != nil {
				return r.carryOn()
			}
			return watch(r.t, res.Events(t.Context()))
		},
	}
	for how, settle := range settle {
		for by, drive := range drives {
			for _, restart := range []bool{false, true} {
				name := how + " " + by
				if restart {
					name += " after a restart"
				}
				t.Run(name, func(t *testing.T) {
					r, at, p := start(t, 1)
					must(t, settle(r, at, p[0]))
					if restart {
						r.restart()
					}
					shows(t, drive(r).finished(event.FinishStop), "deploy "+how)
					r.acceptable()
				})
			}
		}
	}
	t.Run("though the turn stays open", func(t *testing.T) {
		r, _, p := start(t, 2)
		for _, c := range must2(r.store.Load(t.Context(), chat)).Calls {
			if c.Unshown {
				t.Errorf("its drive has settled and shown %s, and it is marked", c.Tool)
			}
		}
		must(t, settle["failed"](r, nil, p[0]))
		shows(t, r.carryOn().finished(event.FinishPaused), "deploy failed")
		before := r.faults.Commits()
		shows(t, r.carryOn().finished(event.FinishPaused))
		if r.faults.Commits() != before {
			t.Error("a drive without anything to do has written")
		}
		must(t, settle["cancelled"](r, nil, p[1]))
		r.restart()
		shows(t, r.carryOn().finished(event.FinishStop), "deploy cancelled")
	})
	t.Run("by a worker", func(t *testing.T) {
		r, _, p := start(t, 1)
		must(t, settle["failed"](r, nil, p[0]))
		s := &seen{t: t}
		r.works(func(ev event.Event) bool { s.events = append(s.events, ev); _, end := ev.(event.End); return end })
		shows(t, s, "deploy failed")
	})
	t.Run("also where the message that finds it is refused", func(t *testing.T) {
		r, _, p := start(t, 2)
		must(t, settle["failed"](r, nil, p[0]))
		s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("And?"), nil))
		if !errors.Is(s.err, session.ErrPending) {
			t.Errorf("the message is told %v", s.err)
		}
		shows(t, s, "deploy failed")
		must(t, settle["failed"](r, nil, p[1]))
		shows(t, r.carryOn().finished(event.FinishStop), "deploy failed", "deploy failed") // nothing was committed when it was first shown
	})
}

// What a body comes back with when its caller has left, or what settled while the caller made up his mind to leave, is shown by the
// next drive, once.
func TestSettledAfterTheCallerLeft(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				entered, let := make(chan struct{}), make(chan struct{})
				slow := does(tool.Spec{Name: "slow"}, func(context.Context, string) (tool.Result[textOut], error) {
					close(entered)
					<-let
					return tool.Done(textOut{"late"}), nil
				})
				var n counter
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{slow, instant("weather", tool.ReadOnly, &n)},
					Model: messages(append(calls("slow", `{"text":"x"}`), calls("weather", `{"text":"Oslo"}`)...), says("Done.")),
				}, nil)
				s := &seen{t: t}
				for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
					must(t, err)
					s.events = append(s.events, ev)
					if _, ok := ev.(event.Result); ok {
						break
					}
				}
				shows(t, s, "weather done")
				<-entered
				close(let)
				r.idle()
				if restart {
					r.restart()
				}
				shows(t, r.carryOn().finished(event.FinishStop), "slow done")
				r.acceptable()
			})
		})
	}
	t.Run("both before", func(t *testing.T) {
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
			Model: messages(append(calls("deploy", `{"text":"a"}`), calls("deploy", `{"text":"b"}`)...), says("Done.")),
		}, nil)
		s := r.say("Go.").finished(event.FinishPaused)
		var answers []runner.Resumption
		for _, p := range s.end.Pending {
			answers = append(answers, runner.Fail(p.ID, "red", "ci", false))
		}
		res, err := r.Resume(t.Context(), chat, answers...)
		must(t, err)
		first := &seen{t: t}
		for ev, err := range res.Events(t.Context()) {
			must(t, err)
			first.events = append(first.events, ev)
			break
		}
		shows(t, first, "deploy failed")
		shows(t, r.carryOn().finished(event.FinishStop), "deploy failed")
	})
}

// shows checks which results were shown.
func shows(t *testing.T, s *seen, want ...string) {
	t.Helper()
	var got []string
	for _, ev := range of[event.Result](s) {
		got = append(got, ev.Result.Name+" "+string(ev.Status))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the results shown are (-want +got):\n%s", diff)
	}
}
