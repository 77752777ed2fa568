package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// prints is a tool that makes two files before it waits, and two with its result.
func prints() tool.Tool {
	files := func(names ...string) (all []tool.Action) {
		for _, name := range names {
			all = append(all, tool.Action{Artifact: &tool.Artifact{
				Name: name, MediaType: "text/plain", Data: []byte(name)}})
		}
		return all
	}
	sure := tool.NewQuestion[string, int, bool]("sure")
	return tool.Must(tool.Resumable(tool.Spec{Name: "prints"},
		func(_ context.Context, in textIn) (tool.Result[string], error) {
			return tool.With(sure.Ask("Sure?", 1), files(in.Text+"1", in.Text+"2")...), nil
		},
		tool.On(sure, func(_ context.Context, in textIn, _ tool.Reply[int, bool]) (tool.Result[string], error) {
			return tool.With(tool.Done("printed"), files(in.Text+"3", in.Text+"4")...), nil
		})))
}

// artifactsShown returns what a follower is shown of artifacts, pauses and results, until
// nothing more comes, and the events.
func artifactsShown(
	t *testing.T, rn *runner.Runner, o runner.FollowOptions,
) (lines []string, events []event.Event) {
	ctx, leave := context.WithCancel(t.Context())
	o.Stay = true
	var quiet sync.WaitGroup
	quiet.Go(func() { synctest.Wait(); leave() })
	defer quiet.Wait()
	for ev, err := range rn.Follow(ctx, chat, user, &o) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("behind %s: %v", o.After, err)
			}
			break
		}
		switch ev := ev.(type) {
		case event.Artifact:
			lines = append(lines, "made "+ev.Artifact.Name)
		case event.Pause:
			lines = append(lines, "pause")
		case event.Result:
			lines = append(lines, "result")
		default:
			continue
		}
		events = append(events, ev)
	}
	return lines, events
}

// Followers are shown what calls make, in the order of the drive: while the turn
// is open and when it is over, and each file once to one who comes back behind
// any of the events.
func TestFollowersAreShownArtifacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, agent.Config{Tools: []tool.Tool{prints()},
			Model: fakellm.New(asks("prints", "a", "b"), fakellm.Says("Printed."))},
			&rigOptions{memory: true})
		pauses := r.say("Print.").finished(event.FinishPaused).end.Pending
		behindEach := func(want []string, from runner.FollowOptions) {
			t.Helper()
			got, events := artifactsShown(t, r.Runner, from)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("it is shown (-want +got):\n%s", diff)
			}
			for i, ev := range events {
				after := event.Cursor(ev)
				if got, _ := artifactsShown(t, r.Runner, runner.FollowOptions{After: after}); !slices.Equal(
					got, want[i+1:]) {
					t.Errorf("behind %q, %s, is shown %q, not %q", want[i], after, got, want[i+1:])
				}
			}
		}
		paused := []string{"made a1", "made a2", "pause", "made b1", "made b2", "pause"}
		behindEach(paused, runner.FollowOptions{})
		_, before := artifactsShown(t, r.Runner, runner.FollowOptions{})

		r.answer(runner.Complete(pauses[1].ID, "ada", []byte("true"))).finished(event.FinishPaused)
		behindEach([]string{"made a1", "made a2", "pause",
			"made b1", "made b2", "made b3", "made b4", "result"}, runner.FollowOptions{})
		rest := []string{"made b3", "made b4", "result"}
		behindEach(rest, runner.FollowOptions{After: event.Cursor(before[5])})

		r.answer(runner.Complete(pauses[0].ID, "ada", []byte("true"))).finished(event.FinishStop)
		over := append([]string{"made a3", "made a4", "result"}, rest...)
		behindEach(over, runner.FollowOptions{After: event.Cursor(before[5])})
		got, _ := artifactsShown(t, r.Runner, runner.FollowOptions{})
		want := []string{"made a1", "made a2", "made a3", "made a4",
			"made b1", "made b2", "made b3", "made b4"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("one who comes late is shown (-want +got):\n%s", diff)
		}
		r.Close()
	})
}

// The cursors of a turn with more calls than are run are taken again.
func TestCursorsOfALargeTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		calls := slices.Repeat([]string{"x"}, 70)
		r := newRig(t, agent.Config{Tools: []tool.Tool{instant("look", tool.Idempotent, &n)},
			Model: fakellm.New(fakellm.Says("Hello."), asks("look", calls...), fakellm.Says("Well."))},
			&rigOptions{memory: true})
		r.say("Hi.").finished(event.FinishStop)
		start := fmt.Sprint(len(r.transcript().History))
		r.say("Look.").finished(event.FinishStop)
		lines, events := artifactsShown(t, r.Runner, runner.FollowOptions{After: start})
		if len(lines) != len(calls) {
			t.Fatalf("%d results are shown", len(lines))
		}
		for i, ev := range events {
			after := event.Cursor(ev)
			got, _ := artifactsShown(t, r.Runner, runner.FollowOptions{After: after})
			if missed := len(calls) - i - 1; len(got) < missed || i < 64 && len(got) > missed {
				t.Errorf("behind result %d, %s, %d are shown", i, after, len(got))
			}
		}
		r.Close()
	})
}
