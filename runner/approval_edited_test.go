package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// transfer is a tool that notes the arguments which it was run with, byte for byte.
func transfer(ran *[]string) tool.Tool {
	type in struct {
		Cents int64  `json:"cents"`
		Note  string `json:"note,omitempty"`
	}
	t := tool.Must(tool.Func(tool.Spec{Name: "transfer"},
		func(ctx context.Context, in in) (tool.Result[int64], error) {
			*ran = append(*ran, string(tool.CallFrom(ctx).Arguments))
			return tool.Done(in.Cents), nil
		}))
	return t
}

// rewrite is a layer that puts other arguments in the place of the model's.
func rewrite(name string, f func(args string) string) interceptor.Layer {
	return interceptor.Layer{Name: name, Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
		return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
			c.Arguments = json.RawMessage(f(string(c.Arguments)))
			return next(ctx, c)
		}
	}}
}

// TestApprovedIsWhatRuns: byte for byte, or nothing does. The model isn't asked in between.
func TestApprovedIsWhatRuns(t *testing.T) {
	const asked = `{ "cents" : 9007199254740993, "note":"<é>" }`
	gate, second := interceptor.Approval(nil), interceptor.Approval(&interceptor.ApprovalOptions{Name: "second"})
	passes := 0
	for name, test := range map[string]struct {
		layers interceptor.Chain
		shown  string // what each gate shows
		runs   string // empty: nothing
	}{
		"as the model wrote them":        {interceptor.Chain{gate}, asked, asked},
		"through two gates":              {interceptor.Chain{gate, second}, asked, asked},
		"changed before they were shown": {interceptor.Chain{rewrite("halve", func(string) string { return `{"cents":2}` }), gate}, `{"cents":2}`, `{"cents":2}`},
		"changed after they were shown":  {interceptor.Chain{gate, rewrite("double", func(string) string { return `{"cents":4}` })}, asked, ""},
		"changed in white space only":    {interceptor.Chain{gate, rewrite("trim", func(s string) string { return strings.ReplaceAll(s, " ", "") })}, asked, ""},
		"changed when the call went on": {interceptor.Chain{rewrite("drift", func(string) string {
			passes++
			return `{"cents":` + strings.Repeat("1", passes) + `}`
		}), gate}, `{"cents":1}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []string
			model := fakellm.New(fakellm.Calls("transfer", asked), fakellm.From(func(llm.Request) fakellm.Turn { return fakellm.Says("Done.") }))
			r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{transfer(&ran)}, Interceptors: test.layers}, nil)
			run := r.say("Send money.")
			call := run.pause("transfer").Call
			for len(run.end.Pending) > 0 {
				p := run.pause("transfer")
				if string(p.Arguments) != test.shown {
					t.Errorf("%s shows %s, not %s", p.Await.Gate, p.Arguments, test.shown)
				}
				if len(model.Requests()) != 1 {
					t.Errorf("the model was asked %d times before the call had settled", len(model.Requests()))
				}
				r.restart()
				run = r.answer(runner.Approve(p.ID, "bob", ""))
			}
			run.finished(event.FinishStop)
			if got := strings.Join(ran, "; "); got != test.runs {
				t.Errorf("it ran with %q, not %q", got, test.runs)
			}
			res := r.result(call)
			if res.Error != (test.runs == "") || res.Error && !strings.Contains(string(res.Output), "changed after they were approved, and were not run") {
				t.Errorf("the model reads %s", res.Output)
			}
			if got := string(r.transcript().History[1].ToolCalls()[0].Arguments); got != asked {
				t.Errorf("the transcript has the arguments %s", got)
			}
			r.acceptable()
		})
	}
}

// TestALayerCannotOverruleAGate: one that calls next although the call was denied comes no further.
func TestALayerCannotOverruleAGate(t *testing.T) {
	var ran []string
	pushy := interceptor.Layer{Name: "pushy", Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
		return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
			if len(c.Decisions) == 0 {
				return tool.Execution{Await: &tool.Await{Prompt: "May it?"}}, nil
			}
			return next(ctx, c)
		}
	}}
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("transfer", `{"cents":1}`), fakellm.Says("I see.")),
		Tools: []tool.Tool{transfer(&ran)}, Interceptors: interceptor.Chain{pushy},
	}, nil)
	p := r.say("Send money.").pause("transfer")
	r.answer(runner.Deny(p.ID, "bob", "no")).finished(event.FinishStop)
	if len(ran) != 0 || !r.result(p.Call).Error {
		t.Errorf("it ran with %q, and the model reads %s", ran, r.result(p.Call).Output)
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
		Model: fakellm.New(fakellm.Calls("transfer", `{"cents":1}`).And("audit", `{"text":"log"}`), fakellm.Says("I see.")),
		Tools: []tool.Tool{transfer(&ran), audit}, Interceptors: interceptor.Chain{interceptor.Approval(nil)},
	}, nil)
	run := r.say("Send money.")
	r.config.Tools = []tool.Tool{stricter, audit}
	r.restart()
	p := run.pause("transfer")
	res, err := r.Resume(t.Context(), chat, runner.Approve(p.ID, "bob", ""), runner.Approve(run.pause("audit").ID, "bob", ""))
	must(t, err)
	watch(t, res.Events(t.Context())).finished(event.FinishStop)
	if len(ran) != 0 || n.get("audit") != 1 || !strings.Contains(string(r.result(p.Call).Output), "iban") {
		t.Errorf("transfer ran with %q, audit %d times; the model reads %s", ran, n.get("audit"), r.result(p.Call).Output)
	}
	r.acceptable()
}

// Edited arguments that are larger than the tools take are refused before they are accepted, where the agent is at hand.
func TestEditedArgumentsTooLarge(t *testing.T) {
	for name, limit := range map[string]int{"by default": 0, "of one's own": 1000} {
		t.Run(name, func(t *testing.T) {
			var n counter
			c := gated(&n, fakellm.New(fakellm.Calls("refund", `{"text":"a"}`), fakellm.Says("Done.")))
			c.ToolLimits.Arguments = limit
			r := newRig(t, c, nil)
			p := r.say("Go.").finished(event.FinishPaused).pause("refund")
			if limit == 0 {
				limit = 256 << 10
			}
			fits := strings.Repeat("x", limit-len(text("")))
			_, err := r.Resume(t.Context(), chat, runner.ApproveEdited(p.ID, "bob", "", textIn{fits + "x"}))
			if !errors.Is(err, session.ErrInvalidResumePayload) || !strings.Contains(err.Error(), fmt.Sprint(limit)) {
				t.Errorf("Resume: %v", err)
			}
			r.answer(runner.ApproveEdited(p.ID, "bob", "", textIn{fits})).finished(event.FinishStop)
			if got := r.result(p.Call).Output; n.get("refund") != 1 || string(got) != string(text(fits)) {
				t.Errorf("it ran %d times; the result has %d bytes", n.get("refund"), len(got))
			}
		})
	}
}

// TestEditedArguments: they are checked before they are accepted, kept beside the model's, and are what runs.
func TestEditedArguments(t *testing.T) {
	var ran []string
	model := fakellm.New(fakellm.Calls("transfer", `{"cents":1000}`), fakellm.Says("Sent."))
	r := newRig(t, agent.Config{
		Model: model, Tools: []tool.Tool{transfer(&ran)},
		Interceptors: interceptor.Chain{interceptor.Approval(nil), interceptor.Approval(&interceptor.ApprovalOptions{Name: "boss"})},
	}, nil)
	p := r.say("Send money.").pause("transfer")
	if !strings.Contains(string(p.Await.Schema), `"cents"`) { // for a form in which they are edited
		t.Errorf("the gate shows %s as what arguments must fit", p.Await.Schema)
	}
	for what, args := range map[string]any{
		"a wrong type":   map[string]any{"cents": "many"},
		"a field more":   map[string]any{"cents": 1, "to": "me"},
		"a missing one":  map[string]any{},
		"no object":      []int{1},
		"null":           nil,
		"a case of keys": json.RawMessage(`{"cents":1,"CENTS":1000000}`),
		"no JSON":        json.RawMessage(`{"cents":1`),
		"not encodable":  func() {},
	} {
		var payload *session.PayloadError
		_, err := r.Resume(t.Context(), chat, runner.ApproveEdited(p.ID, "bob", "", args))
		if !errors.Is(err, session.ErrInvalidResumePayload) || !errors.As(err, &payload) {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
	if _, err := r.Resume(t.Context(), chat, runner.Resumption{Pause: p.ID, Decision: &tool.Decision{Arguments: json.RawMessage(`{"cents":1}`)}}); !errors.Is(err, session.ErrInvalidResumePayload) {
		t.Errorf("a denial with arguments: %v", err)
	}
	if _, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "bob", json.RawMessage(`true`))); !errors.Is(err, session.ErrInvalidResumePayload) {
		t.Errorf("an output in place of a decision: %v", err)
	}
	note := strings.Repeat("half of it. ", 200) // lies outside of the head
	half := map[string]any{"cents": json.Number("9007199254740993"), "note": note}
	p = r.answer(runner.ApproveEdited(p.ID, "bob", "half of it", half)).finished(event.FinishPaused).pause("transfer")
	want := `{"cents":9007199254740993,"note":"` + note + `"}`
	if string(p.Arguments) != want || len(ran) != 0 || len(model.Requests()) != 1 {
		t.Errorf("the next gate shows %s; it ran with %q; the model was asked %d times", p.Arguments, ran, len(model.Requests()))
	}
	r.restart()
	r.answer(runner.Approve(p.ID, "bea", "")).finished(event.FinishStop)
	if len(ran) != 1 || ran[0] != want {
		t.Errorf("it ran with %q", ran)
	}
	if got := string(r.result(p.Call).Output); got != "9007199254740993" {
		t.Errorf("the result is %s", got)
	}
	if got := string(r.transcript().History[1].ToolCalls()[0].Arguments); got != `{"cents":1000}` {
		t.Errorf("the transcript has the arguments %s", got)
	}
	c, err := r.Call(t.Context(), chat, p.Call, user)
	must(t, err)
	if len(c.Decisions) != 2 || string(c.Decisions[0].Arguments) != want || c.Decisions[1].Arguments != nil {
		t.Errorf("the decisions are %+v", c.Decisions)
	}
	r.acceptable()
}

// TestChangedBetweenPauseAndAnswer: a deploy gave the tool a field that the
// arguments don't have, after the work had begun. The model isn't told both to
// call it again and that it may have had effects.
func TestChangedBetweenPauseAndAnswer(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent, tool.ReadOnly} {
		book := tool.Must(tool.Resumable(tool.Spec{Name: "book", Effect: effect},
			func(_ context.Context, in textIn, ask tool.Ask[string, string]) (tool.Result[string], error) {
				return ask("Which seat?", in.Text), nil
			},
			func(_ context.Context, _ textIn, r tool.Reply[string, string, string]) (tool.Result[string], error) {
				return tool.Done(r.Answer), nil
			}))
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
				Tools: []tool.Tool{book}, Model: fakellm.New(fakellm.Calls("book", `{"text":"AF1"}`), fakellm.Says("I see.")),
			}, nil)
			p := r.say("Book it.").finished(event.FinishPaused).pause("book")
			r.config.Tools = []tool.Tool{changed}
			r.restart()
			r.answer(runner.Complete(p.ID, "ada", []byte(`"12A"`))).finished(event.FinishStop)
			text := string(r.result(p.Call).Output)
			const want = "do not fit book any more, which was changed since: /class: is required"
			if !strings.Contains(text, want) || !strings.Contains(text, "Its work had begun before") {
				t.Errorf("the model reads %s", text)
			}
			for _, contradiction := range []string{"call it again", "was not run", "nothing was run"} {
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
