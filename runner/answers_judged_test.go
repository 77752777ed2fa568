package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// plan is of types whose JSON is less than their schemas say.
type plan struct {
	N    int64            `json:"n,omitempty"`
	U    uint64           `json:"u,omitempty"`
	F    float64          `json:"f,omitempty"`
	G    float32          `json:"g,omitempty"`
	At   time.Time        `json:"at,omitzero"`
	IP   net.IP           `json:"ip,omitempty"`
	ByID map[int8]string  `json:"by_id,omitempty"`
	Long map[int64]string `json:"long,omitempty"`
	Tags []string         `json:"tags,omitempty" jsonschema:"minItems=1"`
	List []int            `json:"list,omitempty"`
	Odd  odd              `json:"odd,omitempty"`
}

// odd reads itself, in ways that no type should.
type odd string

// hang keeps odd's method while it is not nil.
var hang atomic.Pointer[chan struct{}]

func (o *odd) UnmarshalText(text []byte) error {
	switch string(text) {
	case "errs":
		return errors.New("an odd error")
	case "panics":
		panic("a secret")
	case "ends":
		runtime.Goexit()
	case "hangs":
		if c := hang.Load(); c != nil {
			<-*c
		}
	}
	*o = odd(text)
	return nil
}

func (o odd) MarshalText() ([]byte, error) { return []byte(o), nil }

// unusable are values that fit a schema which says only what models are told,
// and a part of what is said of each. Those in bySchema are refused by runners
// without the agent, too.
var unusable = map[string]string{
	`{"at":"2026-01-01T23:59:60Z"}`: "second out of range",
	`{"ip":"nope"}`:                 "nope",
	`{"odd":"errs"}`:                "an odd error",
	`{"odd":"panics"}`:              "panicked",
	`{"odd":"ends"}`:                "ended its goroutine",
}

var bySchema = map[string]string{
	`{"n":9223372036854775808}`:            "at most 9223372036854775807",
	`{"n":-9223372036854775809}`:           "at least -9223372036854775808",
	`{"u":18446744073709551616}`:           "at most 18446744073709551615",
	`{"f":1e400}`:                          "at most 17976",
	`{"g":1e39}`:                           "at most 340282",
	`{"by_id":{"128":"a"}}`:                `the key "128" must be a whole number from -128 to 127`,
	`{"by_id":{"x":"a"}}`:                  `the key "x"`,
	`{"long":{"9223372036854775808":"a"}}`: "9223372036854775807",
	`{"tags":null}`:                        "/tags",
	`{"tags":[]}`:                          "at least 1",
	`{"list":"[1,\"a\"]"}`:                 "/list",
}

// usable are values at the edge.
var usable = []string{
	`{"n":9223372036854775807,"u":18446744073709551615,"f":1.7976931348623157e308,"g":3.4e38}`, `{"n":-9223372036854775808}`,
	`{"at":"2026-01-01T23:59:59.5+01:00","ip":"2001:db8::1"}`, `{"by_id":{"-128":"a","127":"b"},"long":{"-9223372036854775808":"a"}}`,
	`{"list":null,"by_id":null,"tags":["a"]}`, `{"odd":"fine"}`, `{"list":"[1,2]"}`,
}

// planner asks in one of the three ways in which an answer becomes a Go value,
// and notes what it got.
type planner struct {
	use tool.Use
	got atomic.Pointer[plan]
	in  agent.Config
}

func newPlanner(use tool.Use) *planner {
	p := &planner{use: use}
	p.in = agent.Config{Tools: []tool.Tool{p.tool()}, Model: fakellm.New(fakellm.Calls("plan", `{}`), fakellm.Says("Done."))}
	if use == tool.AsArguments {
		p.in.Interceptors = interceptor.Chain{interceptor.Approval(nil)}
	}
	return p
}

func (p *planner) tool() tool.Tool {
	spec := tool.Spec{Name: "plan", Effect: tool.Idempotent}
	switch p.use {
	case tool.AsArguments:
		return tool.Must(tool.Func(spec, func(_ context.Context, in plan) (tool.Result[string], error) {
			p.got.Store(&in)
			return tool.Done("planned"), nil
		}))
	case tool.AsOutput:
		spec.MayPause = true
		return tool.Must(tool.Func(spec, func(context.Context, struct{}) (tool.Result[plan], error) {
			return tool.Pending[plan](tool.Await{}), nil
		}))
	}
	return tool.Must(tool.Resumable(spec,
		func(_ context.Context, _ struct{}, ask tool.Ask[string, int]) (tool.Result[string], error) {
			return ask("What is the plan?", 7), nil
		},
		func(_ context.Context, _ struct{}, r tool.Reply[string, int, plan]) (tool.Result[string], error) {
			if r.State != 7 {
				return nil, errors.New("the state is lost")
			}
			p.got.Store(&r.Answer)
			return tool.Done("planned"), nil
		}))
}

func (p *planner) reply(pause, value string) runner.Resumption {
	if p.use == tool.AsArguments {
		return runner.ApproveEdited(pause, "bob", "", json.RawMessage(value))
	}
	return runner.Complete(pause, "bob", json.RawMessage(value))
}

var uses = []tool.Use{tool.AsArguments, tool.AsAnswer, tool.AsOutput}

func TestAnswersAreJudgedByWhoWillUseThem(t *testing.T) {
	for _, use := range uses {
		t.Run(string(use), func(t *testing.T) {
			p := newPlanner(use)
			r := newRig(t, p.in, &rigOptions{memory: true})
			pause := r.say("Plan.").finished(event.FinishPaused).pause("plan")
			for _, values := range []map[string]string{unusable, bySchema} {
				for value, why := range values {
					if use == tool.AsOutput && strings.Contains(value, `"list":"`) {
						continue
					}
					_, err := r.Resume(t.Context(), chat, p.reply(pause.ID, value))
					var misfit *session.PayloadError
					if !errors.As(err, &misfit) || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "secret") {
						t.Errorf("%s is told %v", value, err)
					}
				}
			}
		})
		for _, value := range usable {
			if use == tool.AsOutput && strings.Contains(value, `"list":"`) {
				continue // outputs are kept as they came
			}
			t.Run(string(use)+" of "+value, func(t *testing.T) {
				p := newPlanner(use)
				r := newRig(t, p.in, &rigOptions{memory: true})
				pause := r.say("Plan.").finished(event.FinishPaused).pause("plan")
				r.answer(p.reply(pause.ID, value)).finished(event.FinishStop)
				if res := r.result(pause.Call); res.Error {
					t.Errorf("after the good answer the model reads %s", res.Output)
				}
				if use != tool.AsOutput && p.got.Load() == nil {
					t.Error("the tool was not given it")
				}
			})
		}
	}
}

// A runner without the agent knows what a schema can say, which is more than
// models are told.
func TestAnswersAreJudgedByTheStoredSchemaWithoutTheAgent(t *testing.T) {
	for _, use := range uses {
		t.Run(string(use), func(t *testing.T) {
			p := newPlanner(use)
			r := newRig(t, p.in, &rigOptions{memory: true})
			pause := r.say("Plan.").finished(event.FinishPaused).pause("plan")
			hook, err := runner.New(nil, r.public, r.o.runner)
			must(t, err)
			defer hook.Close()
			for value, why := range bySchema {
				_, err := hook.Resume(t.Context(), chat, p.reply(pause.ID, value))
				if !errors.Is(err, session.ErrInvalidResumePayload) || !strings.Contains(err.Error(), why) {
					t.Errorf("%s is told %v", value, err)
				}
			}
			_, err = hook.Resume(t.Context(), chat, p.reply(pause.ID, `{"list":null,"n":9223372036854775807}`))
			must(t, err)
			r.carryOn().finished(event.FinishStop)
			if res := r.result(pause.Call); res.Error {
				t.Errorf("the model reads %s", res.Output)
			}
		})
	}
	told, _ := newPlanner(tool.AsArguments).in.Tools[0], 0
	for _, secret := range []string{"9223372036854775807", "18446744073709551615", "e308", "null", "[0-9]{"} {
		if strings.Contains(string(told.Spec().Input), secret) {
			t.Errorf("models are told of %s: %s", secret, told.Spec().Input)
		}
	}
}

// A method that doesn't return keeps an answer from being judged by it, and
// from nothing else.
func TestMethodThatHangsLeavesTheAnswerToTheSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlanner(tool.AsAnswer)
		r := newRig(t, p.in, &rigOptions{memory: true})
		pause := r.say("Plan.").finished(event.FinishPaused).pause("plan")
		let := make(chan struct{})
		hang.Store(&let)
		before := time.Now()
		_, err := r.Resume(t.Context(), chat, p.reply(pause.ID, `{"odd":"hangs"}`))
		must(t, err)
		if took := time.Since(before); took > time.Second {
			t.Errorf("it was judged for %v", took)
		}
		hang.Store(nil)
		close(let)
		r.carryOn().finished(event.FinishStop)
		if p.got.Load() == nil || p.got.Load().Odd != "hangs" {
			t.Error("the tool was not given the answer")
		}
	})
}

// While an answer is judged by a method, another one is accepted for the same
// pause.
func TestVerdictIsForThePauseThatItWasGivenFor(t *testing.T) {
	for name, then := range map[string]struct {
		value string
		want  error
	}{
		"another": {`{"odd":"fine"}`, session.ErrResumeConflict},
		"equal":   {`{"odd": "hangs"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlanner(tool.AsAnswer)
				r := newRig(t, p.in, &rigOptions{memory: true})
				pause := r.say("Plan.").finished(event.FinishPaused).pause("plan")
				hook, err := runner.New(nil, r.public, r.o.runner)
				must(t, err)
				defer hook.Close()
				let := make(chan struct{})
				hang.Store(&let)
				told := make(chan error, 1)
				go func() {
					_, err := r.Resume(t.Context(), chat, p.reply(pause.ID, `{"odd":"hangs"}`))
					told <- err
				}()
				synctest.Wait() // in the method
				_, err = hook.Resume(t.Context(), chat, p.reply(pause.ID, then.value))
				must(t, err)
				hang.Store(nil)
				close(let)
				if err := <-told; !errors.Is(err, then.want) {
					t.Errorf("it is told %v", err)
				}
			})
		})
	}
}

// strict reads only what it is told.
type strict string

var takes atomic.Pointer[string]

func (s *strict) UnmarshalText(text []byte) error {
	if only := takes.Load(); only != nil && string(text) != *only {
		return errors.New("a new version takes other words")
	}
	*s = strict(text)
	return nil
}

func askingWhich() tool.Tool {
	return tool.Must(tool.Resumable(tool.Spec{Name: "plan"},
		func(_ context.Context, _ struct{}, ask tool.Ask[strict, map[string]int]) (tool.Result[strict], error) {
			return ask("Which one?", map[string]int{"offer": 3}), nil
		},
		func(_ context.Context, _ struct{}, r tool.Reply[strict, map[string]int, strict]) (tool.Result[strict], error) {
			if r.State["offer"] != 3 {
				return nil, errors.New("the state is lost")
			}
			return tool.Done(r.Answer), nil
		}))
}

func TestRedeliveryIsADuplicateWhateverTheTypeOfTodaySays(t *testing.T) {
	defer takes.Store(nil)
	r := newRig(t, agent.Config{Tools: []tool.Tool{askingWhich()}, Model: fakellm.New(fakellm.Calls("plan", `{}`), fakellm.Says("Done."))}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("plan")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "bob", []byte(`"a"`)))
	must(t, err)
	only := "b"
	takes.Store(&only)
	r.restart()
	res, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "bob", []byte(`"a"`)))
	if err != nil || !res.Receipts[0].Duplicate {
		t.Errorf("it is told %v", err)
	}
}

// An answer was accepted, and the program that is deployed then can't read it.
// The question is asked again, with what is wrong, and with the state that was
// kept; three times at most.
func TestAnswerThatCanNotBeReadIsAskedForAgain(t *testing.T) {
	for name, bad := range map[string]int{"once": 1, "three times": 3, "four times": 4} {
		t.Run(name, func(t *testing.T) {
			defer takes.Store(nil)
			r := newRig(t, agent.Config{Tools: []tool.Tool{askingWhich()}, Model: fakellm.New(fakellm.Calls("plan", `{}`), fakellm.Says("Done."))}, nil)
			p := r.say("Go.").finished(event.FinishPaused).pause("plan")
			only := "b"
			for n := 1; n <= bad; n++ {
				takes.Store(nil)
				_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "bob", []byte(`"a"`)))
				must(t, err)
				takes.Store(&only)
				r.restart()
				run := r.carryOn()
				if n == 4 {
					run.finished(event.FinishStop)
					if res := r.result(p.Call); !res.Error || !strings.Contains(string(res.Output), "other words") {
						t.Errorf("the model reads %s", res.Output)
					}
					return
				}
				next := run.finished(event.FinishPaused).pause("plan")
				if next.Number != n+1 || !strings.HasPrefix(next.Await.Prompt, "Which one? (Asked again: ") ||
					strings.Count(next.Await.Prompt, "other words") != 1 {
					t.Errorf("pause %d asks %q", next.Number, next.Await.Prompt)
				}
				p = next
			}
			r.answer(runner.Complete(p.ID, "bob", []byte(`"b"`))).finished(event.FinishStop)
			if res := r.result(p.Call); string(res.Output) != `"b"` {
				t.Errorf("the model reads %s", res.Output)
			}
		})
	}
}

// What goes wrong behind a question that is asked again comes before the tool
// acts: it is told as it is, and not as what came of the tool's work.
func TestAskingAgainIsNoWorkOfTheTool(t *testing.T) {
	defer takes.Store(nil)
	var fails atomic.Bool
	layer := interceptor.Layer{Name: "log", Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
		return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
			exec, err := next(ctx, call)
			if err == nil && fails.Load() {
				err = errors.New("the log is full")
			}
			return exec, err
		}
	}}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{askingWhich()}, Interceptors: interceptor.Chain{layer},
		Model: fakellm.New(fakellm.Calls("plan", `{}`), fakellm.Says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("plan")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "bob", []byte(`"a"`)))
	must(t, err)
	only := "b"
	takes.Store(&only)
	fails.Store(true)
	r.carryOn().finished(event.FinishStop)
	if res := r.result(p.Call); !strings.Contains(string(res.Output), "the log is full") || strings.Contains(string(res.Output), "plan ran") {
		t.Errorf("the model reads %s", res.Output)
	}
}
