package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// An answer is judged by the schema that was stored with its pause, whatever
// was deployed since.
func TestAnswerFitsTheStoredSchema(t *testing.T) {
	type newOut struct {
		Version int `json:"version"`
	}
	var n counter
	r, p := deployed(t, &n)
	r.config.Tools = []tool.Tool{tool.Must(tool.Func(tool.Spec{Name: "deploy", MayPause: true},
		func(context.Context, textIn) (tool.Result[newOut], error) {
			return tool.Pending[newOut](tool.Await{}), nil
		}))}
	r.restart()
	if _, err := r.Resume(t.Context(), chat,
		runner.Complete(p.ID, "ci", []byte(`{"version":2}`))); !errors.Is(err,
		session.ErrInvalidResumePayload) {
		t.Errorf("an answer of the new shape is told %v", err)
	}
	r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("v2")) {
		t.Errorf("the result is %s", got)
	}
}

// An answer that is a call's output counts, although the tool was changed since
// and wouldn't take the call's arguments any more. The work is done, and the
// model isn't told to ask for it again.
func TestAnswerOutlivesTheInputsSchema(t *testing.T) {
	deploy := func(input string) []tool.Tool {
		return []tool.Tool{rawTool{tool.Spec{Name: "deploy", MayPause: true,
			Input: json.RawMessage(input)},
			func(context.Context, tool.Call) (tool.Execution, error) {
				return tool.Execution{Await: &tool.Await{}}, nil
			}}}
	}
	r := newRig(t, agent.Config{Tools: deploy(`{"type":"object"}`),
		Model: messages(calls("deploy", `{}`), says("Done."))}, nil)
	p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("live")))
	must(t, err)
	r.config.Tools = deploy(`{"type":"object","properties":{"env":{"type":"string"}},"required":["env"]}`)
	r.restart()
	r.carryOn().finished(event.FinishStop)
	if got := r.result(p.Call); got.Error || string(got.Output) != string(text("live")) {
		t.Errorf("the result is %s", got.Output)
	}
	r.acceptable()
}

// A call waits at a gate while its tool is deployed anew. What answers are
// judged by is the tool that runs: an answer that is faster than its pause is
// taken, or refused, as for a call that was asked for after the deploy.
func TestToolThatWasDeclaredAnewWhileItsCallWaited(t *testing.T) {
	type outcome struct {
		URL string `json:"url"`
	}
	before := map[string]tool.Tool{
		"it could not pause": tool.Must(tool.Func(tool.Spec{Name: "job", Description: "j"},
			func(context.Context, struct{}) (tool.Result[outcome], error) {
				return tool.Done(outcome{}), nil
			})),
		"it gave something else": tool.Must(tool.Func(tool.Spec{Name: "job", Description: "j",
			MayPause: true, Effect: tool.Idempotent},
			func(context.Context, struct{}) (tool.Result[int], error) {
				return tool.Done(1), nil
			})),
	}
	for name, old := range before {
		for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
			t.Run(name+" "+string(effect), func(t *testing.T) {
				r := newRig(t, agent.Config{
					Tools:        []tool.Tool{old},
					Interceptors: interceptor.Chain{interceptor.Approval(nil)},
					Model:        messages(calls("job", `{}`), says("Done.")),
				}, nil)
				p := r.say("Go.").finished(event.FinishPaused).pause("job")

				entered := 0
				r.config.Tools = []tool.Tool{tool.Must(tool.Func(tool.Spec{Name: "job",
					Description: "j", MayPause: true, Effect: effect},
					func(ctx context.Context, _ struct{}) (tool.Result[outcome], error) {
						entered++
						tok, err := r.ReadToken(ctx, tool.CallFrom(ctx).Token())
						must(t, err)
						if _, err := r.Resume(ctx, chat, runner.Complete(tok.PauseID(),
							"ci", []byte(`1`))); !errors.Is(err, session.ErrInvalidResumePayload) {
							t.Errorf("an answer as the tool was once declared: %v", err)
						}
						_, err = r.Resume(ctx, chat, runner.Complete(tok.PauseID(),
							"ci", []byte(`{"url":"u"}`)))
						must(t, err)
						return tool.Pending[outcome](tool.Await{}), nil
					}))}
				r.restart()
				r.answer(runner.Approve(p.ID, "grace", "")).finished(event.FinishStop)
				c, err := r.Call(t.Context(), chat, p.Call, user)
				must(t, err)
				if string(c.Output) != `{"url":"u"}` || entered != 1 ||
					c.Receipts[len(c.Receipts)-1].Fate != "" {
					t.Errorf("after %d entries the call has %s, by %+v", entered,
						c.Output, c.Receipts)
				}
			})
		}
	}
}

// strict reads only what it is told.
type strict string

func (s *strict) UnmarshalText(text []byte) error {
	if only := takes.Load(); only != nil && string(text) != *only {
		return errors.New("a new version takes other words")
	}
	*s = strict(text)
	return nil
}

var takes atomic.Pointer[string]

func askingWhich() tool.Tool {
	which := tool.NewQuestion[strict, map[string]int, strict]("which")
	return tool.Must(tool.Resumable(tool.Spec{Name: "plan"},
		func(_ context.Context, _ struct{}) (tool.Result[strict], error) {
			return which.Ask("Which one?", map[string]int{"offer": 3}), nil
		},
		tool.On(which, func(_ context.Context, _ struct{}, r tool.Reply[map[string]int, strict]) (tool.Result[strict], error) {
			if r.State["offer"] != 3 {
				return nil, errors.New("the state is lost")
			}
			return tool.Done(r.Answer), nil
		})))
}

func TestRedeliveryIsADuplicateWhateverTheTypeOfTodaySays(t *testing.T) {
	defer takes.Store(nil)
	r := newRig(t, agent.Config{Tools: []tool.Tool{askingWhich()},
		Model: fakellm.New(fakellm.Calls("plan", `{}`), fakellm.Says("Done."))}, nil)
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
			r := newRig(t, agent.Config{Tools: []tool.Tool{askingWhich()},
				Model: fakellm.New(fakellm.Calls("plan", `{}`), fakellm.Says("Done."))}, nil)
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
					if res := r.result(p.Call); !res.Error ||
						!strings.Contains(string(res.Output), "other words") {
						t.Errorf("the model reads %s", res.Output)
					}
					return
				}
				next := run.finished(event.FinishPaused).pause("plan")
				if next.Number != n+1 || !strings.HasPrefix(next.Await.Prompt,
					"Which one? (Asked again: ") ||
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

// A question that is asked again waits no longer than it would have waited at
// first, and then does what it would have done.
func TestAQuestionIsAskedAgainWithinItsTime(t *testing.T) {
	for _, then := range []tool.OnTimeout{"", tool.ReenterOnTimeout} {
		t.Run(string(then), func(t *testing.T) {
			defer takes.Store(nil)
			now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
			which := tool.NewQuestion[string, int, strict]("which")
			ask := tool.Must(tool.Resumable(tool.Spec{Name: "plan"},
				func(context.Context, struct{}) (tool.Result[string], error) {
					return tool.Within(which.Ask("Which one?", 3),
						tool.TimeLimit{Timeout: time.Hour, OnTimeout: then}), nil
				},
				tool.On(which, func(_ context.Context, _ struct{}, r tool.Reply[int, strict]) (
					tool.Result[string], error) {
					return tool.Done(fmt.Sprint("in time: ", !r.TimedOut, r.State)), nil
				})))
			r := newRig(t, agent.Config{Tools: []tool.Tool{ask},
				Model: fakellm.New(fakellm.Calls("plan", `{}`), fakellm.Says("Done."))},
				&rigOptions{session: &session.Options{Now: func() time.Time { return now }}})
			p := r.say("Go.").finished(event.FinishPaused).pause("plan")
			only := "b"
			for range 2 {
				takes.Store(nil)
				now = now.Add(time.Minute)
				_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "bob", []byte(`"a"`)))
				must(t, err)
				takes.Store(&only)
				r.restart()
				next := r.carryOn().finished(event.FinishPaused).pause("plan")
				if !next.Deadline.Equal(p.Deadline) || next.Await.OnTimeout != then {
					t.Errorf("pause %d lasts until %v, and then %q; the one before until %v", next.Number,
						next.Deadline, next.Await.OnTimeout, p.Deadline)
				}
				p = next
			}
			now = now.Add(time.Hour)
			r.carryOn().finished(event.FinishStop)
			want := "Expired"
			if then != "" {
				want = `"in time: false 3"`
			}
			if got := string(r.result(p.Call).Output); !strings.Contains(got, want) {
				t.Errorf("after that the model reads %s", got)
			}
			r.sound()
		})
	}
}

// What goes wrong behind a question that is asked again comes before the tool
// acts: it is told as it is, and not as what came of the tool's work.
func TestAskingAgainIsNoWorkOfTheTool(t *testing.T) {
	defer takes.Store(nil)
	var fails atomic.Bool
	layer := interceptor.Layer{Name: "log",
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
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
	if res := r.result(p.Call); !strings.Contains(string(res.Output), "the log is full") ||
		strings.Contains(string(res.Output), "plan ran") {
		t.Errorf("the model reads %s", res.Output)
	}
}

// TestChangedBetweenPauseAndApproval: the arguments no longer fit a new version
// of the tool. Then nothing is run, the model reads why, and its sibling goes
// on.
func TestChangedBetweenPauseAndApproval(t *testing.T) {
	stricter := tool.Must(tool.Func(tool.Spec{Name: "transfer"},
		func(context.Context, struct {
			Cents int64  `json:"cents"`
			IBAN  string `json:"iban"`
		}) (tool.Result[int64], error) {
			t.Error("the new version was run with the old arguments")
			return tool.Done[int64](0), nil
		}))
	var ran []string
	var n counter
	audit := instant("audit", tool.Once, &n)
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("transfer", `{"cents":1}`).And("audit", `{"text":"log"}`),
			fakellm.Says("I see.")),
		Tools:        []tool.Tool{transfer(&ran), audit},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
	}, nil)
	run := r.say("Send money.")
	r.config.Tools = []tool.Tool{stricter, audit}
	r.restart()
	p := run.pause("transfer")
	res, err := r.Resume(t.Context(), chat, runner.Approve(p.ID, "bob", ""),
		runner.Approve(run.pause("audit").ID, "bob", ""))
	must(t, err)
	watch(t, res.Events(t.Context())).finished(event.FinishStop)
	if len(ran) != 0 || n.get("audit") != 1 ||
		!strings.Contains(string(r.result(p.Call).Output), "iban") {
		t.Errorf("transfer ran with %q, audit %d times; the model reads %s", ran,
			n.get("audit"), r.result(p.Call).Output)
	}
	r.acceptable()
}

// TestChangedBetweenPauseAndAnswer: a deploy gave the tool a field that the
// arguments don't have, after the work had begun. The model isn't told both to
// call it again and that it may have had effects.
func TestChangedBetweenPauseAndAnswer(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent, tool.ReadOnly} {
		which := tool.NewQuestion[string, string, string]("which")
		book := tool.Must(tool.Resumable(tool.Spec{Name: "book", Effect: effect},
			func(_ context.Context, in textIn) (tool.Result[string], error) {
				return which.Ask("Which seat?", in.Text), nil
			},
			tool.On(which, func(_ context.Context, _ textIn, r tool.Reply[string, string]) (tool.Result[string], error) {
				return tool.Done(r.Answer), nil
			})))
		changed := tool.Must(tool.Func(tool.Spec{Name: "book", Effect: effect, MayPause: true},
			func(context.Context, struct {
				textIn
				Class string `json:"class"`
			}) (tool.Result[string], error) {
				t.Error("it was run with arguments that don't fit")
				return tool.Done(""), nil
			}))
		t.Run(string(effect), func(t *testing.T) {
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{book},
				Model: fakellm.New(fakellm.Calls("book", `{"text":"AF1"}`), fakellm.Says("I see.")),
			}, nil)
			p := r.say("Book it.").finished(event.FinishPaused).pause("book")
			r.config.Tools = []tool.Tool{changed}
			r.restart()
			r.answer(runner.Complete(p.ID, "ada", []byte(`"12A"`))).finished(event.FinishStop)
			text := string(r.result(p.Call).Output)
			const want = "do not fit book any more, which was changed since: /class: is required"
			if !strings.Contains(text, want) || !strings.Contains(text,
				"Its work had begun before") {
				t.Errorf("the model reads %s", text)
			}
			for _, contradiction := range []string{
				"call it again", "was not run", "nothing was run",
			} {
				if strings.Contains(text, contradiction) {
					t.Errorf("the model reads %q in %s", contradiction, text)
				}
			}
			if strings.Contains(text, "effects") == (effect == tool.ReadOnly) {
				t.Errorf("of a tool that is %q the model reads %s", effect, text)
			}
		})
	}
}
