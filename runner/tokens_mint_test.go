package runner_test

import (
	"context"
	"errors"
	"strings"
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

// A token is made for what its pause takes, and for no longer than tokens live.
func TestMintToken(t *testing.T) {
	var n counter
	cl := newClock()
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &n), instant("refund", tool.Once, &n)},
		Interceptors: interceptor.Chain{
			interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}}),
		},
		Model: fakellm.New(fakellm.Calls("refund", `{"text":"10"}`).And("job", `{"text":"j"}`),
			fakellm.Says("I see.")),
	}, at(cl))
	s := r.say("Go.").finished(event.FinishPaused)
	gate, job := s.pause("refund").ID, s.pause("job").ID
	for name, g := range map[string]runner.Grant{
		"nothing permitted": {Session: chat, Pause: gate},
		"completing a gate": {Session: chat, Pause: gate,
			Permits: []tool.Permit{tool.PermitApprove, tool.PermitComplete}},
		"failing a gate":    {Session: chat, Pause: gate, Permits: []tool.Permit{tool.PermitFail}},
		"approving a job":   {Session: chat, Pause: job, Permits: []tool.Permit{tool.PermitApprove}},
		"denying a job":     {Session: chat, Pause: job, Permits: []tool.Permit{tool.PermitDeny}},
		"what is no permit": {Session: chat, Pause: job, Permits: []tool.Permit{"resume"}},
		"a pause that nobody has": {Session: chat, Pause: session.PauseID(session.CallID(job), 2),
			Permits: []tool.Permit{tool.PermitFail}},
		"a session that nobody has": {Session: "chat-2", Pause: job,
			Permits: []tool.Permit{tool.PermitFail}},
		"a life that is over": {Session: chat, Pause: job,
			Permits: []tool.Permit{tool.PermitFail}, Lifetime: -time.Second},
		"a holder with too long name": {Session: chat, Pause: job,
			Permits: []tool.Permit{tool.PermitFail},
			Holder:  runner.Actor(strings.Repeat("x", 300))},
	} {
		if token, err := r.MintToken(t.Context(), g, user); err == nil {
			t.Errorf("%s: %s", name, token)
		}
	}
	for lifetime, want := range map[time.Duration]time.Duration{0: 365 * 24 * time.Hour,
		time.Hour: time.Hour, 1e6 * time.Hour: 365 * 24 * time.Hour} {
		tok, err := r.ReadToken(t.Context(), r.mint(runner.Grant{
			Session: chat, Pause: gate, Permits: []tool.Permit{tool.PermitApprove},
			Holder: "grace", Lifetime: lifetime}))
		must(t, err)
		if tok.PauseID() != gate || tok.Holder != "grace" || !tok.Allows(tool.PermitApprove) ||
			tok.Allows(tool.PermitDeny) {
			t.Errorf("the token is %+v", tok)
		}
		if got := time.Unix(tok.Expires, 0).Sub(cl.now()); got != want {
			t.Errorf("a lifetime of %v gives %v", lifetime, got)
		}
	}
	r.answer(runner.Approve(gate, "grace", "")).finished(event.FinishPaused)
	_, err := r.MintToken(t.Context(), runner.Grant{Session: chat, Pause: gate,
		Permits: []tool.Permit{tool.PermitDeny}}, user)
	if !errors.Is(err, session.ErrNotPaused) {
		t.Errorf("for a pause that is over: %v", err)
	}
}

// However short its life, a token lives that long: the end is rounded up.
func TestTokenOfAShortLife(t *testing.T) {
	var n counter
	cl := newClock()
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"j"}`), says("I see.")),
	}, at(cl))
	job := r.say("Go.").finished(event.FinishPaused).pause("job").ID
	cl.pass(300 * time.Millisecond)
	for _, lifetime := range []time.Duration{
		1, time.Millisecond, 900 * time.Millisecond, 1500 * time.Millisecond,
	} {
		tok, err := r.ReadToken(t.Context(), r.mint(runner.Grant{
			Session: chat, Pause: job,
			Permits: []tool.Permit{tool.PermitFail}, Lifetime: lifetime}))
		must(t, err)
		if got := time.Unix(tok.Expires, 0).Sub(cl.now()); got < lifetime ||
			got >= lifetime+time.Second {
			t.Errorf("a lifetime of %v gives %v", lifetime, got)
		}
	}
}

// The Authorizer is asked about what the token will be for, and whom: also
// where the pause is given by its call, and the holder in bytes that no receipt
// keeps.
func TestTokenIsAskedForAsItIsMade(t *testing.T) {
	var n counter
	var asked []runner.Operation
	no := errors.New("no")
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"j"}`), says("I see.")),
	}, &rigOptions{runner: &runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
		if op.Kind != runner.OpMint {
			return nil
		}
		if asked = append(asked, op); op.Holder == "eve" {
			return no
		}
		return nil
	}}})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	grant := runner.Grant{Session: chat, Pause: p.Call,
		Permits: []tool.Permit{tool.PermitComplete}, Holder: "gr\xffce"}
	tok, err := r.ReadToken(t.Context(), r.mint(grant))
	must(t, err)
	op := asked[0]
	if len(asked) != 1 || tok.PauseID() != p.ID || op.Pause != p.ID || op.Call != p.Call ||
		op.User != user || op.Tool != "job" {
		t.Errorf("for a token of %s it is asked: %+v", tok.PauseID(), asked)
	}
	if tok.Holder != op.Holder || tok.Holder != "gr\uFFFDce" {
		t.Errorf("a token of %q is asked for as one of %q", tok.Holder, op.Holder)
	}

	// Why a token is refused is not told to callers that may not have one.
	for _, pause := range []string{p.ID, "nothing", session.PauseID(p.Call, 7)} {
		for _, session := range []string{chat, "chat-2"} {
			grant := runner.Grant{Session: session, Pause: pause,
				Permits: []tool.Permit{"none"}, Holder: "eve"}
			if _, err := r.MintToken(t.Context(), grant, user); !errors.Is(err, no) ||
				!errors.Is(err, runner.ErrNotAllowed) {
				t.Errorf("pause %q of %q: %v", pause, session, err)
			}
		}
	}

	// A holder has room for as many bytes as receipts keep of it, and no more.
	grant.Holder = runner.Actor(strings.Repeat("\xff", 86)) // each of which becomes three
	if _, err := r.MintToken(t.Context(), grant, user); !errors.Is(err, runner.ErrInvalidGrant) {
		t.Errorf("a holder that no receipt can name: %v", err)
	}
	grant.Holder = grant.Holder[1:]
	tok, err = r.ReadToken(t.Context(), r.mint(grant))
	must(t, err)
	_, err = r.Resume(t.Context(), chat, runner.Complete(tok.PauseID(), tok.Holder, text("v")))
	must(t, err)
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
	if err != nil || tok.PauseID() != p.ID || !tok.Allows(tool.PermitApprove) ||
		tok.Allows(tool.PermitComplete) {
		t.Errorf("the token is %+v, with %v", tok, err)
	}
}
