package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// line is an event as the tests of followers write it; empty: one that tells of
// nothing committed.
func line(ev event.Event) string {
	switch ev := ev.(type) {
	case event.Message:
		return fmt.Sprintf("message %d %s", ev.Number, ev.Message.Role)
	case event.Pause:
		return "pause " + ev.Pause.Tool + " " + string(ev.Pause.Arguments)
	case event.Result:
		return "result " + ev.Result.Name + " " + string(ev.Result.Output)
	case event.End:
		return "end " + string(ev.Finish)
	}
	return ""
}

// A follower that stays is shown all of a chat: two messages, pauses of which
// one settles after the other, and the end of each run. One that comes back
// behind any of these events is shown what followed it: while the turn is open,
// when the runs are over, and again in another process.
func TestFollowersComeBackBehindAnyEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
			Model: fakellm.New(asks("deploy", "a", "b", "c"), fakellm.Says("Deployed."),
				fakellm.Says("You're welcome.")),
		}, &rigOptions{memory: true})
		var shown []event.Event
		ctx, leave := context.WithCancel(t.Context())
		follow := func() {
			for ev, err := range r.Follow(ctx, chat, user, &runner.FollowOptions{Stay: true}) {
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				if line(ev) != "" {
					shown = append(shown, ev)
				}
			}
		}
		// missed is what a follower is shown behind an event, up to now.
		missed := func(rn *runner.Runner, after string) (lines []string) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			go func() { synctest.Wait(); leave() }()
			for ev, err := range rn.Follow(ctx, chat, user,
				&runner.FollowOptions{After: after, Stay: true}) {
				if err == nil {
					lines = append(lines, line(ev))
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			return lines
		}
		lines := func(events []event.Event) (lines []string) {
			for _, ev := range events {
				lines = append(lines, line(ev))
			}
			return lines
		}
		cursors := func() {
			t.Helper()
			for i, ev := range shown {
				if event.Cursor(ev) == "" {
					t.Fatalf("%q has no cursor", line(ev))
				}
				// A pause that is over is not shown again, and neither is an end that
				// more has followed.
				want := lines(shown[i+1:])
				over := map[string]bool{}
				for _, later := range shown[i+1:] {
					if res, ok := later.(event.Result); ok {
						over[res.Result.Call] = true
					}
				}
				want = want[:0]
				for j, later := range shown[i+1:] {
					switch ev := later.(type) {
					case event.Pause:
						if over[ev.Pause.Call] {
							continue
						}
					case event.End:
						if i+1+j < len(shown)-1 {
							continue
						}
					}
					want = append(want, line(later))
				}
				// What is new of several calls comes in call order.
				got := missed(r.Runner, event.Cursor(ev))
				slices.Sort(want)
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("behind %q, %s, is shown (-want +got):\n%s", line(ev), event.Cursor(ev), diff)
				}
			}
		}
		pauses := r.say("Deploy.").finished(event.FinishPaused).end.Pending
		go follow()
		synctest.Wait()
		cursors()
		for _, i := range []int{0, 1} {
			must2(r.Resume(t.Context(), chat, runner.Complete(pauses[i].ID, "ci", text(fmt.Sprint("v", i)))))
			r.carryOn().finished(event.FinishPaused)
			synctest.Wait()
			cursors()
		}
		r.answer(runner.Complete(pauses[2].ID, "ci", text("v2"))).finished(event.FinishStop)
		synctest.Wait()
		cursors()
		r.say("Thanks.").finished(event.FinishStop)
		synctest.Wait()
		cursors()
		if diff := cmp.Diff([]string{
			"message 0 user", "message 1 assistant",
			`pause deploy {"text":"a"}`, `pause deploy {"text":"b"}`, `pause deploy {"text":"c"}`,
			"end paused",
			`result deploy {"text":"v0"}`, "end paused", `result deploy {"text":"v1"}`, "end paused",
			`result deploy {"text":"v2"}`, "message 2 tool", "message 3 assistant", "end stop",
			"message 4 user", "message 5 assistant", "end stop",
		}, lines(shown)); diff != "" {
			t.Errorf("it is shown (-want +got):\n%s", diff)
		}
		other := r.another()
		last := missed(other, event.Cursor(shown[8]))
		if diff := cmp.Diff(lines(shown[10:13]), last[:3]); diff != "" {
			t.Errorf("another process shows (-want +got):\n%s", diff)
		}
		leave()
		r.Close()
		other.Close()
	})
}

// TestFollowRefusesCursors: those that no event had, and those of another
// session.
func TestFollowRefusesCursors(t *testing.T) {
	r := newRig(t, agent.Config{Model: fakellm.New(fakellm.Says("Hello."))},
		&rigOptions{memory: true})
	r.say("Hi.").finished(event.FinishStop)
	for _, cursor := range []string{
		"x", "-1", "3", "1.", "1.x", "1.p", "1.p0", "1~", "1~aaaaaaaaaaaaaaaaa", " 1", "1 ",
		"99999999999999999999", "1.p99999999999999999999", "1." + string(make([]byte, 100)),
	} {
		s := watch(t, r.Follow(t.Context(), chat, user, &runner.FollowOptions{After: cursor}))
		if cursor == "1." { // nothing of a turn
			s.finished(event.FinishStop)
		} else if !errors.Is(s.err, runner.ErrInvalidCursor) || len(s.events) > 0 {
			t.Errorf("behind %q it shows %v, %v", cursor, s.events, s.err)
		}
	}
}

// A follower that stays is told when its session is deleted.
func TestFollowEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, agent.Config{Model: fakellm.New(fakellm.Says("Hello."))},
			&rigOptions{memory: true})
		r.say("Hi.").finished(event.FinishStop)
		f := follows(t, r.Follow(t.Context(), chat, user, &runner.FollowOptions{Stay: true}))
		f.sees("message 0 user", "message 1 assistant", "end stop")
		time.Sleep(time.Hour)
		must(t, r.Delete(t.Context(), chat, user))
		if _, err, _ := f.next(); !errors.Is(err, session.ErrDeleted) {
			t.Errorf("it ended with %v", err)
		}
		r.Close()
	})
}
