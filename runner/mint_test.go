package runner_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// A token is made for what its pause takes, and for no longer than tokens live.
func TestMintToken(t *testing.T) {
	var n counter
	cl := newClock()
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{waiting("job", tool.Once, &n), instant("refund", tool.Once, &n)},
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}})},
		Model:        fakellm.New(fakellm.Calls("refund", `{"text":"10"}`).And("job", `{"text":"j"}`), fakellm.Says("I see.")),
	}, at(cl))
	s := r.say("Go.").finished(event.FinishPaused)
	gate, job := s.pause("refund").ID, s.pause("job").ID
	for name, g := range map[string]runner.Grant{
		"nothing permitted":           {Session: chat, Pause: gate},
		"completing a gate":           {Session: chat, Pause: gate, Permits: []tool.Permit{tool.PermitApprove, tool.PermitComplete}},
		"failing a gate":              {Session: chat, Pause: gate, Permits: []tool.Permit{tool.PermitFail}},
		"approving a job":             {Session: chat, Pause: job, Permits: []tool.Permit{tool.PermitApprove}},
		"denying a job":               {Session: chat, Pause: job, Permits: []tool.Permit{tool.PermitDeny}},
		"what is no permit":           {Session: chat, Pause: job, Permits: []tool.Permit{"resume"}},
		"a pause that nobody has":     {Session: chat, Pause: tool.PauseID(session.CallID(job), 2), Permits: []tool.Permit{tool.PermitFail}},
		"a session that nobody has":   {Session: "chat-2", Pause: job, Permits: []tool.Permit{tool.PermitFail}},
		"a life that is over":         {Session: chat, Pause: job, Permits: []tool.Permit{tool.PermitFail}, Lifetime: -time.Second},
		"a holder with too long name": {Session: chat, Pause: job, Permits: []tool.Permit{tool.PermitFail}, Holder: runner.Actor(strings.Repeat("x", 300))},
	} {
		if token, err := r.MintToken(t.Context(), g, user); err == nil {
			t.Errorf("%s: %s", name, token)
		}
	}
	for lifetime, want := range map[time.Duration]time.Duration{0: 365 * 24 * time.Hour, time.Hour: time.Hour, 1e6 * time.Hour: 365 * 24 * time.Hour} {
		tok, err := r.ReadToken(t.Context(), r.mint(runner.Grant{
			Session: chat, Pause: gate, Permits: []tool.Permit{tool.PermitApprove}, Holder: "grace", Lifetime: lifetime}))
		must(t, err)
		if tok.PauseID() != gate || tok.Holder != "grace" || !tok.Allows(tool.PermitApprove) || tok.Allows(tool.PermitDeny) {
			t.Errorf("the token is %+v", tok)
		}
		if got := time.Unix(tok.Expires, 0).Sub(cl.now()); got != want {
			t.Errorf("a lifetime of %v gives %v", lifetime, got)
		}
	}
	r.answer(runner.Approve(gate, "grace", "")).finished(event.FinishPaused)
	_, err := r.MintToken(t.Context(), runner.Grant{Session: chat, Pause: gate, Permits: []tool.Permit{tool.PermitDeny}}, user)
	if !errors.Is(err, session.ErrNotPaused) {
		t.Errorf("for a pause that is over: %v", err)
	}
}

// A layer that asks for a decision gets the token for its own pause.
func TestTokenInThePromptOfAGate(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("refund", tool.Once, &n)},
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Prompt: func(c tool.Call) string {
			return c.Token(tool.PermitApprove, tool.PermitDeny)
		}})},
		Model: messages(calls("refund", `{"text":"10"}`), says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("refund")
	tok, err := r.ReadToken(t.Context(), p.Await.Prompt)
	if err != nil || tok.PauseID() != p.ID || !tok.Allows(tool.PermitApprove) || tok.Allows(tool.PermitComplete) {
		t.Errorf("the token is %+v, with %v", tok, err)
	}
}
