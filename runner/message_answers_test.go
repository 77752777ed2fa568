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
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A message that does not fit what it would answer is refused like any other:
// the session stands as it did.
func TestMessageThatDoesNotFit(t *testing.T) {
	var n counter
	ask := tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true,
		Output: []byte(`{"enum":["yes","no"]}`)},
		func(context.Context, textIn) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{Reason: tool.ReasonInput,
				Mode: tool.ModeMessage, Prompt: "Sure?"}), nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{ask, instant("pay", tool.Once, &n)}, Concurrency: 1,
		Model: messages(calls("ask", `{"text":"x"}`, "pay", `{"text":"5"}`), says("Done.")),
	}, nil)
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		must(t, err)
		if _, ok := ev.(event.Pause); ok {
			break
		}
	}
	for range 2 { // the first settles what was interrupted
		s := r.say("perhaps")
		if !errors.Is(s.err, session.ErrInvalidResumePayload) ||
			s.end.Finish != event.FinishInterrupted || len(s.end.Pending) != 1 {
			t.Errorf("it is told %v, and ended as %q with %d pauses", s.err,
				s.end.Finish, len(s.end.Pending))
		}
	}
	r.carryOn().finished(event.FinishPaused)
	if s := r.say("perhaps"); !errors.Is(s.err, session.ErrInvalidResumePayload) ||
		s.end.Finish != event.FinishPaused {
		t.Errorf("it is told %v, and ended as %q", s.err, s.end.Finish)
	}
	r.say("yes").finished(event.FinishStop)
	if n.get("pay") != 1 {
		t.Errorf("it was paid %d times", n.get("pay"))
	}
	r.acceptable()
}

// Free text in place of a button: it is refused, with what waits, or it
// supersedes. It never approves, and is never lost.
func TestMessageWhileAnApprovalIsOpen(t *testing.T) {
	start := func(t *testing.T) (*rig, *counter, tool.Pause) {
		n := new(counter)
		r := newRig(t, agent.Config{
			Tools:        []tool.Tool{instant("refund", tool.Once, n)},
			Interceptors: approval(),
			Model: fakellm.New(fakellm.Calls("refund", `{"text":"10"}`),
				fakellm.Says("I see."), fakellm.Says("Sure.")),
		}, nil)
		return r, n, r.say("Refund it.").finished(event.FinishPaused).pause("refund")
	}
	t.Run("refused", func(t *testing.T) {
		r, n, p := start(t)
		var pending *session.PendingError
		s := r.say("Yes, do it!")
		if !errors.As(s.err, &pending) || !errors.Is(s.err, session.ErrPending) ||
			pending.Pending[0].ID != p.ID {
			t.Fatalf("the message is told %v", s.err)
		}
		if got := r.transcript(); len(got.History) != 2 || len(got.Pending) != 1 ||
			n.get("refund") != 0 {
			t.Errorf("%d messages, %d pauses, %d refunds", len(got.History),
				len(got.Pending), n.get("refund"))
		}
		r.answer(runner.Approve(p.ID, "eve", "")).finished(event.FinishStop)
		if n.get("refund") != 1 {
			t.Errorf("the body was entered %d times", n.get("refund"))
		}
		r.acceptable()
	})
	t.Run("superseding", func(t *testing.T) {
		r, n, p := start(t)
		watch(t, r.Run(t.Context(), user, chat, llm.UserText("No, wait."),
			&runner.RunOptions{Supersede: true})).finished(event.FinishStop)
		if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil ||
			st.Settled != event.Denied || st.Actor != user {
			t.Errorf("the call ended as %s by %q, %v", st.Settled, st.Actor, err)
		}
		if says := string(r.result(p.Call).Output); !strings.Contains(says, "was not run") {
			t.Errorf("the model reads %s", says)
		}
		r.restart()
		if _, err := r.Resume(t.Context(), chat,
			runner.Approve(p.ID, "eve", "")); !errors.Is(err, session.ErrSettled) {
			t.Errorf("a late approval is told %v", err)
		}
		history := r.transcript().History
		if n.get("refund") != 0 || history[3].Text() != "No, wait." {
			t.Errorf("%d refunds, and the history %v", n.get("refund"), history)
		}
		r.acceptable()
	})
}

// questioned is a rig whose one call takes the user's next message for its
// answer.
func questioned(t *testing.T, await tool.Await, o *session.Options) (*rig, tool.Pause) {
	t.Helper()
	await.Reason, await.Mode = tool.ReasonInput, tool.ModeMessage
	ask := tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true},
		func(context.Context, textIn) (tool.Result[string], error) {
			return tool.Pending[string](await), nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{ask}, Model: fakellm.New(fakellm.Calls("ask", `{"text":"a"}`),
			fakellm.Says("Thanks."), fakellm.Says("Hello.")),
	}, &rigOptions{session: o})
	return r, r.say("Ask me.").finished(event.FinishPaused).pause("ask")
}

func TestMessageThatDoesNotFitTheQuestion(t *testing.T) {
	r, p := questioned(t, tool.Await{
		Schema: []byte(`{"type":"string","enum":["red","blue"]}`),
	}, nil)
	if s := r.say("green"); !errors.Is(s.err, session.ErrInvalidResumePayload) ||
		!strings.Contains(s.err.Error(), "red") {
		t.Errorf("it is told %v", s.err)
	}
	photo := llm.Media{MediaType: "image/png", Data: []byte{1}}
	s := watch(t, r.Run(t.Context(), user, chat, llm.Message{Role: llm.RoleUser,
		Parts: []llm.Part{llm.Text{Text: "red"}, photo}}, nil))
	if !errors.Is(s.err, session.ErrInvalidMessage) { // the picture would be dropped in silence
		t.Errorf("a picture is told %v", s.err)
	}
	if got := r.transcript(); len(got.History) != 2 || len(got.Pending) != 1 {
		t.Errorf("%d messages, %d pauses", len(got.History), len(got.Pending))
	}
	r.say("blue").finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != `"blue"` {
		t.Errorf("the result is %s", got)
	}
	r.acceptable()
}

// Once the question's time is over, the message is a message.
func TestMessageAfterTheQuestionExpired(t *testing.T) {
	at := newClock()
	r, p := questioned(t, tool.Await{Timeout: time.Hour}, &session.Options{Now: at.now})
	at.pass(time.Hour)
	r.say("blue").finished(event.FinishStop)
	history := r.transcript().History
	if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil ||
		st.Settled != event.Expired || len(history) != 5 || history[3].Text() != "blue" {
		t.Errorf("the call ended as %s, %v, and the history is %v", st.Settled, err, history)
	}
	r.acceptable()
}

func TestMessageAnswers(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{messageTool(&n), asking("size", &n), waiting("job", tool.Idempotent, &n)},
		Model: messages(calls("ask", `{"text":"Which?"}`, "size", `{"text":"s"}`,
			"job", `{"text":"j"}`), says("Done."), says("Hm.")),
	}, nil)
	run := r.say("Go.").finished(event.FinishPaused)
	if err := r.say("The blue one.").err; !errors.Is(err, session.ErrPending) {
		t.Errorf("with another question open: %v", err)
	}
	r.answer(runner.Complete(run.pause("size").ID, user, text("v"))).finished(event.FinishPaused)
	said := func() *seen {
		return watch(t, r.Run(t.Context(), user, chat, llm.UserText(`The "blue" <one>.`),
			&runner.RunOptions{MessageID: "m-2"}))
	}
	said().finished(event.FinishPaused) // a wait of a machine doesn't matter
	r.restart()
	said().finished(event.FinishPaused) // delivered again
	r.answer(runner.Complete(run.pause("job").ID, "ci", text("v"))).finished(event.FinishStop)
	if got := string(r.result(run.pause("ask").Call).Output); got != `"The \"blue\" <one>."` {
		t.Errorf("the answer arrives as %s", got)
	}
	if got := len(r.transcript().History); got != 4 {
		t.Errorf("%d messages are stored: the answer is none", got)
	}
	status, err := r.Call(t.Context(), chat, run.pause("ask").Call, user)
	must(t, err)
	if len(status.Receipts) != 1 || status.Receipts[0].Kind != session.KindMessage ||
		status.Receipts[0].Actor != user {
		t.Errorf("its receipts are %v", status.Receipts)
	}
	// The same answer by Resume is the same answer.
	res, err := r.Resume(t.Context(), chat,
		runner.Complete(run.pause("ask").ID, user, status.Output))
	must(t, err)
	if !res.Receipts[0].Duplicate {
		t.Errorf("the receipt is %+v", res.Receipts[0])
	}
	r.acceptable()
}

func TestMessageIDs(t *testing.T) {
	var n counter
	r := newRig(t, jobs(&n, 1), nil)
	say := func(text, id string) *seen {
		return watch(t, r.Run(t.Context(), user, chat, llm.UserText(text),
			&runner.RunOptions{MessageID: id}))
	}
	p := say("Go.", "m-1").finished(event.FinishPaused).pause("job")
	say("Go.", "m-1").finished(event.FinishPaused) // not refused: it is not a new message
	if s := say("Stop.", "m-1"); !errors.Is(s.err, session.ErrMessageConflict) ||
		s.end.Finish != event.FinishPaused {
		t.Errorf("another content: it ends as %q, %v", s.end.Finish, s.err)
	}
	r.answer(runner.Complete(p.ID, "ci", text("v"))).finished(event.FinishStop)
	r.restart()
	say("Go.", "m-1").finished(event.FinishStop)
	if got := len(r.transcript().History); got != 4 {
		t.Errorf("%d messages are stored", got)
	}
}
