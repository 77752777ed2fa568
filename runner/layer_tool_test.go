package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestLayerCallsNextTwice: one after the other, or both at once. A body of
// effect once is entered once; any other as often as the layer wants, with one
// key for its outside effects.
func TestLayerCallsNextTwice(t *testing.T) {
	twice := map[string]func(context.Context, tool.Call, interceptor.ToolHandler) []error{
		"one after the other": func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (errs []error) {
			for range 2 {
				_, err := next(ctx, c)
				errs = append(errs, err)
			}
			return errs
		},
		"both at once": func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) []error {
			errs := make([]error, 2)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() { _, errs[i] = next(ctx, c) })
			}
			wg.Wait()
			return errs
		},
	}
	for how, call := range twice {
		for _, effect := range []tool.Effect{tool.Once, tool.Idempotent, tool.ReadOnly} {
			t.Run(how+" "+string(effect), func(t *testing.T) {
				var mu sync.Mutex
				var keys []string
				act := does(tool.Spec{Name: "act", Effect: effect},
					func(ctx context.Context, _ string) (tool.Result[textOut], error) {
						mu.Lock()
						defer mu.Unlock()
						keys = append(keys, tool.CallFrom(ctx).IdempotencyKey())
						return tool.Done(textOut{"done"}), nil
					})
				r := newRig(t, oneCall(act, toolLayer("twice", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
					refused := 0
					for _, err := range call(ctx, c, next) {
						if err != nil && strings.Contains(err.Error(),
							"must not be entered twice") {
							refused++
						}
					}
					if effect == tool.Once && refused != 1 || effect != tool.Once && refused != 0 {
						t.Errorf("%d of two calls of next were refused", refused)
					}
					return tool.Execution{Output: text("done")}, nil
				})), nil)
				r.say("Go.").finished(event.FinishStop)
				want := 2
				if effect == tool.Once {
					want = 1
				}
				if len(keys) != want || keys[0] != keys[want-1] {
					t.Errorf("it was entered with the keys %q, not %d times", keys, want)
				}
			})
		}
	}
}

// TestLayerLeavesNextBehind: the layer's word is the result, the body's comes
// too late, and next can't be called any more.
func TestLayerLeavesNextBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		let, over := make(chan struct{}), make(chan struct{})
		slow := does(tool.Spec{Name: "slow", Effect: tool.Idempotent, MayPause: true},
			func(context.Context, string) (tool.Result[textOut], error) {
				n.add("slow")
				<-let
				return tool.Pending[textOut](tool.Await{}), nil
			})
		r := newRig(t, oneCall(slow, toolLayer("impatient", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
			go func() {
				defer close(over)
				_, _ = next(ctx, c)
				if _, err := next(ctx, c); err == nil ||
					!strings.Contains(err.Error(), "too late to enter it") {
					t.Errorf("next after the end: %v", err)
				}
			}()
			synctest.Wait()
			return tool.Execution{}, errors.New("that takes too long")
		})), &rigOptions{memory: true})
		run := r.say("Go.").finished(event.FinishStop)
		close(let)
		<-over
		synctest.Wait()
		if res := of[event.Result](run); len(res) != 1 ||
			string(res[0].Result.Output) != `"that takes too long"` || n.get("slow") != 1 {
			t.Errorf("the result is %v; the body was entered %d times", res, n.get("slow"))
		}
		r.acceptable()
	})
}

// TestLayerSwallows: what a layer makes of an error, a denial or a pause is the
// result. But what kept the runtime from entering the body isn't told to the
// model, whatever a layer makes of it.
func TestLayerSwallows(t *testing.T) {
	soothing := toolLayer("soothing",
		func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
			_, _ = next(ctx, c)
			return tool.Execution{Output: json.RawMessage(`"all is well"`)}, nil
		})
	deny := interceptor.Approval(&interceptor.ApprovalOptions{Policy: func(context.Context, tool.Call) (interceptor.Verdict, error) {
		return interceptor.Verdict{Ruling: interceptor.Deny}, nil
	}})
	for name, test := range map[string]struct {
		layers  interceptor.Chain
		entered int
	}{
		"an error": {interceptor.Chain{soothing}, 1},
		"a denial": {interceptor.Chain{soothing, deny}, 0},
		"a pause":  {interceptor.Chain{soothing, interceptor.Approval(nil)}, 0},
		"a fatality": {interceptor.Chain{soothing, toolLayer("fatal",
			func(context.Context, tool.Call, interceptor.ToolHandler) (tool.Execution, error) {
				return tool.Execution{}, tool.Fatal(errors.New("no"))
			})}, 0},
	} {
		var n counter
		act := does(tool.Spec{Name: "act"},
			func(context.Context, string) (tool.Result[textOut], error) {
				n.add("act")
				return nil, errors.New("no luck")
			})
		r := newRig(t, oneCall(act, test.layers...), nil)
		res := of[event.Result](r.say("Go.").finished(event.FinishStop))
		if len(res) != 1 || res[0].Status != event.Done ||
			string(res[0].Result.Output) != `"all is well"` || n.get("act") != test.entered {
			t.Errorf("%s: the result is %v; the body was entered %d times", name, res, n.get("act"))
		}
	}

	var n counter
	r := newRig(t, oneCall(instant("act", tool.Once, &n), soothing), nil)
	var claim int
	r.faults.After(func(c faultkv.Call) {
		if claim == 0 { // the first commit has the user's message, the second the model's
			claim = c.Number + 2
			r.faults.Add(faultkv.FailAt(claim))
		}
	})
	run := r.say("Go.")
	if !errors.Is(run.err, faultkv.ErrFault) || n.get("act") != 0 ||
		len(of[event.Result](run)) != 0 {
		t.Errorf("the claim failed: the run ended with %v, the body was entered %d times; it showed %v", run.err, n.get("act"), run.events)
	}
	r.carryOn().finished(event.FinishStop)
	if n.get("act") != 1 {
		t.Errorf("when the session is carried on, the body was entered %d times", n.get("act"))
	}
	r.acceptable()
}

// TestLayerEndsItsGoroutine: before the body or after it, the call has its
// result, and the next one runs.
func TestLayerEndsItsGoroutine(t *testing.T) {
	for _, concurrency := range []int{1, 2} {
		var n counter
		leave := toolLayer("leave",
			func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
				switch string(c.Arguments) {
				case `{"text":"before"}`:
					runtime.Goexit()
				case `{"text":"after"}`:
					defer runtime.Goexit()
				}
				return next(ctx, c)
			})
		r := newRig(t, agent.Config{
			Model: fakellm.New(asks("act", "before", "a", "after", "b", "before",
				"after", "c"), fakellm.Says("I see.")),
			Tools:        []tool.Tool{instant("act", tool.Once, &n)},
			Interceptors: interceptor.Chain{leave}, Concurrency: concurrency,
		}, nil)
		run := r.say("Go.").finished(event.FinishStop)
		ends := map[event.Status]int{}
		for _, res := range of[event.Result](run) {
			ends[res.Status]++
		}
		if want := map[event.Status]int{event.Done: 3, event.Failed: 4}; !cmp.Equal(ends, want) ||
			n.get("act") != 5 {
			t.Errorf("the calls ended as %v; the body was entered %d times", ends, n.get("act"))
		}
		r.acceptable()
	}
}

// TestLayersAreRepeatable: a layer sees the call again after a pause, with the
// answer, and in output mode what next returns is that answer, which the layer
// may change.
func TestLayersAreRepeatable(t *testing.T) {
	var n counter
	var saw []string
	shout := toolLayer("shout",
		func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
			exec, err := next(ctx, c)
			saw = append(saw, string(exec.Output))
			if exec.Await == nil {
				exec.Output = json.RawMessage(strings.ToUpper(string(exec.Output)))
			}
			return exec, err
		})
	r := newRig(t, oneCall(waiting("job", tool.Once, &n), shout), nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	r.restart()
	r.answer(runner.Complete(p.ID, "ci", text("done"))).finished(event.FinishStop)
	if want := []string{"", `{"text":"done"}`}; !cmp.Equal(saw, want) || n.get("job") != 1 {
		t.Errorf("the layer saw %q, not %q; the body was entered %d times", saw, want, n.get("job"))
	}
	if got := string(r.result(p.Call).Output); got != `{"TEXT":"DONE"}` {
		t.Errorf("the result is %s", got)
	}
}

// TestLayerFailsAfterTheBody: whatever a layer does after the body, the model
// reads that the tool ran, and the call isn't denied.
func TestLayerFailsAfterTheBody(t *testing.T) {
	for name, behind := range map[string]func() (tool.Execution, error){
		"an error": func() (tool.Execution, error) {
			return tool.Execution{}, errors.New("the ledger is down")
		},
		"a refusal": func() (tool.Execution, error) {
			return tool.Execution{}, tool.Denied("it names a customer")
		},
		"a pause": func() (tool.Execution, error) {
			return tool.Execution{Await: &tool.Await{}}, nil
		},
		"a panic": func() (tool.Execution, error) { panic("boom") },
		"an end":  func() (tool.Execution, error) { runtime.Goexit(); return tool.Execution{}, nil },
		"a large result": func() (tool.Execution, error) {
			return tool.Execution{Output: text(strings.Repeat("x", 1<<20))}, nil
		},
		"a broken result": func() (tool.Execution, error) {
			return tool.Execution{Output: []byte("{")}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r := newRig(t, oneCall(instant("refund", tool.Once, &n), toolLayer("behind",
				func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
					if exec, err := next(ctx, c); err != nil {
						return exec, err
					}
					return behind()
				})), &rigOptions{memory: true})
			got := r.say("Refund it.").finished(event.FinishStop)
			if out := r.outputs()[0]; n.get("refund") != 1 ||
				!strings.Contains(out, "refund ran, but") ||
				!strings.Contains(out, "Its effects stand.") || strings.Contains(out, "not run") {
				t.Errorf("the body was entered %d times; the model reads %s", n.get("refund"), out)
			}
			for _, ev := range got.events {
				if res, ok := ev.(event.Result); ok && res.Status != event.Failed {
					t.Errorf("it ended as %s", res.Status)
				}
			}
		})
	}
}
