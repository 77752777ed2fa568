package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/scribble"
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
		"changed": {[]interceptor.Layer{rewrite("more", func(string) string {
			return `{"cents":1000}`
		})}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var ran, asked []string
			r := newRig(t, agent.Config{
				Model: fakellm.New(fakellm.Calls("transfer", `{"cents":10}`),
					fakellm.Says("I see.")), Tools: []tool.Tool{transfer(&ran)},
				Interceptors: append(interceptor.Chain{policy(&asked, interceptor.Allow)},
					test.behind...),
			}, nil)
			res := of[event.Result](r.say("Send money.").finished(event.FinishStop))[0]
			if diff := cmp.Diff(test.runs, ran); diff != "" {
				t.Errorf("it ran with (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{`{"cents":10}`}, asked); diff != "" {
				t.Errorf("the policy was asked (-want +got):\n%s", diff)
			}
			if failed := strings.Contains(string(res.Result.Output),
				"changed after they were approved, and were not run"); failed != (test.runs == nil) {
				t.Errorf("the model reads %s", res.Result.Output)
			}
			if st, err := r.Call(t.Context(), chat, res.Result.Call, user); err != nil ||
				st.Attempt != len(test.runs) {
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
	behind := toolLayer("behind",
		func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
			if stuck {
				reached <- struct{}{}
				<-crash
				return tool.Execution{}, context.Canceled
			}
			return next(ctx, c)
		})
	r := newRig(t, agent.Config{
		Model:        fakellm.New(fakellm.Calls("transfer", `{"cents":10}`), fakellm.Says("Sent.")),
		Tools:        []tool.Tool{transfer(&ran)},
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

// listIn has a list, which a model may encode twice.
type listIn struct {
	IDs []int `json:"ids"`
}

// becomesTheOutput answers a call with its output, and fails the test unless
// that is its result.
func (r *rig) becomesTheOutput(p tool.Pause) {
	r.t.Helper()
	r.answer(runner.Complete(p.ID, "ci", text("built"))).finished(event.FinishStop)
	st, err := r.Call(r.t.Context(), chat, p.Call, user)
	must(r.t, err)
	if st.Settled != event.Done || string(st.Output) != string(text("built")) {
		r.t.Errorf("the accepted answer is lost: %s: %s", st.Settled, st.Output)
	}
}

// TestAcceptedOutputIsNotLostOverArguments: they were run, and aren't run
// again, so that neither their form nor what a deploy has made of the layers
// since costs the answer, nor has a person asked whether the call may run.
func TestAcceptedOutputIsNotLostOverArguments(t *testing.T) {
	job := tool.Must(tool.Func(tool.Spec{Name: "job", MayPause: true},
		func(context.Context, listIn) (tool.Result[textOut], error) {
			return tool.Pending[textOut](tool.Await{Timeout: time.Hour}), nil
		}))
	for _, args := range []string{`{"ids":[1,2]}`, `{"ids":"[1,2]"}`, `"{\"ids\":[1,2]}"`} {
		t.Run("approved "+args, func(t *testing.T) {
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{job}, Interceptors: interceptor.Chain{interceptor.Approval(nil)},
				Model: messages(calls("job", args), says("Done.")),
			}, &rigOptions{memory: true})
			gate := r.say("Go.").finished(event.FinishPaused).pause("job")
			r.becomesTheOutput(r.answer(runner.Approve(gate.ID,
				"grace", "")).finished(event.FinishPaused).pause("job"))
		})
		t.Run("allowed by a policy that reads them "+args, func(t *testing.T) {
			policy := func(_ context.Context, c tool.Call) (v interceptor.Verdict, err error) {
				v.Ruling = interceptor.Allow
				return v, json.Unmarshal(c.Arguments, new(listIn))
			}
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{job}, Model: messages(calls("job", args), says("Done.")),
				Interceptors: interceptor.Chain{
					interceptor.Approval(&interceptor.ApprovalOptions{Policy: policy}),
				},
			}, &rigOptions{memory: true})
			r.becomesTheOutput(r.say("Go.").finished(event.FinishPaused).pause("job"))
		})
	}
	t.Run("a layer was changed meanwhile", func(t *testing.T) {
		var n counter
		suffix := "-v1"
		outer := toolLayer("outer",
			func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
				var in textIn
				must(t, json.Unmarshal(c.Arguments, &in))
				c.Arguments = text(in.Text + suffix)
				return next(ctx, c)
			})
		r := newRig(t, oneCall(waiting("job", tool.Once, &n), outer, interceptor.Approval(nil)),
			&rigOptions{memory: true})
		gate := r.say("Go.").finished(event.FinishPaused).pause("job")
		p := r.answer(runner.Approve(gate.ID,
			"grace", "")).finished(event.FinishPaused).pause("job")
		suffix = "-v2"
		r.becomesTheOutput(p)
	})
}

// TestOperatorsWordIsNotLost: nor is an operator's word about a lost call whose
// arguments were encoded twice.
func TestOperatorsWordIsNotLost(t *testing.T) {
	var r *rig
	job := tool.Must(tool.Func(tool.Spec{Name: "job", AskOperator: true},
		func(context.Context, listIn) (tool.Result[textOut], error) {
			r.faults.Kill()
			return tool.Done(textOut{"x"}), nil
		}))
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{job}, Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		Model: messages(calls("job", `{"ids":"[1,2]"}`), says("Done.")),
	}, nil)
	gate := r.say("Go.").finished(event.FinishPaused).pause("job")
	res, err := r.Resume(t.Context(), chat, runner.Approve(gate.ID, "grace", ""))
	must(t, err)
	watch(t, res.Events(t.Context()))
	r.restart()
	r.becomesTheOutput(r.carryOn().finished(event.FinishPaused).pause("job"))
}

// TestAnswerDoesNotUnbindAPolicy: a layer that gives the call an answer of its
// own making gets no other arguments past what a policy allowed.
func TestAnswerDoesNotUnbindAPolicy(t *testing.T) {
	var n counter
	allow := interceptor.Approval(&interceptor.ApprovalOptions{Policy: func(context.Context, tool.Call) (interceptor.Verdict, error) {
		return interceptor.Verdict{Ruling: interceptor.Allow}, nil
	}})
	behind := toolLayer("behind",
		func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
			c.Arguments, c.Answer = text("1000"), &tool.Answer{Pause: 1,
				Mode: tool.ModeOutput, Payload: text("paid")}
			return next(ctx, c)
		})
	r := newRig(t, oneCall(instant("pay", tool.Once, &n), allow, behind), &rigOptions{memory: true})
	r.say("Pay 10.").finished(event.FinishStop)
	if n.get("pay") != 0 {
		t.Errorf("it was paid: %s", r.outputs()[0])
	}
}
