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
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
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
	`{"n":9223372036854775807,"u":18446744073709551615,"f":1.7976931348623157e308,"g":3.4e38}`,
	`{"n":-9223372036854775808}`,
	`{"at":"2026-01-01T23:59:59.5+01:00","ip":"2001:db8::1"}`,
	`{"by_id":{"-128":"a","127":"b"},"long":{"-9223372036854775808":"a"}}`,
	`{"list":null,"by_id":null,"tags":["a"]}`, `{"odd":"fine"}`, `{"list":"[1,2]"}`,
}

// planner asks in one of the three ways in which an answer becomes a Go value,
// and notes what it got.
type planner struct {
	use toolbox.Use
	got atomic.Pointer[plan]
	in  agent.Config
}

func newPlanner(use toolbox.Use) *planner {
	p := &planner{use: use}
	p.in = agent.Config{Tools: []tool.Tool{p.tool()},
		Model: fakellm.New(fakellm.Calls("plan", `{}`), fakellm.Says("Done."))}
	if use == toolbox.AsArguments {
		p.in.Interceptors = interceptor.Chain{interceptor.Approval(nil)}
	}
	return p
}

func (p *planner) tool() tool.Tool {
	spec := tool.Spec{Name: "plan", Effect: tool.Idempotent}
	switch p.use {
	case toolbox.AsArguments:
		return tool.Must(tool.Func(spec,
			func(_ context.Context, in plan) (tool.Result[string], error) {
				p.got.Store(&in)
				return tool.Done("planned"), nil
			}))
	case toolbox.AsOutput:
		spec.MayPause = true
		return tool.Must(tool.Func(spec,
			func(context.Context, struct{}) (tool.Result[plan], error) {
				return tool.Pending[plan](tool.Await{}), nil
			}))
	}
	which := tool.NewQuestion[string, int, plan]("which")
	return tool.Must(tool.Resumable(spec,
		func(_ context.Context, _ struct{}) (tool.Result[string], error) {
			return which.Ask("What is the plan?", 7), nil
		},
		tool.On(which, func(_ context.Context, _ struct{}, r tool.Reply[int, plan]) (tool.Result[string], error) {
			if r.State != 7 {
				return nil, errors.New("the state is lost")
			}
			p.got.Store(&r.Answer)
			return tool.Done("planned"), nil
		})))
}

func (p *planner) reply(pause, value string) runner.Resumption {
	if p.use == toolbox.AsArguments {
		return runner.ApproveEdited(pause, "bob", "", json.RawMessage(value))
	}
	return runner.Complete(pause, "bob", json.RawMessage(value))
}

var uses = []toolbox.Use{toolbox.AsArguments, toolbox.AsAnswer, toolbox.AsOutput}

func TestAnswersAreJudgedByWhoWillUseThem(t *testing.T) {
	for _, use := range uses {
		t.Run(string(use), func(t *testing.T) {
			p := newPlanner(use)
			r := newRig(t, p.in, &rigOptions{memory: true})
			pause := r.say("Plan.").finished(event.FinishPaused).pause("plan")
			for _, values := range []map[string]string{unusable, bySchema} {
				for value, why := range values {
					if use == toolbox.AsOutput && strings.Contains(value, `"list":"`) {
						continue
					}
					_, err := r.Resume(t.Context(), chat, p.reply(pause.ID, value))
					var misfit *session.PayloadError
					if !errors.As(err, &misfit) || !strings.Contains(err.Error(), why) ||
						strings.Contains(err.Error(), "secret") {
						t.Errorf("%s is told %v", value, err)
					}
				}
			}
		})
		for _, value := range usable {
			if use == toolbox.AsOutput && strings.Contains(value, `"list":"`) {
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
				if use != toolbox.AsOutput && p.got.Load() == nil {
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
				if !errors.Is(err, session.ErrInvalidResumePayload) ||
					!strings.Contains(err.Error(), why) {
					t.Errorf("%s is told %v", value, err)
				}
			}
			_, err = hook.Resume(t.Context(), chat,
				p.reply(pause.ID, `{"list":null,"n":9223372036854775807}`))
			must(t, err)
			r.carryOn().finished(event.FinishStop)
			if res := r.result(pause.Call); res.Error {
				t.Errorf("the model reads %s", res.Output)
			}
		})
	}
	told, _ := newPlanner(toolbox.AsArguments).in.Tools[0], 0
	for _, secret := range []string{"9223372036854775807", "18446744073709551615",
		"e308", "null", "[0-9]{"} {
		if strings.Contains(string(told.Spec().Input), secret) {
			t.Errorf("models are told of %s: %s", secret, told.Spec().Input)
		}
	}
}

// A method that doesn't return keeps an answer from being judged by it, and
// from nothing else.
func TestMethodThatHangsLeavesTheAnswerToTheSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlanner(toolbox.AsAnswer)
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
				p := newPlanner(toolbox.AsAnswer)
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

// A webhook's process need not have the agent: all that is needed to take an
// answer is stored.
func TestAnswerByARunnerWithoutTheAgent(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	bare, err := runner.New(nil, public.NewStore(r.kv, nil), nil)
	must(t, err)
	defer bare.Close()
	if err := bare.Work(t.Context(), nil); !errors.Is(err, runner.ErrUnknownAgent) {
		t.Errorf("a worker without an agent is told %v", err)
	}
	if _, err := bare.Resume(t.Context(), chat,
		runner.Complete(p.ID, "ci", []byte(`{"txt":""}`))); !errors.Is(err,
		session.ErrInvalidResumePayload) {
		t.Errorf("an answer that does not fit is told %v", err)
	}
	must(t, bare.Progress(t.Context(), chat, p.Call, user, tool.Progress{Message: "half"}))
	res, err := bare.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
	must(t, err)
	if s := watch(t, res.Events(t.Context())); !errors.Is(s.err, runner.ErrUnknownAgent) {
		t.Errorf("its events end with %v", s.err)
	}
	r.carryOn().finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("v2")) {
		t.Errorf("the result is %s", got)
	}
}
