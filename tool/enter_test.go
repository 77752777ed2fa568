package tool

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// enter runs a raw tool in a registry once.
func enter(t testing.TB, tl Tool) (Execution, error) {
	t.Helper()
	p, err := registry(t, tl).Prepare(Call{ID: "c1", Tool: tl.Spec().Name})
	if err != nil {
		t.Fatal(err)
	}
	return p.Enter(t.Context(), p.Call)
}

// body returns a raw tool called a.
func body(s Spec, f func(context.Context, Call) (Execution, error)) Tool {
	s.Name = "a"
	return &rawTool{s, f}
}

func TestTheBodyGetsTheCallBothWays(t *testing.T) {
	exec, err := enter(t,
		body(Spec{Effect: ReadOnly}, func(ctx context.Context, c Call) (Execution, error) {
			other := CallFrom(ctx)
			if other.ID != c.ID || c.ID != "c1" || string(c.Arguments) != "{}" ||
				c.Effect != ReadOnly {
				return Execution{}, fmt.Errorf("%+v and %+v", c, other)
			}
			return Execution{Output: raw(`{"a":"<&>"}`)}, nil
		}))
	if err != nil || string(exec.Output) != `{"a":"<&>"}` {
		t.Errorf("%s %v", exec.Output, err)
	}
}

type custom struct{ s string }

func (c *custom) Error() string { return "custom " + c.s }

// sly panics when it is printed.
type sly struct{}

func (sly) Error() string { panic("again") }

func TestAPanicIsAnErrorWhoseStackIsForTheLog(t *testing.T) {
	var m map[string]int
	for want, f := range map[string]func(){
		"a panicked: x": func() { panic("x") },
		"a panicked: assignment to entry in nil map":   func() { m["a"] = 1 },
		"a panicked: custom e":                         func() { panic(&custom{"e"}) },
		"a ended its goroutine before it had a result": func() { runtime.Goexit() },
		"a panicked: panic called with nil argument":   func() { panic(nil) },
		"a panicked: %!v(PANIC":                        func() { panic(sly{}) },
		"a panicked: long": func() {
			panic("long" + strings.Repeat("g", 1000))
		},
	} {
		_, err := enter(t,
			body(Spec{Timeout: time.Minute}, func(context.Context, Call) (Execution, error) {
				f()
				return Execution{}, nil
			}))
		var p *PanicError
		if !errors.As(err, &p) {
			t.Fatalf("%s: %v", want, err)
		}
		contains(t, err.Error(), want)
		if text := err.Error(); strings.Contains(text, "goroutine 1") || len(text) > 200 {
			t.Errorf("the model reads %s", text)
		}
		if p.value != nil && !strings.Contains(string(p.Stack()), "enter_test.go") {
			t.Errorf("%s: the stack does not say where: %s", want, p.Stack())
		}
	}
	made := make1(t, func(context.Context, struct{}) (Result[fails], error) {
		return Done(fails{}), nil
	})
	p, err := registry(t, made).Prepare(call("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Enter(t.Context(), p.Call)
	contains(t, err.Error(), "t panicked: in MarshalJSON")
}

type fails struct{}

func (fails) MarshalJSON() ([]byte, error) { panic("in MarshalJSON") }

func TestABodyIsBoundedByItsTimeout(t *testing.T) {
	for effect, want := range map[Effect]string{
		Once: "a did not end within 1s. Whether it took effect is unknown: find that out " +
			"before you call it again.",
		Idempotent: "a did not end within 1s. It may be called again.",
	} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			start := time.Now()
			_, err := enter(t,
				body(Spec{Timeout: time.Second, Effect: effect},
					func(context.Context, Call) (Execution, error) {
						<-release // it ignores its context
						return Execution{Output: raw("1")}, nil
					}))
			var late *TimeoutError
			if !errors.Is(err, ErrTimeout) || !errors.As(err, &late) ||
				time.Since(start) != time.Second {
				t.Error(err, time.Since(start))
			}
			same(t, err.Error(), want)
			close(release)
		})
	}
}

func TestABodyThatHeedsItsTimeoutTimesOutToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := enter(t,
			body(Spec{Timeout: time.Second}, func(ctx context.Context, _ Call) (Execution, error) {
				<-ctx.Done()
				return Execution{}, fmt.Errorf("fetching: %w", ctx.Err())
			}))
		if !errors.Is(err, ErrTimeout) {
			t.Error(err)
		}
	})
}

func TestABodysOwnTimeoutIsAnOrdinaryError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := enter(t,
			body(Spec{Timeout: time.Hour}, func(ctx context.Context, _ Call) (Execution, error) {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				<-ctx.Done()
				return Execution{}, ctx.Err()
			}))
		if errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestABodyThatEndsInTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec, err := enter(t,
			body(Spec{Timeout: time.Second}, func(context.Context, Call) (Execution, error) {
				time.Sleep(time.Second - 1)
				return Execution{Output: raw("1")}, nil
			}))
		if err != nil || string(exec.Output) != "1" {
			t.Error(exec, err)
		}
	})
}

func TestEnterWaitsForABodyThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t,
			body(Spec{Timeout: time.Hour}, func(context.Context, Call) (Execution, error) {
				time.Sleep(time.Minute)
				return Execution{Output: raw("1")}, nil
			}))
		p, err := r.Prepare(Call{Tool: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if exec, err := p.Enter(ctx, p.Call); err != nil || string(exec.Output) != "1" {
			t.Error(exec, err)
		}
	})
}

func TestWhatARawToolReturnsIsChecked(t *testing.T) {
	pauses := Spec{Name: "a", MayPause: true}
	big := strings.Repeat("x", 1<<20)
	for want, tl := range map[string]Tool{
		"asked to pause, but its Spec.MayPause is not set": returns(Spec{Name: "a"},
			Execution{Await: &Await{}}, nil),
		`in the name of the layer "g"`: returns(pauses,
			Execution{Await: &Await{Gate: "g"}}, nil),
		`asked to pause: tool: await: unknown reason`: returns(pauses,
			Execution{Await: &Await{Reason: "x"}}, nil),
		`reason "approval" is for layers`: returns(pauses,
			Execution{Await: &Await{Reason: ReasonApproval}}, nil),
		"the answer's schema: ": returns(pauses,
			Execution{Await: &Await{Schema: raw(`{"type":"x"}`)}}, nil),
		"bytes of prompt, schema and data, at most": returns(pauses,
			Execution{Await: &Await{Data: raw(`"` + big + `"`)}}, nil),
		"it is no valid JSON": returns(Spec{Name: "a"},
			Execution{Output: raw("{")}, nil),
		"there is text after the end": returns(Spec{Name: "a"},
			Execution{Output: raw("1 2")}, nil),
		"does not fit its schema: must be an integer": returns(
			Spec{Name: "a", Output: raw(`{"type":"integer"}`)}, Execution{Output: raw(`"1"`)}, nil),
		"must be an integer, got null": returns(
			Spec{Name: "a", Output: raw(`{"type":"integer"}`)}, Execution{}, nil),
		"has 1048578 bytes, at most 1048576": returns(Spec{Name: "a"},
			Execution{Output: raw(`"` + big + `"`)}, nil),
		"action 1 of a is empty": returns(Spec{Name: "a"},
			Execution{Actions: []Action{{Artifact: &Artifact{}}, {}}}, nil),
		"action 0 of a is two": returns(Spec{Name: "a"},
			Execution{Actions: []Action{{Artifact: &Artifact{}, Media: &llm.Media{}}}}, nil),
		`action 0 of a is media of type ""`: returns(Spec{Name: "a"},
			Execution{Actions: []Action{{Media: &llm.Media{URL: "u"}}}}, nil),
		`with 0 bytes and the URL ""`: returns(Spec{Name: "a"},
			Execution{Actions: []Action{{Media: &llm.Media{MediaType: "m"}}}}, nil),
		`in the form of the provider "p"`: returns(Spec{Name: "a"},
			Execution{
				Actions: []Action{
					{Media: &llm.Media{MediaType: "m", URL: "u",
						Native: &llm.Native{Provider: "p"}}}}}, nil),
		"boom": returns(pauses, Execution{Output: raw("1"), Await: &Await{}}, errors.New("boom")),
	} {
		exec, err := enter(t, tl)
		if err == nil {
			t.Errorf("%s: no error", want)
			continue
		}
		contains(t, err.Error(), want)
		if exec.Output != nil || exec.Await != nil || exec.Actions != nil {
			t.Errorf("%s: with the error came %+v", want, exec)
		}
	}
}

func TestWhatARawToolReturnsIsPutInOrder(t *testing.T) {
	exec, err := enter(t, returns(Spec{Name: "a", MayPause: true}, Execution{
		Output: raw("1"),
		Await: &Await{Prompt: "who\xff?", Data: raw(`"\ud800"`), Arguments: raw("1"),
			Schema: raw(`{"type":"string"}`)},
		Actions: []Action{{Artifact: &Artifact{Name: "x"}}},
	}, nil))
	if err != nil {
		t.Fatal(err)
	}
	a := exec.Await
	if a.Reason != ReasonInput || a.Mode != ModeOutput || a.Prompt != "who\ufffd?" ||
		string(a.Data) != `"\ufffd"` || exec.Output != nil || a.Arguments != nil {
		t.Errorf("%+v", a)
	}
	same(t, len(exec.Actions), 1)
	exec, err = enter(t, returns(Spec{Name: "a"}, Execution{}, nil))
	if err != nil || string(exec.Output) != "null" {
		t.Error(exec, err)
	}
	exec, err = enter(t,
		returns(Spec{Name: "a"}, Execution{Output: raw("{\"The\":1,\"the\":\"\xff\"}")}, nil))
	if err != nil || string(exec.Output) != "{\"The\":1,\"the\":\"\ufffd\"}" {
		t.Errorf("%s %v", exec.Output, err)
	}
}

func TestAResultIsCheckedWhereItsTypeDemandsMoreThanGoDoes(t *testing.T) {
	type out struct {
		N int `json:"n" jsonschema:"minimum=1"`
	}
	made := make1(t, func(context.Context, struct{}) (Result[out], error) {
		return Done(out{}), nil
	})
	p, err := registry(t, made).Prepare(call("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Enter(t.Context(), p.Call)
	contains(t, err.Error(),
		"the result of t does not fit its schema: /n: must be at least 1, got 0")
}

func TestReconcileIsBoundedLikeTheBody(t *testing.T) {
	spec := Spec{Name: "a", Reconcile: func(ctx context.Context, c Call) (Execution, error) {
		switch CallFrom(ctx).ID {
		case "panics":
			panic("x")
		case "bad":
			return Execution{Output: raw("{")}, nil
		}
		return Execution{Output: raw(`"` + c.ID + `"`)}, nil
	}}
	p, err := registry(t, returns(spec, Execution{}, nil)).Prepare(Call{Tool: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if exec, ok, err := p.Reconcile(t.Context(), Call{ID: "c1"}); err != nil || !ok ||
		string(exec.Output) != `"c1"` {
		t.Error(exec, ok, err)
	}
	for id, want := range map[string]string{"panics": "a panicked: x", "bad": "no valid JSON"} {
		_, ok, err := p.Reconcile(t.Context(), Call{ID: id})
		if !ok || err == nil {
			t.Fatal(ok, err)
		}
		contains(t, err.Error(), want)
	}
	p, err = registry(t, named("a")...).Prepare(Call{Tool: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := p.Reconcile(t.Context(), p.Call); ok || err != nil {
		t.Error(ok, err)
	}
}

// The user's words are a string; so a tool whose output is never one can't wait
// for them.
func TestAMessageIsAString(t *testing.T) {
	asks := Await{Reason: ReasonInput, Mode: ModeMessage, Prompt: "Which seat?"}
	seat := struct {
		Row int `json:"row"`
	}{}
	if _, err := enter(t, pausing(t, asks, seat)); !errors.Is(err, ErrInvalidAwait) {
		t.Errorf("an object: %v", err)
	}
	if _, err := enter(t, pausing(t, asks, 0)); !errors.Is(err, ErrInvalidAwait) {
		t.Errorf("a number: %v", err)
	}
	for name, tl := range map[string]Tool{"a string": pausing(t, asks, ""),
		"anything": pausing(t, asks, any(nil))} {
		if exec, err := enter(t, tl); err != nil || exec.Await == nil {
			t.Errorf("%s: %+v, %v", name, exec, err)
		}
	}
}

// pausing returns a tool with an output like out.
func pausing[Out any](t *testing.T, a Await, _ Out) Tool {
	t.Helper()
	tl, err := Func(Spec{Name: "a", MayPause: true},
		func(context.Context, struct{}) (Result[Out], error) { return Pending[Out](a), nil })
	if err != nil {
		t.Fatal(err)
	}
	return tl
}
