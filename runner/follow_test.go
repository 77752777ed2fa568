package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// followed takes the events of a Follow one by one, as lines.
type followed struct {
	t    *testing.T
	next func() (event.Event, error, bool)
}

func follows(t *testing.T, events iter.Seq2[event.Event, error]) *followed {
	next, stop := iter.Pull2(events)
	t.Cleanup(stop)
	return &followed{t, next}
}

// sees takes as many events as there are lines.
func (f *followed) sees(want ...string) {
	f.t.Helper()
	var got []string
	for range want {
		ev, err, more := f.next()
		if err != nil || !more {
			f.t.Fatalf("after %q it ended, with %v", got, err)
		}
		switch ev := ev.(type) {
		case event.Message:
			got = append(got, fmt.Sprintf("message %d %s", ev.Number, ev.Message.Role))
		case event.Pause:
			got = append(got, "pause "+ev.Pause.Tool)
		case event.Progress:
			got = append(got, "progress "+ev.Tool+" "+ev.Progress.Message)
		case event.Result:
			got = append(got, "result "+ev.Result.Name+" "+string(ev.Status))
		case event.End:
			got = append(got, "end "+string(ev.Finish))
		default:
			got = append(got, fmt.Sprintf("%T", ev))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Fatalf("it showed (-want +got):\n%s", diff)
	}
}

// ends fails the test unless there is no more.
func (f *followed) ends() {
	f.t.Helper()
	if ev, err, more := f.next(); more {
		f.t.Fatalf("after the end comes %+v, %v", ev, err)
	}
}

func TestFollowThroughWaits(t *testing.T) {
	through := &runner.FollowOptions{ThroughWaits: true}
	// start is a rig whose one call waits.
	start := func(t *testing.T) (*rig, tool.Pause) {
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
				fakellm.Says("Deployed.")),
		}, &rigOptions{memory: true})
		return r, r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	}
	report := func(t *testing.T, rn *runner.Runner, p tool.Pause, message string) {
		must(t, rn.Progress(t.Context(), chat, p.Call, user, tool.Progress{Message: message}))
	}
	begin := []string{"message 0 user", "message 1 assistant", "pause deploy"}
	t.Run("progress, the result, and what the next drive does", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, p := start(t)
			f := follows(t, r.Follow(t.Context(), chat, user, through))
			f.sees(begin...)
			at := time.Now()
			for _, message := range []string{"one", "two", "three"} { // of which one is stored
				report(t, r.Runner, p, message)
				f.sees("progress deploy " + message)
			}
			if time.Since(at) != 0 {
				t.Errorf("progress took %v", time.Since(at))
			}
			r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
			f.sees("result deploy done", "message 2 tool", "message 3 assistant", "end stop")
			f.ends()
			r.Close()
		})
	})
	t.Run("progress that another process reports, before and since", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, p := start(t)
			other := r.another()
			report(t, other, p, "before")
			f := follows(t, r.Follow(t.Context(), chat, user, through))
			f.sees(append(begin, "progress deploy before")...)
			time.Sleep(time.Second) // of the bubble: it is stored again
			at := time.Now()
			report(t, other, p, "since")
			f.sees("progress deploy since")
			if got := time.Since(at); got > 250*time.Millisecond {
				t.Errorf("it took %v", got)
			}
			r.Close()
			other.Close()
		})
	})
	t.Run("from some message on", func(t *testing.T) {
		r, p := start(t)
		f := follows(t, r.Follow(t.Context(), chat, user,
			&runner.FollowOptions{From: 1, ThroughWaits: true}))
		f.sees("message 1 assistant", "pause deploy")
		must2(r.Cancel(t.Context(), chat, p.Call, "ada", "no"))
		f.sees("result deploy cancelled")
		r.carryOn().finished(event.FinishStop)
		f.sees("message 2 tool", "message 3 assistant", "end stop")
		f.ends()
	})
	t.Run("until its context ends", func(t *testing.T) {
		r, _ := start(t)
		ctx, cancel := context.WithCancel(t.Context())
		f := follows(t, r.Follow(ctx, chat, user, through))
		f.sees(begin...)
		cancel()
		if _, err, _ := f.next(); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Run("or else a wait is the end", func(t *testing.T) {
		r, _ := start(t)
		f := follows(t, r.Follow(t.Context(), chat, user, nil))
		f.sees(append(begin, "end paused")...)
		f.ends()
	})
}

// A number below the first message's is the first, and no sign of damage.
func TestFollowFromBeforeTheFirst(t *testing.T) {
	r := newRig(t, agent.Config{Model: fakellm.New(fakellm.Says("Hello."))},
		&rigOptions{memory: true})
	r.say("Hi.").finished(event.FinishStop)
	s := watch(t, r.Follow(t.Context(), chat, user,
		&runner.FollowOptions{From: -1})).finished(event.FinishStop)
	if got := len(of[event.Message](s)); got != 2 {
		t.Errorf("it shows %d messages", got)
	}
}

// TestFollowTellsOfWorkThatNobodyDoes: once each time, and not while a drive,
// or a worker that takes a moment, is at it.
func TestFollowTellsOfWorkThatNobodyDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
				fakellm.Says("Deployed.")),
		}, &rigOptions{memory: true})
		p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
		must2(r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2"))))
		at := time.Now()
		f := follows(t, r.Follow(t.Context(), chat, user, nil))
		f.sees("message 0 user", "message 1 assistant")
		ev, err, _ := f.next()
		must(t, err)
		if got, ok := ev.(event.Undriven); !ok || got.Agent != "ops" ||
			time.Since(at) < 2*time.Second || time.Since(at) > 3*time.Second {
			t.Errorf("after %v it shows %+v", time.Since(at), ev)
		}
		time.Sleep(time.Hour) // and says so once
		r.carryOn().finished(event.FinishStop)
		f.sees("result deploy done", "message 2 tool", "message 3 assistant", "end stop")
		f.ends()
		r.Close()
	})
}
