package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A call that settles while no drive holds its session is shown by the next
// drive, once, and by no other.
func TestSettledWhileNobodyDrives(t *testing.T) {
	// start is a rig of which the calls wait, but for the last one, which is
	// done. The clock stands.
	start := func(t *testing.T, waits int) (*rig, *clock, []tool.Pause) {
		var n counter
		at := newClock()
		asked := calls("weather", `{"text":"Oslo"}`)
		for range waits {
			asked = append(calls("deploy", `{"text":"job"}`), asked...)
		}
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{
				waiting("deploy", tool.Once, &n), instant("weather", tool.ReadOnly, &n),
			},
			Model: messages(asked, says("Done."), says("And that, too.")),
		}, &rigOptions{session: &session.Options{Now: at.now}})
		s := r.say("Go.").finished(event.FinishPaused)
		shows(t, s, "weather done")
		return r, at, s.end.Pending
	}
	settle := map[string]func(r *rig, at *clock, p tool.Pause) error{
		"failed": func(r *rig, _ *clock, p tool.Pause) error {
			_, err := r.Resume(t.Context(), chat, runner.Fail(p.ID, "ci", "red", false))
			return err
		},
		"cancelled": func(r *rig, _ *clock, p tool.Pause) error {
			_, err := r.Cancel(t.Context(), chat, p.Call, "ada", "no")
			return err
		},
		"expired": func(r *rig, at *clock, p tool.Pause) error {
			at.pass(2 * time.Hour)
			if _, err := r.Resume(t.Context(), chat,
				runner.Complete(p.ID, "ci", text("late"))); !errors.Is(err, session.ErrExpired) {
				return err
			}
			return nil
		},
	}
	drives := map[string]func(r *rig) *seen{
		"by Continue": (*rig).carryOn,
		"by Run":      func(r *rig) *seen { return r.say("And?") },
		"by Resume": func(r *rig) *seen { // of something that was accepted before
			res, err := r.Resume(t.Context(), chat,
				runner.Fail(r.transcript().History[1].ToolCalls()[0].ID, "ci", "red", false))
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
		r.works(func(ev event.Event) bool {
			s.events = append(s.events, ev)
			_, end := ev.(event.End)
			return end
		})
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
		shows(t, r.carryOn().finished(event.FinishStop), "deploy failed") // the other one
	})
}

// What a body returns when its caller has left, or what settled while the
// caller was about to leave, is shown by the next drive, once.
func TestSettledAfterTheCallerLeft(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow, entered, let := heldUp("slow", "late")
				var n counter
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{slow, instant("weather", tool.ReadOnly, &n)},
					Model: messages(append(calls("slow", `{"text":"x"}`),
						calls("weather", `{"text":"Oslo"}`)...), says("Done.")),
				}, nil)
				s := &seen{t: t}
				for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
					must(t, err)
					s.events = append(s.events, ev)
					if _, ok := ev.(event.Result); ok {
						<-entered // no body is entered once its caller has left
						break
					}
				}
				shows(t, s, "weather done")
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
	// two returns a rig of which two calls have failed while no drive was
	// there.
	two := func(t *testing.T, o *rigOptions) *rig {
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
			Model: messages(append(calls("deploy", `{"text":"a"}`),
				calls("deploy", `{"text":"b"}`)...), says("Done.")),
		}, o)
		var answers []runner.Resumption
		for _, p := range r.say("Go.").finished(event.FinishPaused).end.Pending {
			answers = append(answers, runner.Fail(p.ID, "ci", "red", false))
		}
		_, err := r.Resume(t.Context(), chat, answers...)
		must(t, err)
		return r
	}
	t.Run("by a panic", func(t *testing.T) {
		r := two(t, nil)
		func() {
			defer func() { _ = recover() }()
			for ev := range r.Continue(t.Context(), chat, user) {
				if _, ok := ev.(event.Result); ok {
					panic("it can't be drawn")
				}
			}
		}()
		// the first was not taken in
		shows(t, r.carryOn().finished(event.FinishStop), "deploy failed", "deploy failed")
	})
	t.Run("or a result can't be read", func(t *testing.T) {
		h := new(hooked)
		r := two(t, &rigOptions{wrap: h.shared})
		h.get = func(key []byte) error {
			if !strings.HasPrefix(string(key), "c\x00") {
				return nil
			}
			h.get = nil
			return errAway
		}
		s := r.carryOn()
		if !errors.Is(s.err, errAway) {
			t.Fatalf("it ended with %v", s.err)
		}
		shows(t, s)
		shows(t, r.carryOn().finished(event.FinishStop), "deploy failed", "deploy failed")
	})
	t.Run("both before", func(t *testing.T) {
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
			Model: messages(append(calls("deploy", `{"text":"a"}`),
				calls("deploy", `{"text":"b"}`)...), says("Done.")),
		}, nil)
		s := r.say("Go.").finished(event.FinishPaused)
		var answers []runner.Resumption
		for _, p := range s.end.Pending {
			answers = append(answers, runner.Fail(p.ID, "ci", "red", false))
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

// What a drive has shown it doesn't show again when another commit makes it
// start over; it shows only what that has changed.
func TestShownOnceThoughTheDriveStartsOver(t *testing.T) {
	var n counter
	var r *rig
	var s *seen
	turns := messages(calls("deploy", `{"text":"a"}`, "deploy", `{"text":"b"}`,
		"weather", `{"text":"c"}`), says("Done."))
	asked := 0
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n), instant("weather", tool.ReadOnly, &n)},
		Model: streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
			if asked++; asked == 2 { // the results are not stored yet
				_, err := r.Cancel(context.Background(), chat, s.end.Pending[1].Call, "bob", "no")
				must(t, err)
			}
			return turns.Generate(ctx, req)
		}),
	}, nil)
	s = r.say("Go.").finished(event.FinishPaused)
	shows(t, s, "weather done")
	_, err := r.Resume(t.Context(), chat, runner.Fail(s.end.Pending[0].ID, "ci", "red", false),
		runner.Complete(s.end.Pending[1].ID, "ci", text("x")))
	must(t, err)
	shows(t, r.carryOn().finished(event.FinishStop), "deploy failed",
		"deploy done", "deploy cancelled")
	r.acceptable()
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

// TestResultsOfACancelledSessionAreShown: by the next run, once, with what the
// session's other calls showed before left out.
func TestResultsOfACancelledSessionAreShown(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("job", `{"text":"a"}`).And("act", `{"text":"c"}`),
			fakellm.Says("Next."), fakellm.Says("More.")),
		Tools: []tool.Tool{waiting("job", tool.Once, &n), instant("act", tool.ReadOnly, &n)},
	}, nil)
	shows(t, r.say("Go.").finished(event.FinishPaused), "act done")
	must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
	r.restart()
	run := r.say("Something else.").finished(event.FinishStop)
	shows(t, run, "job cancelled")
	if m, ok := run.events[1].(event.Message); !ok || m.Number != 2 ||
		m.Message.Role != llm.RoleTool {
		t.Errorf("after the result it shows %+v", run.events[1])
	}
	shows(t, r.say("And?").finished(event.FinishStop))
	r.acceptable()
}

// TestResultsAreShownOnceBesideRefusedMessages: those that settled while no
// drive was there, also if each message that comes is refused.
func TestResultsAreShownOnceBesideRefusedMessages(t *testing.T) {
	for name, test := range map[string]struct {
		settle  func(r *rig, p []tool.Pause) error
		id      string // of the message that is refused
		refused error
		shown   []string
		left    int // calls that wait
	}{
		"of a session that was cancelled": {
			func(r *rig, _ []tool.Pause) error {
				return r.CancelSession(t.Context(), chat, user, "enough")
			},
			"m1", session.ErrMessageConflict, []string{"job cancelled", "job cancelled"}, 0,
		},
		"of a call that was cancelled": {
			func(r *rig, p []tool.Pause) error {
				_, err := r.Cancel(t.Context(), chat, p[0].Call, user, "enough")
				return err
			},
			"m3", session.ErrPending, []string{"job cancelled"}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
				Model: messages(says("Hello."),
					calls("job", `{"text":"a"}`, "job", `{"text":"b"}`), says("Done."))}, nil)
			run := func(text, id string) *seen {
				return watch(t, r.Run(t.Context(), user, chat, llm.UserText(text),
					&runner.RunOptions{MessageID: id}))
			}
			run("Hello.", "m1").finished(event.FinishStop)
			must(t, test.settle(r, run("Go.", "m2").finished(event.FinishPaused).end.Pending))
			for i := range 3 {
				s := run("Something else.", test.id)
				if !errors.Is(s.err, test.refused) {
					t.Fatalf("the message is not refused: %v", s.err)
				}
				if i == 0 {
					shows(t, s, test.shown...)
				} else {
					shows(t, s)
				}
				if got := r.transcript(); len(got.Pending) != test.left ||
					len(got.History) != 4+min(1, 1-test.left) {
					t.Errorf("%d calls wait, and the history is %v", len(got.Pending), got.History)
				}
			}
			r.restart()
			shows(t, run("Something else.", test.id))
			if test.left == 0 {
				r.acceptable()
			}
		})
	}
}
