package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// took is a tool that takes the time which its text tells, and fails after
// "0s". Its Timeout is a second.
func took(name string, e tool.Effect) tool.Tool {
	return does(tool.Spec{Name: name, Effect: e, Timeout: time.Second},
		func(ctx context.Context, s string) (tool.Result[textOut], error) {
			d, err := time.ParseDuration(s)
			if err != nil || d == 0 {
				return nil, errors.New("no")
			}
			select {
			case <-time.After(d):
				return tool.Done(textOut{s}), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
}

// batch lists the beginnings and results of calls, with their times from at.
func batch(s *seen) (lines []string) {
	for _, ev := range s.events {
		switch ev := ev.(type) {
		case event.Started:
			lines = append(lines, fmt.Sprintf("%d %s begins, attempt %d", ev.Index, ev.Tool, ev.Attempt))
		case event.Result:
			lines = append(lines, fmt.Sprintf("%d %s %s after %v", ev.Index, ev.Result.Name,
				ev.Status, ev.Duration))
		case event.Pause:
			lines = append(lines, fmt.Sprintf("%s waits", ev.Pause.Tool))
		}
	}
	return lines
}

// anyOrder compares lines of which some come at one time.
var anyOrder = cmpopts.SortSlices(func(a, b string) bool { return a < b })

// TestABatchIsShownExactly: each body's beginning, and then each result, with
// its place, its status and how long the body ran.
func TestABatchIsShownExactly(t *testing.T) {
	for name, layers := range map[string]interceptor.Chain{"bare": nil, "in a layer": {passes}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, agent.Config{
					Model: fakellm.New(asks("write", "300ms", "0s", "5s").And("look", `{"text":"100ms"}`).
						And("nosuch", `{}`).And("write", `{}`), fakellm.Says("Well.")),
					Tools:        []tool.Tool{took("write", tool.Once), took("look", tool.ReadOnly)},
					Interceptors: layers,
				}, &rigOptions{memory: true})
				got := batch(r.say("Go.").finished(event.FinishStop))
				want := []string{"0 write begins, attempt 1", "1 write begins, attempt 1",
					"2 write begins, attempt 1", "3 look begins, attempt 1",
					"1 write failed after 0s", "4 nosuch failed after 0s", "5 write failed after 0s",
					"3 look done after 100ms", "0 write done after 300ms", "2 write timed_out after 1s"}
				if diff := cmp.Diff(want, got, anyOrder); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(want[8:], got[8:]); diff != "" {
					t.Errorf("those that take their time end (-want +got):\n%s", diff)
				}
				for i := range 4 {
					begins := slices.Index(got, want[i])
					ends := slices.IndexFunc(got, func(s string) bool {
						return s[0] == got[begins][0] && strings.Contains(s, " after ")
					})
					if begins > ends {
						t.Errorf("call %d has ended before it begins: %q", i, got)
					}
				}
				call := r.transcript().History[1].ToolCalls()[2].ID
				d, err := r.Call(t.Context(), chat, call, "")
				if must(t, err); d.Settled != event.TimedOut {
					t.Errorf("the call is shown as %s", d.Settled)
				}
			})
		})
	}
}

// TestABodyThatIsEnteredAgain: each entry is shown, with its attempt, and the
// duration is that of the last. An answer that is the output enters no body.
func TestABodyThatIsEnteredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asksTwice := func(name string, mode tool.Mode) tool.Tool {
			return rawTool{tool.Spec{Name: name, MayPause: true},
				func(_ context.Context, c tool.Call) (tool.Execution, error) {
					if time.Sleep(time.Duration(c.Attempt) * time.Second); c.Answer == nil {
						return tool.Execution{Await: &tool.Await{Mode: mode}}, nil
					}
					return tool.Execution{Output: json.RawMessage("1")}, nil
				}}
		}
		r := newRig(t, agent.Config{
			Model: fakellm.New(fakellm.Calls("again", "{}").And("output", "{}"), fakellm.Says("Well.")),
			Tools: []tool.Tool{asksTwice("again", tool.ModeReenter), asksTwice("output", tool.ModeOutput)},
		}, &rigOptions{memory: true})
		run := r.say("Go.").finished(event.FinishPaused)
		want := []string{"0 again begins, attempt 1", "1 output begins, attempt 1",
			"again waits", "output waits"}
		if diff := cmp.Diff(want, batch(run), anyOrder); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for _, p := range run.end.Pending {
			_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", json.RawMessage("2")))
			must(t, err)
		}
		want = []string{"1 output done after 0s", "0 again begins, attempt 2", "0 again done after 2s"}
		if diff := cmp.Diff(want, batch(r.carryOn().finished(event.FinishStop)), anyOrder); diff != "" {
			t.Errorf("carried on (-want +got):\n%s", diff)
		}
	})
}

// TestNothingIsShownToWhoHasLeft: not a body that begins, nor a result; all of
// them are recorded, and shown by the next drive with what was known.
func TestNothingIsShownToWhoHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b blocker
		block := b.tool(tool.Spec{Name: "block"}, func(_ context.Context, s string) (tool.Result[textOut], error) {
			return tool.Done(textOut{s}), nil
		})
		r := newRig(t, agent.Config{Tools: []tool.Tool{block}, Concurrency: 2,
			Model: fakellm.New(asks("block", "a", "b", "c"), fakellm.Says("Well."))}, &rigOptions{memory: true})
		left, begun := false, 0
		for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
			if left {
				t.Fatalf("%#v, %v is shown to who has left", ev, err)
			}
			must(t, err)
			if _, ok := ev.(event.Started); ok {
				begun++
			}
			if left = begun == 2; left {
				break
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			synctest.Wait()
			time.Sleep(time.Second)
			close(b.gate(name))
		}
		synctest.Wait()
		for i, want := range []event.Status{event.Done, event.Done, ""} {
			d, err := r.Call(t.Context(), chat, r.transcript().Calls[i].Call, "")
			if must(t, err); d.Settled != want {
				t.Errorf("call %d has settled as %q, not %q", i, d.Settled, want)
			}
		}
		want := []string{"0 block done after 1s", "1 block done after 2s", "2 block begins, attempt 1",
			"2 block done after 0s"}
		if diff := cmp.Diff(want, batch(r.carryOn().finished(event.FinishStop))); diff != "" {
			t.Errorf("the next drive shows (-want +got):\n%s", diff)
		}
	})
}

// TestAFollowerIsShownTheSameResults: by the records of another's drive.
func TestAFollowerIsShownTheSameResults(t *testing.T) {
	r := newRig(t, agent.Config{Tools: []tool.Tool{took("look", tool.ReadOnly)},
		Model: fakellm.New(fakellm.Says("Hi."), asks("look", "0s", "5ms"), fakellm.Says("Well."))},
		&rigOptions{memory: true})
	r.say("Hello.").finished(event.FinishStop)
	var order []string // by the follower, until followed
	follows, followed := make(chan bool), make(chan []event.Result)
	go func() {
		var results []event.Result
		first := true
		defer func() { followed <- results }()
		for ev, err := range r.Follow(t.Context(), chat, "", &runner.FollowOptions{Stay: true}) {
			if first {
				close(follows)
				first = false
			}
			switch ev := ev.(type) {
			case event.Message:
				if calls := ev.Message.ToolCalls(); len(calls) > 0 {
					order = append(order, "asked")
				}
			case event.Started:
				order = append(order, fmt.Sprintf("%d begins", ev.Index))
			case event.Result:
				order = append(order, fmt.Sprintf("%d ends", ev.Index))
				results = append(results, ev)
			}
			if err != nil || len(results) == 2 {
				break
			}
		}
	}()
	<-follows
	shown := of[event.Result](r.say("Go.").finished(event.FinishStop))
	byIndex := func(a, b event.Result) int { return a.Index - b.Index }
	slices.SortFunc(shown, byIndex)
	got := <-followed
	slices.SortFunc(got, byIndex)
	if diff := cmp.Diff(shown, got, cmpopts.IgnoreFields(event.Result{}, "Cursor")); diff != "" ||
		len(got) != 2 || got[1].Duration < 5*time.Millisecond {
		t.Errorf("the follower was shown (-want +got):\n%s", diff)
	}
	at := func(what string) int { return slices.Index(order, what) }
	if len(order) != 5 || at("asked") != 0 || at("0 begins") > at("0 ends") || at("1 begins") > at("1 ends") ||
		at("0 begins") < 0 || at("1 begins") < 0 {
		t.Errorf("the follower was shown %q", order)
	}
}
