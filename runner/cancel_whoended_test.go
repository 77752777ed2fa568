package runner_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestWhoEndsARunFirst: several end a run whose calls are open: actors, and a
// fatal error. The first one counts, and each call is told of that one.
func TestWhoEndsARunFirst(t *testing.T) {
	for name, test := range map[string]struct {
		// a fatal error, after the cancellation or before it; a second
		// cancellation
		fatal, after, twice bool
		finish              event.Finish
		by, why             string
	}{
		"a cancellation, then a fatal error": {true, true, false, event.FinishCancelled, "bob",
			"the run was ended: enough"},
		"a fatal error, then a cancellation": {true, false, false, event.FinishFailed,
			"", "the run was ended."},
		"a cancellation, and another one's": {false, true, true, event.FinishCancelled, "bob",
			"the run was ended: enough"},
		"a cancellation, and nothing but bodies": {false, true, false, event.FinishCancelled, "bob",
			"the run was ended: enough"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				act := does(tool.Spec{Name: "act", MayPause: true},
					func(ctx context.Context, what string) (tool.Result[textOut], error) {
						switch {
						case what == "wait":
							return tool.Pending[textOut](tool.Await{}), nil
						case what == "slow":
							time.Sleep(time.Second)
						case what == "ignore":
							time.Sleep(time.Hour)
						case what == "obey", test.after:
							<-ctx.Done()
						}
						if what == "fail" && test.fatal {
							return nil, tool.Fatal(errLicense)
						}
						return nil, errors.New("stopped")
					})
				r := newRig(t, agent.Config{
					Model: fakellm.New(asks("act", "wait", "ignore", "slow",
						"obey", "fail"), fakellm.Says("I see.")),
					Concurrency: 8, Tools: []tool.Tool{act},
				}, &rigOptions{memory: true})
				ended := make(chan []event.Event)
				go func() {
					var seen []event.Event
					for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
						if err != nil && !(test.fatal && errors.Is(err, errLicense)) {
							t.Error(err)
						}
						seen = append(seen, ev)
					}
					ended <- seen
				}()
				synctest.Wait()
				must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
				if test.twice {
					must(t, r.CancelSession(t.Context(), chat, "eve", "too much"))
				}
				results := 0
				for _, ev := range <-ended {
					switch e := ev.(type) {
					case event.Result:
						if results++; e.Status != event.Failed && (e.Actor != test.by ||
							!strings.Contains(string(e.Result.Output), test.why)) {
							t.Errorf("a call is %s by %q: %s", e.Status, e.Actor, e.Result.Output)
						}
					case event.End:
						if e.Finish != test.finish {
							t.Errorf("it ended as %s", e.Finish)
						}
					}
				}
				if results != 5 {
					t.Errorf("%d results", results)
				}
				r.acceptable()
				time.Sleep(2 * time.Hour) // what ignores its context ends
			})
		})
	}
}

// TestCancelledWhileTheModelSpoke: the actor that cancelled a run, and its
// reason, stand, though the model's message would have ended the run anyway.
func TestCancelledWhileTheModelSpoke(t *testing.T) {
	for name, test := range map[string]struct {
		reason llm.StopReason
		limits agent.Limits
	}{
		"and was refused":        {llm.StopRefusal, agent.Limits{}},
		"and used up its calls":  {llm.StopToolCalls, agent.Limits{ToolCalls: 1}},
		"and used up its tokens": {llm.StopToolCalls, agent.Limits{Tokens: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			model := script(llm.TextDelta{Text: "Well."},
				llm.ToolCallDelta{Index: 0, ProviderID: "a", Name: "act",
					Arguments: `{"text":"a"}`},
				llm.ToolCallDelta{Index: 1, ProviderID: "b", Name: "job",
					Arguments: `{"text":"b"}`},
				llm.Finish{Reason: test.reason, Usage: llm.Usage{Input: 10}})
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{instant("act", tool.Once, &n), waiting("job", tool.Once, &n)},
				Model: model, Limits: test.limits,
			}, nil)
			var results []event.Result
			for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
				must(t, err)
				switch ev := ev.(type) {
				case event.TextDelta:
					must(t, r.CancelSession(context.Background(), chat, "bob", "enough"))
				case event.Result:
					results = append(results, ev)
				case event.End:
					if ev.Finish != event.FinishCancelled {
						t.Errorf("it ended as %s", ev.Finish)
					}
				}
			}
			if got := r.transcript(); got.Finish != event.FinishCancelled || got.Why != "enough" {
				t.Errorf("it is shown as %q: %q", got.Finish, got.Why)
			}
			for _, e := range results {
				if e.Actor != "bob" || !strings.Contains(string(e.Result.Output), "enough") {
					t.Errorf("%s is %s by %q: %s", e.Result.Name, e.Status, e.Actor, e.Result.Output)
				}
			}
			if len(results) != 2 || n.get("act")+n.get("job") != 0 {
				t.Errorf("%d results", len(results))
			}
			r.acceptable()
			r.say("Else.").finished(event.FinishStop)
			r.acceptable()
		})
	}
}

// A run that was carried on, by Continue or by its message once more, is
// cancelled while the model speaks. What lifted the earlier halt doesn't lift
// this one.
func TestCancelledWhileTheCarriedOnModelSpoke(t *testing.T) {
	goOn := llm.UserText("Go.")
	o := &runner.RunOptions{MessageID: "m-1"}
	for name, carryOn := range map[string]func(*rig) *seen{
		"Continue": (*rig).carryOn,
		"the same message": func(r *rig) *seen {
			return watch(t, r.Run(t.Context(), user, chat, goOn, o))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			var n, asked counter
			say := messages(calls("act", `{"text":"a"}`), says("Done."))
			r = newRig(t, agent.Config{
				Tools: []tool.Tool{instant("act", tool.Once, &n)},
				Model: streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
					switch asked.add("model") {
					case 1:
						return func(yield func(llm.Event, error) bool) {
							yield(nil, errors.New("no such model"))
						}
					case 2:
						must(t, r.CancelSession(context.Background(), chat, "bob", "enough"))
					}
					return say.Generate(ctx, req)
				}),
			}, nil)
			if s := watch(t, r.Run(t.Context(), user, chat,
				goOn, o)); s.end.Finish != event.FinishFailed {
				t.Fatalf("the model failed, and the run ended as %s", s.end.Finish)
			}
			s := carryOn(r).finished(event.FinishCancelled)
			if res := of[event.Result](s); len(res) != 1 || res[0].Actor != "bob" ||
				n.get("act") != 0 {
				t.Errorf("act was entered %d times; the results are %v", n.get("act"), res)
			}
			r.acceptable()
			r.carryOn().finished(event.FinishStop)
		})
	}
}
