package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/scribble"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// policy is an approval whose policy rules so, and notes what it is asked
// about.
func policy(asked *[]string, ruling interceptor.Ruling) interceptor.Layer {
	return interceptor.Approval(&interceptor.ApprovalOptions{Policy: func(_ context.Context, c tool.Call) (interceptor.Verdict, error) {
		*asked = append(*asked, string(c.Arguments))
		scribble.Over(c)
		return interceptor.Verdict{Ruling: ruling}, nil
	}})
}

// TestPolicysArgumentsRun: what a policy allowed runs, and nothing else, in the
// words that are said for a person's approval. The body isn't entered, nor
// claimed.
func TestPolicysArgumentsRun(t *testing.T) {
	for name, test := range map[string]struct {
		behind []interceptor.Layer
		runs   []string
	}{
		"unchanged": {nil, []string{`{"cents":10}`}},
		"changed":   {[]interceptor.Layer{rewrite("more", func(string) string { return `{"cents":1000}` })}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var ran, asked []string
			r := newRig(t, agent.Config{
				Model: fakellm.New(fakellm.Calls("transfer", `{"cents":10}`), fakellm.Says("I see.")), Tools: []tool.Tool{transfer(&ran)},
				Interceptors: append(interceptor.Chain{policy(&asked, interceptor.Allow)}, test.behind...),
			}, nil)
			res := of[event.Result](r.say("Send money.").finished(event.FinishStop))[0]
			if diff := cmp.Diff(test.runs, ran); diff != "" {
				t.Errorf("it ran with (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{`{"cents":10}`}, asked); diff != "" {
				t.Errorf("the policy was asked (-want +got):\n%s", diff)
			}
			if failed := strings.Contains(string(res.Result.Output), "changed after they were approved, and were not run"); failed != (test.runs == nil) {
				t.Errorf("the model reads %s", res.Result.Output)
			}
			if st, err := r.Call(t.Context(), chat, res.Result.Call, user); err != nil || st.Attempt != len(test.runs) {
				t.Errorf("it was claimed %d times, %v", st.Attempt, err)
			}
			r.acceptable()
		})
	}
}

// TestPolicyRulesAgainAfterACrash: what it ruled is bound to the call without a
// commit, and so is ruled anew.
func TestPolicyRulesAgainAfterACrash(t *testing.T) {
	var ran, asked []string
	crash := make(chan struct{})
	reached := make(chan struct{}, 1)
	stuck := true
	behind := toolLayer("behind", func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
		if stuck {
			reached <- struct{}{}
			<-crash
			return tool.Execution{}, context.Canceled
		}
		return next(ctx, c)
	})
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("transfer", `{"cents":10}`), fakellm.Says("Sent.")), Tools: []tool.Tool{transfer(&ran)},
		Interceptors: interceptor.Chain{policy(&asked, interceptor.Allow), behind},
	}, nil)
	ended := r.begin("Send money.")
	<-reached
	r.restart()
	close(crash)
	ended()
	stuck = false
	r.carryOn().finished(event.FinishStop)
	if diff := cmp.Diff([]string{`{"cents":10}`}, ran); diff != "" {
		t.Errorf("it ran with (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`{"cents":10}`, `{"cents":10}`}, asked); diff != "" {
		t.Errorf("the policy was asked (-want +got):\n%s", diff)
	}
}

// TestAnswersSayOneThing: what a caller says that isn't his to say, or says
// twice, is refused with why, and not left aside.
func TestAnswersSayOneThing(t *testing.T) {
	approve := func(d tool.Decision) runner.Resumption {
		d.Approved = true
		return runner.Resumption{Actor: "bob", Decision: &d}
	}
	for want, answer := range map[string]runner.Resumption{
		"leave Decision.Gate empty":    approve(tool.Decision{Gate: "approval"}),
		"leave Decision.Shown empty":   approve(tool.Decision{Shown: tool.HashArguments(json.RawMessage(`{"text":"a"}`))}),
		"leave Decision.By empty":      approve(tool.Decision{By: "bob"}),
		"leave Decision.At zero":       approve(tool.Decision{At: time.Now()}),
		"a decision and a failure":     {Decision: &tool.Decision{Approved: true}, Failure: "no"},
		"a decision and a payload":     {Decision: &tool.Decision{Approved: true}, Payload: text("b")},
		"a failure and a payload":      {Failure: "no", Payload: text("b")},
		"Retryable goes with Failure":  {Decision: &tool.Decision{Approved: true}, Retryable: true},
		"and that nothing has failed;": {Payload: text("b"), Retryable: true},
	} {
		var n counter
		r := newRig(t, gated(&n, fakellm.New(fakellm.Calls("refund", `{"text":"a"}`), fakellm.Says("Done."))), &rigOptions{memory: true})
		p := r.say("Go.").finished(event.FinishPaused).pause("refund")
		answer.Pause = p.ID
		res, err := r.Resume(t.Context(), chat, answer)
		if !errors.Is(err, session.ErrInvalidResumePayload) || !strings.Contains(err.Error(), want) {
			t.Errorf("it is refused with %v, and not with %q", err, want)
		}
		if res != nil && res.Receipts[0].Err == nil || len(r.transcript().Pending) != 1 {
			t.Errorf("%q: it was accepted", want)
		}
		// In a batch it is refused alone.
		res, err = r.Resume(t.Context(), chat, answer, runner.Approve(p.ID, "bob", ""))
		must(t, err)
		if res.Receipts[0].Err == nil || res.Receipts[1].Err != nil {
			t.Errorf("%q: with another they are judged %v, %v", want, res.Receipts[0].Err, res.Receipts[1].Err)
		}
	}
}

// TestWhatWasGivenIsKept: what an agent, a runner and a run were made of may be
// changed, and appended to, afterwards.
func TestWhatWasGivenIsKept(t *testing.T) {
	var n counter
	names := append(make([]string, 0, 4), "audit")
	gate := interceptor.Approval(&interceptor.ApprovalOptions{Tools: append(names, "refund")})
	_ = append(names, "other")
	layers := append(make(interceptor.Chain, 0, 4), gate)
	raw := &tool.Spec{Name: "raw", Effect: tool.ReadOnly, Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)}
	tools := append(make([]tool.Tool, 0, 4), instant("refund", tool.Once, &n), instant("audit", tool.Once, &n),
		rawTool{*raw, func(context.Context, tool.Call) (tool.Execution, error) { return tool.Execution{}, nil }})
	model := fakellm.New(fakellm.Calls("refund", `{"text":"a"}`).And("audit", `{"text":"b"}`), fakellm.Says("Done."))
	format := llm.ResponseFormat{Name: "answer", Schema: json.RawMessage(`{"type":"object"}`)}
	c := agent.Config{Model: model, Tools: tools, Interceptors: layers, ResponseFormat: format}
	r := newRig(t, c, &rigOptions{memory: true})
	scribble.Over(raw)
	scribble.Over(format)
	layers[0] = interceptor.Layer{}
	clear(tools)
	_ = append(layers, interceptor.Layer{})
	_ = append(tools, nil)
	m := llm.Message{Role: llm.RoleUser, Parts: append(make([]llm.Part, 0, 2), llm.Text{Text: "Go."})}
	o := &runner.RunOptions{MessageID: "m1"}
	events := r.Run(t.Context(), user, chat, m, o)
	m.Parts[0], o.MessageID, o.Agent = llm.Text{Text: "Stop."}, "m2", "nobody"
	run := watch(t, events).finished(event.FinishPaused)
	if len(run.end.Pending) != 2 || n.get("refund")+n.get("audit") != 0 {
		t.Errorf("%d calls wait, and the bodies ran %v", len(run.end.Pending), n.n)
	}
	req := model.Requests()[0]
	if said := fakellm.LastUserText(req); said != "Go." || string(req.ResponseFormat.Schema) != `{"type":"object"}` ||
		string(req.Tools[2].Input) != `{"type":"object","properties":{"text":{"type":"string"}}}` {
		t.Errorf("the model is sent %+v", req)
	}
	again := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Go."), &runner.RunOptions{MessageID: "m1"}))
	if again.err != nil || len(r.transcript().History) != 2 {
		t.Errorf("the message isn't known by its id: %v", again.err)
	}
}
