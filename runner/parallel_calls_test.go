package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestConcurrencyCap: calls start in order, so many at once, and the next one
// as soon as one settles or waits.
func TestConcurrencyCap(t *testing.T) {
	for concurrency, first := range map[int][]string{0: {"a", "b", "c", "d"}, 1: {"a"},
		2: {"a", "b"}, 5: {"a", "b", "c", "d", "e"}} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b blocker
				ends := map[string]func() (tool.Result[textOut], error){
					"b": func() (tool.Result[textOut], error) {
						return tool.Pending[textOut](tool.Await{}), nil
					},
					"c": func() (tool.Result[textOut], error) { return nil, errors.New("no") },
					"d": func() (tool.Result[textOut], error) { panic("no") },
					"e": func() (tool.Result[textOut], error) { runtime.Goexit(); return nil, nil },
				}
				block := b.tool(tool.Spec{Name: "block", MayPause: true},
					func(_ context.Context, name string) (tool.Result[textOut], error) {
						if end := ends[name]; end != nil {
							return end()
						}
						return tool.Done(textOut{name}), nil
					})
				all := []string{"a", "b", "c", "d", "e", "f", "g"}
				r := newRig(t, agent.Config{
					Model: fakellm.New(asks("block", all...)), Tools: []tool.Tool{block},
					Concurrency: concurrency,
				}, &rigOptions{memory: true})
				ended := r.begin("Go.")
				for i, name := range all {
					if want := all[:min(len(first)+i, len(all))]; !cmp.Equal(b.now(), want) {
						t.Fatalf("%d calls have ended, and %q were entered, not %q", i,
							b.now(), want)
					}
					close(b.gate(name))
				}
				ended().finished(event.FinishPaused)
			})
		})
	}
}

// TestSiblingsGoOn: however one call goes wrong, the contexts of the others
// last, and each has its own result, in call order.
func TestSiblingsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(ctx context.Context, d time.Duration) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				t.Errorf("a sibling's context ended: %v", context.Cause(ctx))
			}
		}
		acts := map[string]func(context.Context) (tool.Result[textOut], error){
			"done": func(ctx context.Context) (tool.Result[textOut], error) {
				wait(ctx, 50*time.Millisecond)
				return tool.Done(textOut{"1"}), nil
			},
			"error": func(ctx context.Context) (tool.Result[textOut], error) {
				wait(ctx, 10*time.Millisecond)
				return nil, errors.New("no luck")
			},
			"done late": func(ctx context.Context) (tool.Result[textOut], error) {
				wait(ctx, time.Second)
				return tool.Done(textOut{"2"}), nil
			},
			"input": func(context.Context) (tool.Result[textOut], error) {
				return tool.NeedInput[textOut]("Which?"), nil
			},
			"pending": func(context.Context) (tool.Result[textOut], error) {
				return tool.Pending[textOut](tool.Await{}), nil
			},
			"panic": func(context.Context) (tool.Result[textOut], error) { panic("oops") },
			"panic nil": func(context.Context) (tool.Result[textOut], error) {
				var m map[string]int
				//lint:ignore SA5000 it is to panic, as a tool would
				m["a"]++
				return nil, nil
			},
			"panic error": func(context.Context) (tool.Result[textOut], error) {
				panic(errors.New("custom"))
			},
			"goexit": func(context.Context) (tool.Result[textOut], error) {
				runtime.Goexit()
				return nil, nil
			},
			"own timeout": func(ctx context.Context) (tool.Result[textOut], error) {
				ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
				defer cancel()
				<-ctx.Done()
				return nil, ctx.Err()
			},
			"own cancel": func(context.Context) (tool.Result[textOut], error) {
				return nil, context.Canceled
			},
			"result, error": func(context.Context) (tool.Result[textOut], error) {
				return tool.Done(textOut{"3"}), errors.New("both")
			},
			"wait, error": func(context.Context) (tool.Result[textOut], error) {
				return tool.Pending[textOut](tool.Await{}), errors.New("both")
			},
			"nothing": func(context.Context) (tool.Result[textOut], error) { return nil, nil },
		}
		names := slices.Sorted(maps.Keys(acts))
		act := does(tool.Spec{Name: "act", MayPause: true},
			func(ctx context.Context, name string) (tool.Result[textOut], error) {
				return acts[name](ctx)
			})
		slow := does(tool.Spec{Name: "slow", Timeout: time.Second},
			func(ctx context.Context, _ string) (tool.Result[textOut], error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		r := newRig(t, agent.Config{
			Model: fakellm.New(asks("act", names...).And("slow", `{"text":"x"}`),
				fakellm.Says("Well.")),
			Tools: []tool.Tool{act, slow}, Concurrency: 3,
		}, &rigOptions{memory: true})
		run := r.say("Go.").finished(event.FinishPaused)
		if len(run.end.Pending) != 2 {
			t.Fatalf("%v wait", run.end.Pending)
		}
		for _, p := range run.end.Pending {
			_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("later")))
			must(t, err)
		}
		r.carryOn().finished(event.FinishStop)
		want := map[string]string{
			"done": `{"text":"1"}`, "done late": `{"text":"2"}`, "input": `{"text":"later"}`,
			"pending": `{"text":"later"}`,
			"error":   "no luck", "panic": "act panicked: oops",
			"panic nil":   "act panicked: assignment to entry in nil map",
			"panic error": "act panicked: custom",
			"goexit":      "act ended its goroutine before it had a result",
			"own timeout": "context deadline exceeded", "own cancel": "context canceled",
			"result, error": "both", "wait, error": "both",
			"nothing": "the tool returned neither a result nor an error",
		}
		parts := r.transcript().History[2].Parts
		for i, name := range names {
			res := parts[i].(llm.ToolResult)
			if failed := want[name][0] != '{'; res.Error != failed ||
				!strings.Contains(string(res.Output), want[name]) {
				t.Errorf("%s: the result is %s, an error: %v", name, res.Output, res.Error)
			}
			if strings.Contains(string(res.Output), ".go:") {
				t.Errorf("%s: the model reads a stack: %s", name, res.Output)
			}
		}
		if res := parts[len(names)].(llm.ToolResult); !res.Error ||
			!strings.Contains(string(res.Output), "slow did not end within 1s") {
			t.Errorf("the timeout's result is %s", res.Output)
		}
		r.acceptable()
	})
}

// TestResultsOfCallsThatEndInReverse: they are in call order, although the
// calls end, pause and are answered in the opposite one.
func TestResultsOfCallsThatEndInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b blocker
		block := b.tool(tool.Spec{Name: "block", MayPause: true},
			func(_ context.Context, name string) (tool.Result[textOut], error) {
				if name == "b" || name == "d" {
					return tool.Pending[textOut](tool.Await{Key: name}), nil
				}
				return tool.Done(textOut{name}), nil
			})
		r := newRig(t, agent.Config{
			Model: fakellm.New(asks("block", "a", "b", "c", "d").And("nothing", `{}`).And("block",
				`{`), fakellm.Says("Well.")),
			Tools: []tool.Tool{block}, Concurrency: 6,
		}, &rigOptions{memory: true})
		ended := r.begin("Go.")
		for _, name := range []string{"d", "c", "b", "a"} {
			synctest.Wait()
			close(b.gate(name))
		}
		run := ended().finished(event.FinishPaused)
		for i := range 2 {
			p := run.end.Pending[1-i]
			_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text(p.Await.Key)))
			must(t, err)
		}
		r.carryOn().finished(event.FinishStop)
		history := r.transcript().History
		for i, c := range history[1].ToolCalls() {
			res := history[2].Parts[i].(llm.ToolResult)
			if want := []string{
				"a", "b", "c", "d", "There is no tool", "arguments must be one JSON object",
			}[i]; res.Call != c.ID || !strings.Contains(string(res.Output), want) {
				t.Errorf("result %d is %s of %s, not %q of %s", i, res.Output, res.Call, want, c.ID)
			}
		}
		r.acceptable()
	})
}

// TestTooManyCalls: those beyond the limit of a turn have a result that says
// so, and an event, and are not run.
func TestTooManyCalls(t *testing.T) {
	for _, calls := range []int{agentcore.MaxCalls, agentcore.MaxCalls + 1,
		2*agentcore.MaxCalls + 1} {
		var n counter
		var texts []string
		for i := range calls {
			texts = append(texts, fmt.Sprint(i))
		}
		r := newRig(t, agent.Config{
			Model: fakellm.New(asks("act", texts...), fakellm.Says("Well.")),
			Tools: []tool.Tool{instant("act", tool.ReadOnly, &n)},
		}, nil)
		run := r.say("Go.").finished(event.FinishStop)
		if n.get("act") != agentcore.MaxCalls {
			t.Errorf("%d calls: %d were run", calls, n.get("act"))
		}
		parts := r.transcript().History[2].Parts
		results := map[string]event.Result{}
		for _, res := range of[event.Result](run) {
			results[res.Result.Call] = res
		}
		if len(parts) != calls || len(results) != calls {
			t.Fatalf("%d calls: %d results are stored, %d were shown", calls,
				len(parts), len(results))
		}
		for i, p := range parts {
			res := p.(llm.ToolResult)
			over := strings.Contains(string(res.Output), "a turn holds at most 64 tool calls")
			if over != (i >= agentcore.MaxCalls) || res.Error != over ||
				!cmp.Equal(results[res.Call].Result, res) {
				t.Errorf("%d calls: result %d is %s, and was shown as %+v", calls, i,
					res.Output, results[res.Call])
			}
		}
		r.acceptable()
	}
}

func TestConcurrencyLeavesNoTrace(t *testing.T) {
	transcript := func(concurrency int) string {
		var n counter
		ids := 0
		r := newRig(t, agent.Config{
			Concurrency: concurrency,
			Tools:       []tool.Tool{instant("look", tool.ReadOnly, &n), instant("write", tool.Once, &n)},
			Model: messages(calls("look", `{"text":"a"}`, "write", `{"text":"b"}`, "look",
				`{"text":"c"}`, "nosuch", `{}`, "write", `{}`),
				calls("write", `{"text":"d"}`, "look", `{"text":"e"}`), says("Done.")),
		}, &rigOptions{memory: true, session: deterministic(&ids)})
		r.say("Go.").finished(event.FinishStop)
		b, err := json.Marshal(r.transcript().History)
		must(t, err)
		return string(b)
	}
	one := transcript(1)
	for range 20 {
		if eight := transcript(8); eight != one {
			t.Fatalf("one at once: %s\neight: %s", one, eight)
		}
	}
}

// deterministic gives ids in their order, at one time.
func deterministic(n *int) *session.Options {
	return &session.Options{
		Now:   func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		NewID: func(kind string) string { *n++; return fmt.Sprintf("%s_%d", kind, *n) },
	}
}
