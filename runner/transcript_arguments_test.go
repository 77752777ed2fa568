package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm/wire"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// lister notes what it is run with.
func lister(ran *[]string) tool.Tool {
	type in struct {
		IDs []int `json:"ids"`
	}
	return tool.Must(tool.Func(tool.Spec{Name: "list"}, func(ctx context.Context, v in) (tool.Result[int], error) {
		*ran = append(*ran, string(tool.CallFrom(ctx).Arguments))
		return tool.Done(len(v.IDs)), nil
	}))
}

// Arguments that a model encoded twice: who approves sees the form that runs,
// before a restart and after it, and the transcript keeps what the model wrote.
func TestArgumentsThatWereEncodedTwice(t *testing.T) {
	for _, asked := range []string{`{"ids":"[1,2]"}`, `"{\"ids\":[1,2]}"`} {
		t.Run(asked, func(t *testing.T) {
			var ran []string
			gates := interceptor.Chain{
				interceptor.Approval(&interceptor.ApprovalOptions{Name: "first"}), interceptor.Approval(&interceptor.ApprovalOptions{Name: "second"}),
			}
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{lister(&ran)}, Interceptors: gates, Model: fakellm.New(fakellm.Calls("list", asked), fakellm.Says("Done.")),
			}, nil)
			run := r.say("Go.")
			for range gates {
				p := run.finished(event.FinishPaused).pause("list")
				if string(p.Arguments) != `{"ids":[1,2]}` {
					t.Errorf("%s is shown %s", p.Await.Gate, p.Arguments)
				}
				r.restart()
				run = r.answer(runner.Approve(p.ID, "bob", ""))
			}
			run.finished(event.FinishStop)
			if len(ran) != 1 || ran[0] != `{"ids":[1,2]}` {
				t.Errorf("it ran with %q", ran)
			}
			if got := string(r.transcript().History[1].ToolCalls()[0].Arguments); got != asked {
				t.Errorf("the transcript has %s", got)
			}
			r.acceptable()
		})
	}
}

// Edited arguments may come encoded twice as well, with null for a list: the
// next approver sees, and the tool gets, the form that fits.
func TestEditedArgumentsThatWereEncodedTwice(t *testing.T) {
	for edited, want := range map[string]string{`{"ids":"[3]"}`: `{"ids":[3]}`, `"{\"ids\":null}"`: `{"ids":null}`, `{"ids":null}`: `{"ids":null}`} {
		t.Run(edited, func(t *testing.T) {
			var ran []string
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{lister(&ran)}, Model: fakellm.New(fakellm.Calls("list", `{"ids":[1]}`), fakellm.Says("Done.")),
				Interceptors: interceptor.Chain{
					interceptor.Approval(&interceptor.ApprovalOptions{Name: "first"}), interceptor.Approval(&interceptor.ApprovalOptions{Name: "second"}),
				},
			}, nil)
			p := r.say("Go.").finished(event.FinishPaused).pause("list")
			if _, err := r.Resume(t.Context(), chat, runner.ApproveEdited(p.ID, "bob", "", json.RawMessage(`{"ids":"[3"}`))); !errors.Is(err, session.ErrInvalidResumePayload) {
				t.Errorf("half a list is told %v", err)
			}
			r.restart()
			p = r.answer(runner.ApproveEdited(p.ID, "bob", "", json.RawMessage(edited))).finished(event.FinishPaused).pause("list")
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

// What is not written as fermata writes it names no pause: call.01 is not
// call.1.
func TestIDsOfPausesHaveOneForm(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	for _, id := range []string{p.Call + ".01", p.Call + ".+1", p.Call + ".1 ", p.Call + ".0", p.Call + ".-1"} {
		_, err := r.Resume(t.Context(), chat, runner.Complete(id, "ci", text("v2")))
		if !errors.Is(err, session.ErrUnknownCall) {
			t.Errorf("%q is told %v", id, err)
		}
		if _, err := r.Find(t.Context(), runner.Ref{Pause: id}, user); err == nil {
			t.Errorf("%q is found", id)
		}
	}
	r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
}

// A model reads a result as text: what json.Marshal escapes reaches it as
// itself, and is stored as it came.
func TestResultsReachTheModelUnescaped(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	const answer = `{"text":"\u003cb\u003e \u0026 \\u003c"}`
	r.answer(runner.Complete(p.ID, "ci", json.RawMessage(answer))).finished(event.FinishStop)
	res := r.result(p.Call)
	if string(res.Output) != answer {
		t.Errorf("%s is stored", res.Output)
	}
	if got := wire.ResultText(res, false); got != `{"text":"<b> & \\u003c"}` {
		t.Errorf("the model reads %s", got)
	}
}

// However large an answer that doesn't fit, its refusal stays small.
func TestRefusalOfALargeAnswerIsSmall(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	large := json.RawMessage(`[1` + strings.Repeat(",1", 500_000) + `]`)
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", large))
	if !errors.Is(err, session.ErrInvalidResumePayload) || len(err.Error()) > 1000 {
		t.Errorf("it is told %v", err)
	}
	r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
}
