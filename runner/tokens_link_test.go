package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// A link's token is for what its pause shows, and permits nothing beside what a
// page offers; its maker decides, as far as the Authorizer is asked.
func TestTokensOfLinks(t *testing.T) {
	var n counter
	var asked []runner.Operation
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("refund", tool.Once, &n), asking("ask", &n)},
		Interceptors: interceptor.Chain{
			interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}})},
		Model: messages(append(calls("refund", `{"text":"10"}`), calls("ask", `{"text":"Sure?"}`)...)),
	}, &rigOptions{runner: &runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
		asked = append(asked, op)
		return nil
	}}})
	s := r.say("Go.").finished(event.FinishPaused)
	gate, question := s.pause("refund"), s.pause("ask")
	yes, answer := tool.PermitLinkApprove, tool.PermitLinkAnswer
	for name, g := range map[string]runner.Grant{
		"without what is shown":    {Pause: gate.ID, Permits: []tool.Permit{yes}},
		"with another content":     {Pause: gate.ID, Permits: []tool.Permit{yes}, Shown: "x"},
		"of another pause":         {Pause: gate.ID, Permits: []tool.Permit{yes}, Shown: runner.Shown(question)},
		"for a webhook, too":       {Pause: gate.ID, Permits: []tool.Permit{yes, tool.PermitApprove}, Shown: runner.Shown(gate)},
		"for a webhook":            {Pause: gate.ID, Permits: []tool.Permit{tool.PermitApprove}, Shown: runner.Shown(gate)},
		"an answer at a gate":      {Pause: gate.ID, Permits: []tool.Permit{answer}, Shown: runner.Shown(gate)},
		"a decision at a question": {Pause: question.ID, Permits: []tool.Permit{yes}, Shown: runner.Shown(question)},
	} {
		g.Session = chat
		if _, err := r.MintToken(t.Context(), g, user); !errors.Is(err, runner.ErrInvalidGrant) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		pause   tool.Pause
		permit  tool.Permit
		decides bool
	}{{gate, yes, true}, {gate, tool.PermitLinkDeny, true}, {question, answer, false}} {
		asked = nil
		token := r.mint(runner.Grant{Session: chat, Pause: c.pause.ID,
			Permits: []tool.Permit{c.permit}, Shown: runner.Shown(c.pause)})
		if len(asked) != 1 || asked[0].Decides() != c.decides {
			t.Errorf("%s asks for %+v", c.permit, asked)
		}
		tok, err := r.ReadToken(t.Context(), token)
		must(t, err)
		if tok.Shown != runner.Shown(c.pause) || !tok.Allows(c.permit) ||
			tok.Allows(tool.PermitApprove) || tok.Allows(tool.PermitDeny) ||
			tok.Allows(tool.PermitComplete) || tok.PauseID() != c.pause.ID {
			t.Errorf("the token is %+v", tok)
		}
	}
}

// What a pause shows has one name, in whichever way it is read; each part of it
// counts, and nothing that may change while the pause is open.
func TestWhatIsShownHasOneName(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("refund", tool.Once, &n)},
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
			Diff: func(tool.Call) string { return "-1\n+<2>" }})},
		Model: messages(calls("refund", `{"text" : "\u003c1e0>"}`)),
	}, nil)
	s := r.say("Go.").finished(event.FinishPaused)
	want := runner.Shown(s.pause("refund"))
	p := r.transcript().Pending[0]
	if string(p.Await.Data) != `{"diff":"-1\n+\u003c2\u003e"}` {
		t.Errorf("the pause has the data %s", p.Await.Data)
	}
	must(t, r.Extend(t.Context(), chat, p.ID, user, time.Now().Add(time.Hour)))
	r.restart()
	found, err := r.Find(t.Context(), runner.Ref{Pause: p.ID}, user)
	must(t, err)
	again := found
	again.Arguments = json.RawMessage(` { "text":"<1e0>" }`)
	for name, p := range map[string]tool.Pause{"shown": p, "found": found, "written otherwise": again} {
		if got := runner.Shown(p); got != want || got == "" {
			t.Errorf("%s: its name is %q, not %q", name, got, want)
		}
	}
	for name, change := range map[string]func(*tool.Pause){
		"ID":        func(p *tool.Pause) { p.ID += "1" },
		"Session":   func(p *tool.Pause) { p.Session += "1" },
		"User":      func(p *tool.Pause) { p.User += "1" },
		"Agent":     func(p *tool.Pause) { p.Agent += "1" },
		"Tool":      func(p *tool.Pause) { p.Tool += "1" },
		"Arguments": func(p *tool.Pause) { p.Arguments = json.RawMessage(`{"text":"<1>"}`) },
		"no JSON":   func(p *tool.Pause) { p.Arguments = json.RawMessage(`{`) },
		"Reason":    func(p *tool.Pause) { p.Await.Reason = tool.ReasonInput },
		"Mode":      func(p *tool.Pause) { p.Await.Mode = tool.ModeOutput },
		"Approvers": func(p *tool.Pause) { p.Await.Approvers = []string{"grace"} },
		"Gate":      func(p *tool.Pause) { p.Await.Gate += "1" },
		"Prompt":    func(p *tool.Pause) { p.Await.Prompt += "1" },
		"Schema":    func(p *tool.Pause) { p.Await.Schema = json.RawMessage(`{"type":"string"}`) },
		"Question":  func(p *tool.Pause) { p.Await.Question += "1" },
		"Data":      func(p *tool.Pause) { p.Await.Data = json.RawMessage(`{"diff":""}`) },
	} {
		other := found
		change(&other)
		if runner.Shown(other) == want {
			t.Errorf("%s doesn't count", name)
		}
	}
	// A field of a pause that is new has to be thought of here.
	if n, m := reflect.TypeFor[tool.Pause]().NumField(), reflect.TypeFor[tool.Await]().NumField(); n != 14 || m != 18 {
		t.Errorf("a pause has %d fields and its Await %d: does Shown name what is new?", n, m)
	}
}

// How a pause ended is told by who brought that about, in each of the ways.
func TestHowAPauseEnded(t *testing.T) {
	type scene struct {
		r  *rig
		cl *clock
		p  tool.Pause
	}
	resume := func(in func(tool.Pause) runner.Resumption) func(*testing.T, scene) {
		return func(t *testing.T, s scene) {
			_, err := s.r.Resume(t.Context(), chat, in(s.p))
			must(t, err)
		}
	}
	for name, c := range map[string]struct {
		tool  string
		await tool.Await
		ends  func(*testing.T, scene)
		want  runner.PauseEnd
	}{
		"open": {ends: func(*testing.T, scene) {}},
		"answered": {ends: resume(func(p tool.Pause) runner.Resumption {
			return runner.Complete(p.ID, "ci", text("x"))
		}), want: runner.PauseEnd{How: runner.EndedAnswered, Actor: "ci"}},
		"failed": {ends: resume(func(p tool.Pause) runner.Resumption {
			return runner.Fail(p.ID, "ci", "", false)
		}), want: runner.PauseEnd{How: runner.EndedFailed, Actor: "ci"}},
		"approved": {tool: "refund", ends: resume(func(p tool.Pause) runner.Resumption {
			return runner.Approve(p.ID, "grace", "")
		}), want: runner.PauseEnd{How: runner.EndedApproved, Actor: "grace"}},
		"denied": {tool: "refund", ends: resume(func(p tool.Pause) runner.Resumption {
			return runner.Deny(p.ID, "grace", "")
		}), want: runner.PauseEnd{How: runner.EndedDenied, Actor: "grace"}},
		"expired": {await: tool.Await{Timeout: time.Minute}, ends: func(_ *testing.T, s scene) {
			s.cl.pass(time.Minute)
		}, want: runner.PauseEnd{How: runner.EndedExpired}},
		"not heard of": {await: tool.Await{Heartbeat: time.Minute}, ends: func(_ *testing.T, s scene) {
			s.cl.pass(time.Minute)
		}, want: runner.PauseEnd{How: runner.EndedFailed}},
		"gone on without": {await: tool.Await{Timeout: time.Minute, OnTimeout: tool.ReenterOnTimeout},
			ends: func(t *testing.T, s scene) {
				s.cl.pass(time.Minute)
			}, want: runner.PauseEnd{How: runner.EndedExpired}},
		"cancelled": {ends: func(t *testing.T, s scene) {
			_, err := s.r.Cancel(t.Context(), chat, s.p.Call, "mallory", "")
			must(t, err)
		}, want: runner.PauseEnd{How: runner.EndedCancelled, Actor: "mallory"}},
		"answered, and cancelled": {ends: func(t *testing.T, s scene) {
			resume(func(p tool.Pause) runner.Resumption {
				return runner.Complete(p.ID, "ci", text("x"))
			})(t, s)
			_, err := s.r.Cancel(t.Context(), chat, s.p.Call, "mallory", "")
			must(t, err)
		}, want: runner.PauseEnd{How: runner.EndedCancelled, Actor: "mallory"}},
		"superseded": {tool: "refund", ends: func(t *testing.T, s scene) {
			watch(t, s.r.Run(t.Context(), user, chat, llm.UserText("No."),
				&runner.RunOptions{Supersede: true}))
		}, want: runner.PauseEnd{How: runner.EndedSuperseded, Actor: user}},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			if c.tool == "" {
				c.tool = "deploy"
			}
			cl := newClock()
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{instant("refund", tool.Once, &n), starting(tool.Once, &n,
					func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
						if call.Answer != nil {
							return tool.Done(textOut{"late"}), nil
						}
						return tool.Pending[textOut](c.await), nil
					})},
				Interceptors: interceptor.Chain{
					interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}})},
				Model: messages(calls(c.tool, `{"text":"10"}`), says("I see."), says("Well.")),
			}, at(cl))
			s := scene{r, cl, r.say("Go.").finished(event.FinishPaused).pause(c.tool)}
			c.ends(t, s)
			ended := func() runner.PauseEnd {
				t.Helper()
				end, err := r.Ended(t.Context(), runner.Ref{Pause: s.p.ID}, "grace")
				must(t, err)
				end.At = time.Time{}
				return end
			}
			if got := ended(); got != c.want {
				t.Errorf("it ended as %+v, not %+v", got, c.want)
			}
			r.carryOn()
			r.restart()
			got := ended()
			if c.await.OnTimeout != "" { // of which no receipt is kept
				c.want.How = runner.EndedOtherwise
			}
			if got.How != c.want.How || c.want.Actor != "" && got.Actor != c.want.Actor {
				t.Errorf("settled, it ended as %+v, not %+v", got, c.want)
			}
		})
	}
	var n counter
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
		Model: messages(calls("deploy", `{"text":"10"}`))}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
	if _, err := r.Ended(t.Context(), runner.Ref{Pause: p.Call + ".7"}, user); !errors.Is(err,
		session.ErrUnknownPause) {
		t.Errorf("a pause that nobody has: %v", err)
	}
}
