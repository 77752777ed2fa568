package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
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

// Twenty sessions have accepted answers, and one kills the process that drives
// it. Through crashes and deploys all twenty are carried on, none is failed,
// and the one is set aside after five takeovers.
func TestBesideASessionThatKills(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const innocents = 20
				var n counter
				var r *rig
				died := make(chan struct{}, 1)
				deadly := tool.Must(tool.Func(tool.Spec{Name: "deadly", Effect: tool.Idempotent},
					func(context.Context, struct{}) (tool.Result[textOut], error) {
						n.add("deadly")
						time.Sleep(100 * time.Millisecond)
						r.faults.Kill()
						died <- struct{}{}
						return tool.Done(textOut{"?"}), nil
					}))
				jobs, kills := messages(calls("job", `{"text":"j"}`), says("Done.")),
					messages(calls("deadly", `{}`), says("Done."))
				model := streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
					if strings.Contains(req.Messages[0].Text(), "kill") {
						return kills.Generate(ctx, req)
					}
					if len(req.Messages) > 1 { // longer than the one that kills
						select {
						case <-time.After(300 * time.Millisecond):
						case <-ctx.Done():
							return func(yield func(llm.Event, error) bool) { yield(nil, ctx.Err()) }
						}
					}
					return jobs.Generate(ctx, req)
				})
				r = newRig(t, agent.Config{
					Tools: []tool.Tool{waiting("job", tool.Idempotent, &n), deadly}, Model: model,
				}, &rigOptions{wrap: wrap})
				for i := range innocents {
					id := fmt.Sprint("job-", i)
					p := watch(t, r.Run(t.Context(), user, id,
						llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("job")
					must2(r.Resume(t.Context(), id, runner.Complete(p.ID, "ci", text("v"))))
				}
				watch(t, r.Run(t.Context(), user, "killer", llm.UserText("Please kill."),
					&runner.RunOptions{Detached: true}))
				<-died
				for range 6 {
					r.restart()                               // after the crash
					workFor(t, 50*time.Millisecond, r.Runner) // a deploy
					must(t, r.Close())
					r.restart() // in order
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					ended := make(chan struct{})
					go func() { defer close(ended); _ = r.Work(ctx, nil) }()
					select {
					case <-died:
					case <-ended: // it isn't tried any more
					}
					cancel()
					<-ended
				}
				r.restart()
				for s, err := range r.Sessions(t.Context(), session.Filter{}, user) {
					must(t, err)
					want := event.FinishStop
					if s.ID == "killer" {
						want = event.FinishFailed
					}
					if s.Finish != want {
						t.Errorf("session %s is %q: %s", s.ID, s.Finish, s.Why)
					}
				}
				if got := n.get("deadly"); got != 6 { // the first time, and five takeovers
					t.Errorf("the one that kills was entered %d times", got)
				}
			})
		})
	}
}

// A model's adapter that kills the process: nothing of the session was in
// flight, so it is never set aside. Workers try it ever less often, in
// whichever process, and the list tells why and when. It goes on by itself as
// soon as it can.
func TestSessionsThatDidNothingBackOff(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r *rig
				var tries []time.Time
				died, healed := make(chan struct{}, 1), false
				script := messages(says("Done."))
				model := streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
					if tries = append(tries, time.Now()); healed {
						return script.Generate(ctx, req)
					}
					r.faults.Kill()
					died <- struct{}{}
					return func(yield func(llm.Event, error) bool) {
						yield(nil, errors.New("the process is dead"))
					}
				})
				r = newRig(t, agent.Config{Model: model}, &rigOptions{wrap: wrap})
				watch(t, r.Run(t.Context(), user, chat, llm.UserText("Go."),
					&runner.RunOptions{Detached: true}))
				<-died
				const deaths = 12
				for range deaths {
					r.restart()
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					ended := make(chan struct{})
					go func() { defer close(ended); _ = r.Work(ctx, nil) }()
					select {
					case <-died:
					case <-ended:
						t.Fatalf("after %d tries it is not tried again", len(tries))
					}
					cancel()
					<-ended
				}
				r.restart()
				_ = r.transcript()
				time.Sleep(2 * session.DefaultLease) // until the dead drive is known to be dead
				got := r.transcript().Session
				if got.Finish != "" || got.Deaths < deaths-1 ||
					!strings.Contains(got.Why, "died") || !got.Again.After(time.Now()) {
					t.Errorf("it is shown as %+v", got)
				}
				healed = true
				ctx, cancel := context.WithTimeout(t.Context(), time.Until(got.Again)+time.Minute)
				defer cancel()
				must(t, r.Work(ctx, &runner.WorkOptions{Session: chat, UntilOver: true}))
				if first, last := tries[2].Sub(tries[1]),
					tries[deaths].Sub(tries[deaths-1]); last < time.Minute || first > last {
					t.Errorf("the second try came after %v, the last but one after %v", first, last)
				}
				if at := tries[len(tries)-1]; at.Before(got.Again) {
					t.Errorf("it was tried at %v, and is shown as waiting until %v", at, got.Again)
				}
				if got := r.transcript(); got.Finish != event.FinishStop || got.Deaths != 0 ||
					!got.Again.IsZero() {
					t.Errorf("at last it is shown as %+v", got.Session)
				}
			})
		})
	}
}

// A body that ignores its context is left behind by Close, deploy after deploy:
// that is no death, and the session goes on.
func TestDeploysAroundABodyThatDoesNotEnd(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var takes, entered atomic.Int64
				takes.Store(int64(time.Hour))
				slow := does(tool.Spec{Name: "slow", Effect: tool.Idempotent},
					func(context.Context, string) (tool.Result[textOut], error) {
						entered.Add(1)
						time.Sleep(time.Duration(takes.Load()))
						return tool.Done(textOut{"done"}), nil
					})
				r := newRig(t, agent.Config{Tools: []tool.Tool{slow},
					Model: messages(calls("slow", `{"text":"a"}`), says("Done."))},
					&rigOptions{memory: true, wrap: wrap})
				work := func(ctx context.Context) error {
					return r.Work(ctx, &runner.WorkOptions{Session: chat, UntilOver: true})
				}
				begun, leave := context.WithTimeout(t.Context(), time.Second)
				defer leave()
				watch(t, r.Run(begun, user, chat, llm.UserText("Go."),
					&runner.RunOptions{Detached: true}))
				const deploys = 7
				for i := range deploys {
					if err := r.Close(); err == nil {
						t.Fatal("the body has ended")
					}
					r.restart()
					if i == deploys-1 {
						takes.Store(int64(time.Second))
					}
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					err := work(ctx)
					cancel()
					if got := r.transcript(); got.Deaths != 0 || (err == nil) != (i == deploys-1) {
						t.Errorf("after deploy %d it is %+v: %v", i, got.Session, err)
					}
				}
				if got := r.transcript(); got.Finish != event.FinishStop ||
					entered.Load() != deploys+1 {
					t.Errorf("the body was entered %d times, and the session is left as %q: %s",
						entered.Load(), got.Finish, got.Why)
				}
				r.acceptable()
				time.Sleep(time.Hour) // until the bodies that were left have ended
			})
		})
	}
}

// A session that kills each of its drives is left alone after five takeovers,
// as failed and in the list of sessions. Continue tries again.
func TestSessionThatKillsItsDriver(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			var r *rig
			entered, deadly := 0, true
			act := tool.Must(tool.Func(tool.Spec{Name: "act", Effect: tool.Idempotent},
				func(context.Context, struct{}) (tool.Result[textOut], error) {
					if entered++; deadly {
						r.faults.Kill()
					}
					return tool.Done(textOut{"ok"}), nil
				}))
			cl := newClock()
			r = newRig(t, agent.Config{Tools: []tool.Tool{act},
				Model: messages(calls("act", `{}`), says("Done."))},
				&rigOptions{wrap: wrap, session: &session.Options{Now: cl.now,
					MaxSkew: time.Millisecond}})
			r.say("Go.")
			work := func() {
				cl.pass(time.Minute) // until the dead one's lease is over
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				_ = r.Work(ctx,
					&runner.WorkOptions{OnEvent: func(_ string, ev event.Event, err error) {
						if _, ok := ev.(event.End); ok || err != nil {
							cancel()
						}
					}})
			}
			for entered < 20 {
				r.restart()
				work()
				r.restart()
				if s := r.transcript(); s.Finish == event.FinishFailed {
					break
				}
			}
			if entered != 6 { // the first time, and five takeovers
				t.Errorf("the body was entered %d times", entered)
			}
			var listed []runner.Session
			for s, err := range r.Sessions(t.Context(), session.Filter{}, user) {
				must(t, err)
				listed = append(listed, s)
			}
			if len(listed) != 1 || listed[0].Finish != event.FinishFailed {
				t.Errorf("the list says %+v", listed)
			}
			deadly = false
			r.carryOn().finished(event.FinishStop)
			r.acceptable()
		})
	}
}

// A process dies that held a session for a body whose caller had left. The run
// was interrupted, and is for no worker: one gives the dead one's lease up,
// once, and is at rest.
func TestWorkerGivesUpWhatADeadDriveHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		stubborn := tool.Must(tool.Func(tool.Spec{Name: "stubborn",
			Description: "Ignores its context."},
			func(_ context.Context, in textIn) (tool.Result[textOut], error) {
				close(entered)
				<-release
				return tool.Done(textOut(in)), nil
			}))
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{stubborn},
			Model: fakellm.New(fakellm.Calls("stubborn", `{"text":"a"}`), fakellm.Says("Done.")),
		}, &rigOptions{memory: true, wrap: hidden})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go func() { <-entered; leave() }()
		watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil))
		r.faults.Kill()
		r.restart()
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		var drives atomic.Int32
		_ = r.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
			if _, ok := ev.(event.End); ok && drives.Add(1) > 100 {
				stop()
			}
		}})
		if got := drives.Load(); got != 1 {
			t.Errorf("the worker drove it %d times", got)
		}
		r.carryOn().finished(event.FinishStop)
		close(release)
		must(t, r.Close())
	})
}
