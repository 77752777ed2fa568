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

// TestApprovedIsWhatRuns: byte for byte, or nothing does. The model isn't asked
// in between.
func TestApprovedIsWhatRuns(t *testing.T) {
	const asked = `{ "cents" : 9007199254740993, "note":"<é>" }`
	gate, second := interceptor.Approval(nil),
		interceptor.Approval(&interceptor.ApprovalOptions{Name: "second"})
	passes := 0
	for name, test := range map[string]struct {
		layers interceptor.Chain
		shown  string // what each gate shows
		runs   string // empty: nothing
	}{
		"as the model wrote them": {interceptor.Chain{gate}, asked, asked},
		"through two gates":       {interceptor.Chain{gate, second}, asked, asked},
		"changed before they were shown": {interceptor.Chain{rewrite("halve", func(string) string {
			return `{"cents":2}`
		}), gate}, `{"cents":2}`, `{"cents":2}`},
		"changed after they were shown": {interceptor.Chain{gate,
			rewrite("double", func(string) string {
				return `{"cents":4}`
			})}, asked, ""},
		"changed in white space only": {interceptor.Chain{gate,
			rewrite("trim", func(s string) string {
				return strings.ReplaceAll(s, " ", "")
			})}, asked, ""},
		"changed when the call went on": {interceptor.Chain{rewrite("drift", func(string) string {
			passes++
			return `{"cents":` + strings.Repeat("1", passes) + `}`
		}), gate}, `{"cents":1}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []string
			model := fakellm.New(fakellm.Calls("transfer", asked),
				fakellm.From(func(llm.Request) fakellm.Turn {
					return fakellm.Says("Done.")
				}))
			r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{transfer(&ran)},
				Interceptors: test.layers}, nil)
			run := r.say("Send money.")
			call := run.pause("transfer").Call
			for len(run.end.Pending) > 0 {
				p := run.pause("transfer")
				if string(p.Arguments) != test.shown {
					t.Errorf("%s shows %s, not %s", p.Await.Gate, p.Arguments, test.shown)
				}
				if len(model.Requests()) != 1 {
					t.Errorf("the model was asked %d times before the call had settled",
						len(model.Requests()))
				}
				r.restart()
				run = r.answer(runner.Approve(p.ID, "bob", ""))
			}
			run.finished(event.FinishStop)
			if got := strings.Join(ran, "; "); got != test.runs {
				t.Errorf("it ran with %q, not %q", got, test.runs)
			}
			res := r.result(call)
			if res.Error != (test.runs == "") || res.Error && !strings.Contains(string(res.Output),
				"changed after they were approved, and were not run") {
				t.Errorf("the model reads %s", res.Output)
			}
			if got := string(r.transcript().History[1].ToolCalls()[0].Arguments); got != asked {
				t.Errorf("the transcript has the arguments %s", got)
			}
			r.acceptable()
		})
	}
}

// TestALayerCannotOverruleAGate: one that calls next although the call was
// denied comes no further.
func TestALayerCannotOverruleAGate(t *testing.T) {
	var ran []string
	pushy := interceptor.Layer{Name: "pushy",
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
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

// Edited arguments that are larger than the tools take are refused before they
// are accepted, where the agent is at hand.
func TestEditedArgumentsTooLarge(t *testing.T) {
	for name, limit := range map[string]int{"by default": 0, "of one's own": 1000} {
		t.Run(name, func(t *testing.T) {
			var n counter
			c := gated(&n,
				fakellm.New(fakellm.Calls("refund", `{"text":"a"}`), fakellm.Says("Done.")))
			c.ToolLimits.Arguments = limit
			r := newRig(t, c, nil)
			p := r.say("Go.").finished(event.FinishPaused).pause("refund")
			if limit == 0 {
				limit = 256 << 10
			}
			fits := strings.Repeat("x", limit-len(text("")))
			_, err := r.Resume(t.Context(), chat,
				runner.ApproveEdited(p.ID, "bob", "", textIn{fits + "x"}))
			if !errors.Is(err, session.ErrInvalidResumePayload) ||
				!strings.Contains(err.Error(), fmt.Sprint(limit)) {
				t.Errorf("Resume: %v", err)
			}
			r.answer(runner.ApproveEdited(p.ID, "bob", "", textIn{fits})).finished(event.FinishStop)
			if got := r.result(p.Call).Output; n.get("refund") != 1 ||
				string(got) != string(text(fits)) {
				t.Errorf("it ran %d times; the result has %d bytes", n.get("refund"), len(got))
			}
		})
	}
}

// TestEditedArguments: they are checked before they are accepted, kept beside
// the model's, and are what runs.
func TestEditedArguments(t *testing.T) {
	var ran []string
	model := fakellm.New(fakellm.Calls("transfer", `{"cents":1000}`), fakellm.Says("Sent."))
	r := newRig(t, agent.Config{
		Model: model, Tools: []tool.Tool{transfer(&ran)},
		Interceptors: interceptor.Chain{
			interceptor.Approval(nil),
			interceptor.Approval(&interceptor.ApprovalOptions{Name: "boss"}),
		},
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
	if _, err := r.Resume(t.Context(), chat, runner.Resumption{
		Pause: p.ID, Decision: &tool.Decision{Arguments: json.RawMessage(`{"cents":1}`)},
	}); !errors.Is(err, session.ErrInvalidResumePayload) {
		t.Errorf("a denial with arguments: %v", err)
	}
	if _, err := r.Resume(t.Context(), chat,
		runner.Complete(p.ID, "bob", json.RawMessage(`true`))); !errors.Is(err,
		session.ErrInvalidResumePayload) {
		t.Errorf("an output in place of a decision: %v", err)
	}
	note := strings.Repeat("half of it. ", 200) // lies outside of the head
	half := map[string]any{"cents": json.Number("9007199254740993"), "note": note}
	p = r.answer(runner.ApproveEdited(p.ID, "bob",
		"half of it", half)).finished(event.FinishPaused).pause("transfer")
	want := `{"cents":9007199254740993,"note":"` + note + `"}`
	if string(p.Arguments) != want || len(ran) != 0 || len(model.Requests()) != 1 {
		t.Errorf("the next gate shows %s; it ran with %q; the model was asked %d times",
			p.Arguments, ran, len(model.Requests()))
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
	if len(c.Decisions) != 2 || string(c.Decisions[0].Arguments) != want ||
		c.Decisions[1].Arguments != nil {
		t.Errorf("the decisions are %+v", c.Decisions)
	}
	r.acceptable()
}

// Edited arguments may come encoded twice as well, with null for a list: the
// next approver sees, and the tool gets, the form that fits.
func TestEditedArgumentsThatWereEncodedTwice(t *testing.T) {
	for edited, want := range map[string]string{`{"ids":"[3]"}`: `{"ids":[3]}`,
		`"{\"ids\":null}"`: `{"ids":null}`, `{"ids":null}`: `{"ids":null}`} {
		t.Run(edited, func(t *testing.T) {
			var ran []string
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{lister(&ran)},
				Model: fakellm.New(fakellm.Calls("list", `{"ids":[1]}`), fakellm.Says("Done.")),
				Interceptors: interceptor.Chain{
					interceptor.Approval(&interceptor.ApprovalOptions{Name: "first"}),
					interceptor.Approval(&interceptor.ApprovalOptions{Name: "second"}),
				},
			}, nil)
			p := r.say("Go.").finished(event.FinishPaused).pause("list")
			if _, err := r.Resume(t.Context(), chat, runner.ApproveEdited(p.ID, "bob", "",
				json.RawMessage(`{"ids":"[3"}`))); !errors.Is(err,
				session.ErrInvalidResumePayload) {
				t.Errorf("half a list is told %v", err)
			}
			r.restart()
			p = r.answer(runner.ApproveEdited(p.ID, "bob",
				"", json.RawMessage(edited))).finished(event.FinishPaused).pause("list")
			if string(p.Arguments) != want {
				t.Errorf("the second gate is shown %s", p.Arguments)
			}
			r.restart()
			r.answer(runner.Approve(p.ID, "eve", "")).finished(event.FinishStop)
			if len(ran) != 1 || ran[0] != want {
				t.Errorf("it ran with %q", ran)
			}
		})
	}
}
