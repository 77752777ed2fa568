package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// heardOf is a rig with a job that must be heard of, and its pause.
func heardOf(t *testing.T, await tool.Await) (*rig, *clock, tool.Pause) {
	t.Helper()
	var n counter
	cl := newClock()
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{starting(tool.Once, &n,
			func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
				if call.Answer != nil {
					return tool.Done(textOut{"timed out"}), nil
				}
				return tool.Pending[textOut](await), nil
			})},
		Model: messages(calls("deploy", `{"text":"a"}`), says("I see.")),
	}, at(cl))
	return r, cl, r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
}

// A job that is heard of in time goes on, for as long as it takes; one that
// isn't has failed, and may be tried again.
func TestHeartbeats(t *testing.T) {
	r, cl, p := heardOf(t, tool.Await{Heartbeat: time.Minute})
	if !p.Beat.Due.Equal(cl.now().Add(time.Minute)) || p.Beat.EveryMS != 60_000 ||
		p.Await.Heartbeat != time.Minute || !p.Deadline.IsZero() {
		t.Fatalf("the pause is %+v, with %+v", p, p.Beat)
	}
	must(t, r.Progress(t.Context(), chat, p.ID, "ci", tool.Progress{Message: "half"}))
	for i := range 5 {
		cl.pass(time.Minute - time.Millisecond)
		r.restart()
		beat, err := r.Heartbeat(t.Context(), chat, p.ID, "ci", tool.Progress{})
		if want := cl.now().Add(time.Minute); err != nil || beat.Cancelled || !beat.Due.Equal(want) {
			t.Fatalf("heartbeat %d comes to %+v, %v", i, beat, err)
		}
	}
	open := r.transcript().Pending[0]
	if open.Progress == nil || open.Progress.Message != "half" {
		t.Errorf("a bare heartbeat leaves the progress %+v", open.Progress)
	}
	cl.pass(time.Minute)
	if _, err := r.Heartbeat(t.Context(), chat, p.ID, "ci", tool.Progress{}); !errors.Is(err,
		session.ErrSettled) || errors.Is(err, session.ErrExpired) {
		t.Errorf("one that is too late comes to %v", err)
	}
	r.carryOn().finished(event.FinishStop)
	if got := r.outputs()[0]; !strings.Contains(got, "nothing was heard of the outside job for 1m0s") ||
		!strings.Contains(got, "can be tried again") {
		t.Errorf("the model reads %s", got)
	}
	r.sound()
}

// Progress counts as a heartbeat, each time that it comes, also where it isn't
// stored since another one was just before.
func TestEachProgressIsAHeartbeat(t *testing.T) {
	r, cl, p := heardOf(t, tool.Await{Heartbeat: time.Second})
	for range 20 {
		cl.pass(100 * time.Millisecond)
		must(t, r.Progress(t.Context(), chat, p.Call, "ci", tool.Progress{Fraction: 0.5}))
	}
	cl.pass(time.Second - time.Millisecond)
	if got := r.transcript().Pending; len(got) != 1 {
		t.Fatalf("it waits no more, %v", r.outputs())
	}
	cl.pass(time.Millisecond)
	r.carryOn().finished(event.FinishStop)
}

func TestHeartbeatBesideADeadline(t *testing.T) {
	for name, c := range map[string]struct {
		await tool.Await
		beats bool
		want  string
	}{
		"the deadline first":     {tool.Await{Timeout: time.Minute}, false, "Expired."},
		"the deadline, with it":  {tool.Await{Timeout: time.Hour}, false, "Expired."},
		"the deadline, beating":  {tool.Await{Timeout: 90 * time.Minute}, true, "Expired."},
		"the heartbeat first":    {tool.Await{Timeout: 2 * time.Hour}, false, "nothing was heard"},
		"told of the deadline":   {tool.Await{Timeout: time.Hour, OnTimeout: tool.ReenterOnTimeout}, false, "timed out"},
		"not of the heartbeat":   {tool.Await{Timeout: 2 * time.Hour, OnTimeout: tool.ReenterOnTimeout}, false, "nothing was heard"},
		"the deadline, extended": {tool.Await{Timeout: time.Minute}, false, "nothing was heard"},
	} {
		t.Run(name, func(t *testing.T) {
			c.await.Heartbeat = time.Hour
			r, cl, p := heardOf(t, c.await)
			if name == "the deadline, extended" {
				must(t, r.Extend(t.Context(), chat, p.ID, "ada", time.Time{}))
			}
			for range 4 {
				cl.pass(30 * time.Minute)
				if c.beats {
					_, _ = r.Heartbeat(t.Context(), chat, p.ID, "ci", tool.Progress{})
				}
			}
			r.carryOn().finished(event.FinishStop)
			if got := r.outputs()[0]; !strings.Contains(got, c.want) {
				t.Errorf("the model reads %s", got)
			}
			r.sound()
		})
	}
}

// The sender of a heartbeat is told that its job is wanted no more.
func TestHeartbeatOfACancelledCall(t *testing.T) {
	r, _, p := heardOf(t, tool.Await{Heartbeat: time.Minute})
	_, err := r.Cancel(t.Context(), chat, p.Call, "ada", "enough")
	must(t, err)
	for _, report := range []tool.Progress{{}, {Fraction: 1}} {
		beat, err := r.Heartbeat(t.Context(), chat, p.ID, "ci", report)
		if err != nil || !beat.Cancelled {
			t.Errorf("it comes to %+v, %v", beat, err)
		}
	}
	if _, err := r.Heartbeat(t.Context(), chat, "nobody", "ci", tool.Progress{}); !errors.Is(err,
		session.ErrUnknownCall) {
		t.Errorf("an unknown call's comes to %v", err)
	}
}

// No caller is needed to find that a heartbeat was missed: a worker does.
func TestAWorkerFindsAMissedHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{starting(tool.Once, &n,
				func(context.Context, tool.Call) (tool.Result[textOut], error) {
					return tool.Pending[textOut](tool.Await{Heartbeat: time.Minute}), nil
				})},
			Model: messages(calls("deploy", `{"text":"a"}`), says("I see.")),
		}, nil)
		p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
		begun := time.Now()
		go func() {
			for range 10 {
				time.Sleep(50 * time.Second)
				_, err := r.Heartbeat(t.Context(), chat, p.ID, "ci", tool.Progress{})
				must(t, err)
			}
		}()
		must(t, r.Work(t.Context(), &runner.WorkOptions{Session: chat, UntilOver: true}))
		if took := time.Since(begun); took < 560*time.Second || took > 563*time.Second {
			t.Errorf("it was found after %v", took)
		}
		must(t, r.Close())
	})
}

func TestPausesThatHaveNoHeartbeat(t *testing.T) {
	for name, a := range map[string]tool.Await{
		"too often":  {Heartbeat: time.Second - 1},
		"negative":   {Heartbeat: -time.Second},
		"too seldom": {Heartbeat: 400 * 24 * time.Hour},
		"a question": {Reason: tool.ReasonInput, Heartbeat: time.Minute},
		"a timer":    {Reason: tool.ReasonTimer, Timeout: 1, Heartbeat: time.Minute},
		"a layer's":  {Gate: "approval", Heartbeat: time.Minute},
	} {
		if _, err := a.Normalize(); !errors.Is(err, tool.ErrInvalidAwait) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
