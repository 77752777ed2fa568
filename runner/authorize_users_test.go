package runner_test

import (
	"context"
	"errors"
	"log/slog"
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

// TestOwnSessionsBeginWithTheirUser: a rule that lets users act on their own
// sessions lets them begin one, and none takes another's.
func TestOwnSessionsBeginWithTheirUser(t *testing.T) {
	var asked []runner.Operation
	r := newRig(t, agent.Config{Model: messages(says("Hi."), says("Again."))},
		&rigOptions{memory: true, runner: &runner.Options{
			Authorizer: func(_ context.Context, op runner.Operation) error {
				asked = append(asked, op)
				if op.Own() {
					return nil
				}
				return errors.New("it is not yours")
			}}})
	run := func(who string) error {
		return watch(t, r.Run(t.Context(), who, chat, llm.UserText("Hello"), nil)).err
	}
	must(t, run("ada"))
	must(t, run("ada"))
	if err := run("eve"); !errors.Is(err, runner.ErrNotAllowed) {
		t.Errorf("eve is told %v", err)
	}
	if len(asked) != 3 || !asked[0].New || asked[1].New || asked[2].New || asked[2].User != "ada" {
		t.Errorf("it was asked about %+v", asked)
	}
}

func TestSessionsBelongToTheirUser(t *testing.T) {
	r := newRig(t, agent.Config{Model: messages(says("a"), says("b"))}, nil)
	r.say("Hi.").finished(event.FinishStop)
	for _, who := range []string{"eve", "ADA", " ada"} {
		if err := watch(t, r.Run(t.Context(), who, chat,
			llm.UserText("Hi."), nil)).err; !errors.Is(err, session.ErrWrongUser) {
			t.Errorf("%q: %v", who, err)
		}
	}
	for _, bad := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 129), "a\nb"} {
		if err := watch(t,
			r.Run(t.Context(), user, bad, llm.UserText("Hi."), nil)).err; err == nil {
			t.Errorf("the session id %.20q is taken", bad)
		}
		if err := watch(t, r.Run(t.Context(), bad, chat+"x",
			llm.UserText("Hi."), nil)).err; err == nil {
			t.Errorf("the user %.20q is taken", bad)
		}
	}
	// An id that begins like another one is another session.
	watch(t, r.Run(t.Context(), "eve", chat+"0",
		llm.UserText("Hi."), nil)).finished(event.FinishStop)
	if got := len(r.transcript().History); got != 2 {
		t.Errorf("%d messages are stored in the first", got)
	}
}

// What waits in a session, and what it has used, is not told to other users.
func TestOtherUsersAreToldNothing(t *testing.T) {
	r, _ := questioned(t, tool.Await{Prompt: "secret"}, nil)
	eve := func() *seen {
		return watch(t, r.Run(t.Context(), "eve", chat, llm.UserText("blue"), nil))
	}
	if s := eve(); !errors.Is(s.err, session.ErrWrongUser) || len(s.end.Pending) != 0 ||
		strings.Contains(printed(s.events), "secret") {
		t.Errorf("she is told %v, %v", s.err, s.events)
	}
	for range r.Run(t.Context(), user, chat, llm.UserText("blue"), nil) {
		if s := eve(); !errors.Is(s.err, session.ErrWrongUser) ||
			errors.Is(s.err, session.ErrBusy) {
			t.Errorf("while it is driven, she is told %v", s.err)
		}
	}
}

// A message that supersedes is a denial of each pause, and is authorized as
// one, before anything is denied.
func TestSupersedingAsksForEachDenial(t *testing.T) {
	var asked []runner.Operation
	forbidden := "pay"
	var n counter
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{instant("refund", tool.Once, &n), instant("pay", tool.Once, &n)},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		Model: fakellm.New(fakellm.Calls("refund", `{"text":"10"}`).And("pay",
			`{"text":"9"}`), fakellm.Says("I see.")),
	}, &rigOptions{runner: &runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
		if op.Kind != runner.OpResume {
			return nil
		}
		asked = append(asked, op)
		if op.Tool == forbidden {
			return errors.New("only a manager denies a payment")
		}
		return nil
	}}})
	waiting := r.say("Go.").finished(event.FinishPaused).end.Pending
	before := printed(r.transcript())
	supersede := &runner.RunOptions{Supersede: true}
	s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Forget it."), supersede))
	if !errors.Is(s.err, runner.ErrNotAllowed) || s.end.Finish != event.FinishPaused {
		t.Errorf("the message ended the run as %q, with %v", s.end.Finish, s.err)
	}
	if after := printed(r.transcript()); after != before {
		t.Errorf("what was not allowed left a trace: %s", after)
	}
	asked, forbidden = nil, ""
	watch(t, r.Run(t.Context(), user, chat, llm.UserText("Forget it."), supersede)).finished(event.FinishStop)
	if len(asked) != 2 {
		t.Fatalf("two denials were asked for as %+v", asked)
	}
	for i, op := range asked {
		want := runner.Operation{Kind: runner.OpResume, Actor: user, Session: chat, User: user, Root: chat,
			Call: waiting[i].Call, Tool: waiting[i].Tool,
			Pause: waiting[i].ID, Answer: runner.AnswerDeny}
		if printed(op) != printed(want) {
			t.Errorf("a denial is asked for as %+v, not %+v", op, want)
		}
	}
}

// So is one of a call that waits for its tool, and not for a person: it has no
// pause.
func TestSupersedingAParkedCallIsADenial(t *testing.T) {
	var n counter
	var denials []runner.Operation
	r, p, _, _ := parkedRig(t, &n, &rigOptions{memory: true, runner: &runner.Options{
		Logger: slog.New(slog.DiscardHandler),
		Authorizer: func(_ context.Context, op runner.Operation) error {
			if op.Answer != runner.AnswerDeny {
				return nil
			}
			denials = append(denials, op)
			return errors.New("only a manager denies a refund")
		},
	}})
	r.answer(runner.Approve(p.ID, "bob", "")).finished(event.FinishPaused)
	s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Forget it."),
		&runner.RunOptions{Supersede: true}))
	if !errors.Is(s.err, runner.ErrNotAllowed) || s.end.Finish != event.FinishPaused ||
		len(r.transcript().Parked) != 1 {
		t.Errorf("the message ended the run as %q, with %v", s.end.Finish, s.err)
	}
	if len(denials) != 1 || denials[0].Call != p.Call || denials[0].Tool != "refund" ||
		denials[0].Pause != "" || denials[0].Actor != user {
		t.Errorf("it is asked for as %+v", denials)
	}
}
