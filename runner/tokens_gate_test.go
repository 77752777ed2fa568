package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// dies runs until code of the agent's has made a token, and ends the process
// before anything else is stored. The next one finds the session as it was.
func (r *rig) dies(token *string) {
	r.t.Helper()
	r.faults.Before(func(faultkv.Call) {
		if *token != "" {
			r.faults.Kill()
		}
	})
	for range r.Run(r.t.Context(), user, chat, llm.UserText("Go."), nil) {
	}
	if *token == "" {
		r.t.Fatal("no token was made")
	}
	r.restart()
}

// redeem decides by a token, as a webhook does.
func (r *rig) redeem(token string,
	decide func(pause string, actor runner.Actor, why string) runner.Resumption) error {
	r.t.Helper()
	tok, err := r.ReadToken(r.t.Context(), token)
	must(r.t, err)
	in := decide(tok.PauseID(), "ada", "")
	in.Gate = tok.Gate
	_, err = r.Resume(r.t.Context(), tok.Session, in)
	return err
}

// A layer's token is for its own pause. Where another layer's gets the number,
// since the process died before the first was stored and the policy has
// changed, the token decides nothing: not while that pause is open, nor as a
// duplicate of what the other layer was told.
func TestTokenOfOneLayerAtAnothersPause(t *testing.T) {
	var n counter
	var token string
	ruling := interceptor.Ask
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("refund", tool.Once, &n)},
		Interceptors: interceptor.Chain{
			interceptor.Approval(&interceptor.ApprovalOptions{
				Name: "clerk",
				Policy: func(context.Context, tool.Call) (interceptor.Verdict, error) {
					return interceptor.Verdict{Ruling: ruling}, nil
				},
				Prompt: func(c tool.Call) string {
					token = c.Token(tool.PermitApprove, tool.PermitDeny)
					return "Refund it?"
				},
			}),
			interceptor.Approval(&interceptor.ApprovalOptions{
				Name: "finance", Prompt: func(c tool.Call) string {
					return c.Token(tool.PermitApprove)
				},
			}),
		},
		Model: messages(calls("refund", `{"text":"10"}`), says("Done.")),
	}, nil)
	r.dies(&token)
	ruling = interceptor.Allow
	p := r.carryOn().finished(event.FinishPaused).pause("refund")
	tok, err := r.ReadToken(t.Context(), token)
	must(t, err)
	if p.Await.Gate != "finance" || tok.PauseID() != p.ID || tok.Gate != "clerk" {
		t.Fatalf("pause %s is of %q, the token of %s and %q", p.ID, p.Await.Gate,
			tok.PauseID(), tok.Gate)
	}

	refused := func(when string) {
		t.Helper()
		for _, decide := range []func(string, runner.Actor, string) runner.Resumption{runner.Approve, runner.Deny} {
			err := r.redeem(token, decide)
			var other *session.GateError
			if !errors.As(err, &other) || !errors.Is(err, session.ErrOtherGate) ||
				*other != (session.GateError{Pause: p.ID, Gate: "finance", For: "clerk"}) {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	refused("while the other's pause is open")
	if _, err := r.Find(t.Context(),
		runner.Ref{Token: token}, user); !errors.Is(err, session.ErrOtherGate) {
		t.Errorf("by the token is found, with %v, what it isn't for", err)
	}
	must(t, r.redeem(p.Await.Prompt, runner.Approve)) // finance's own, of the prompt
	refused("after the other was told")
	r.carryOn().finished(event.FinishStop)
	refused("when the call is over")
	if n.get("refund") != 1 {
		t.Errorf("the body ran %d times", n.get("refund"))
	}
}

// A layer may send its token before its pause is stored, and its holder may be
// faster. The decision isn't kept, and isn't refused for good either: it counts
// when it is sent again.
func TestDecisionBeforeItsPause(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(fmt.Sprint(effect), func(t *testing.T) {
			var n counter
			var r *rig
			var token string
			r = newRig(t, agent.Config{
				Tools: []tool.Tool{instant("refund", effect, &n)},
				Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
					Prompt: func(c tool.Call) string {
						token = c.Token(tool.PermitApprove, tool.PermitDeny)
						for _, decide := range []func(string, runner.Actor, string) runner.Resumption{
							runner.Approve, runner.Deny} {
							if err := r.redeem(token, decide); !errors.Is(err, session.ErrNotYetKnown) {
								t.Errorf("before its pause it is refused with %v", err)
							}
						}
						return "Refund it?"
					},
				})},
				Model: messages(calls("refund", `{"text":"10"}`), says("Done.")),
			}, nil)
			r.say("Go.").finished(event.FinishPaused)
			must(t, r.redeem(token, runner.Approve))
			r.carryOn().finished(event.FinishStop)
			if n.get("refund") != 1 {
				t.Errorf("the body ran %d times", n.get("refund"))
			}
			if err := r.redeem(token, runner.Deny); !errors.Is(err, session.ErrResumeConflict) {
				t.Errorf("another decision afterwards is refused with %v", err)
			}
		})
	}
}

// The token that a tool's body made for its own next pause answers no layer's
// that gets the number, and nothing afterwards.
func TestTokenOfABodyAtALayersPause(t *testing.T) {
	var token string
	ruling := interceptor.Allow
	job := tool.Must(tool.Func(tool.Spec{Name: "job", Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
			token = tool.CallFrom(ctx).Token()
			return tool.Pending[textOut](tool.Await{}), nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{job},
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
			Policy: func(context.Context, tool.Call) (interceptor.Verdict, error) {
				return interceptor.Verdict{Ruling: ruling}, nil
			},
		})},
		Model: messages(calls("job", `{"text":"j"}`), says("Done.")),
	}, nil)
	r.dies(&token)
	first := token
	ruling = interceptor.Ask
	gate := r.carryOn().finished(event.FinishPaused).pause("job")
	tok, err := r.ReadToken(t.Context(), first)
	must(t, err)
	if gate.Await.Gate == "" || tok.PauseID() != gate.ID {
		t.Fatalf("the token is for %s, and open is %+v", tok.PauseID(), gate)
	}
	answers := func(want error) {
		t.Helper()
		for _, in := range []runner.Resumption{
			runner.Complete(tok.PauseID(), "ci", text("v")),
			runner.Fail(tok.PauseID(), "ci", "no", false),
		} {
			in.Gate = tok.Gate
			if _, err := r.Resume(t.Context(), chat, in); !errors.Is(err, want) {
				t.Errorf("it is answered with %v", err)
			}
		}
	}
	answers(session.ErrInvalidResumePayload)
	p := r.answer(runner.Approve(gate.ID, "grace", "")).finished(event.FinishPaused).pause("job")
	answers(session.ErrResumeConflict)
	if tok, err = r.ReadToken(t.Context(), token); err != nil || tok.PauseID() != p.ID {
		t.Errorf("the token of the next entry is %+v, with %v", tok, err)
	}
	r.answer(runner.Complete(p.ID, "ci", text("v"))).finished(event.FinishStop)
}

// A token that could do nothing is not made: the call ends with an error that
// the model reads, and the log has, rather than wait for it.
func TestTokenThatCouldDoNothing(t *testing.T) {
	act := func(permits ...tool.Permit) tool.Tool {
		return tool.Must(tool.Func(tool.Spec{Name: "act", MayPause: true},
			func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
				tool.CallFrom(ctx).Token(permits...)
				return tool.Pending[textOut](tool.Await{}), nil
			}))
	}
	asking := func(permits ...tool.Permit) interceptor.Chain {
		return interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
			Prompt: func(c tool.Call) string { return c.Token(permits...) },
		})}
	}
	for name, test := range map[string]struct {
		tool   tool.Tool
		layers interceptor.Chain
		result string
		log    string
	}{
		"a misspelt permit": {act("compleet"), nil, `"compleet" is no permit`,
			`"compleet" is no permit`},
		"a misspelt permit beside a good one": {act(tool.PermitFail, "compleet"), nil,
			`"compleet" is no permit`, `"compleet" is no permit`},
		"a decision on a pause that takes none": {act(tool.PermitApprove), nil,
			"only a layer may permit a decision", "only a layer may permit a decision"},
		"in a layer": {
			act(), asking("aprove"), "a layer around the tool panicked", `"aprove" is no permit`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log journal
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{test.tool}, Interceptors: test.layers,
				Model: messages(calls("act", `{"text":"a"}`), says("Done.")),
			}, &rigOptions{
				runner: &runner.Options{
					Logger: log.logger(),
				},
			})
			r.say("Go.").finished(event.FinishStop)
			if res := r.result(r.onlyCall()); !res.Error ||
				!strings.Contains(strings.ReplaceAll(string(res.Output), `\`, ""), test.result) {
				t.Errorf("the model reads %s", res.Output)
			}
			if logged := strings.ReplaceAll(log.String(),
				`\`, ""); !strings.Contains(logged, test.log) {
				t.Errorf("the log has %s", logged)
			}
		})
	}
}
