package runner_test

import (
	"encoding/json"
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

func TestMisfittingAnswers(t *testing.T) {
	var n counter
	r := newRig(t, jobs(&n, 1), nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	before := printed(r.transcript())
	for payload, words := range map[string]string{
		``:                                     "empty",
		`{"text":1}`:                           "text",
		`{"text":"a","more":1}`:                "more",
		`{}`:                                   "text",
		`null`:                                 "object",
		`[]`:                                   "object",
		`{"text":"a"`:                          "",
		`{"text":"a"} x`:                       "",
		`{"text":"a","text":"b"}`:              "text",
		`"` + strings.Repeat("x", 1<<20) + `"`: "1048576",
	} {
		_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", []byte(payload)))
		var misfit *session.PayloadError
		if !errors.As(err, &misfit) || !errors.Is(err, session.ErrInvalidResumePayload) ||
			!strings.Contains(err.Error(), words) || len(err.Error()) > 1000 {
			t.Errorf("%.40s: %.500v", payload, err)
		}
	}
	if after := printed(r.transcript()); after != before {
		t.Errorf("refused answers left a trace: %s", after)
	}
	if got, err := r.Call(t.Context(), chat, p.Call, user); err != nil || len(got.Receipts) > 0 {
		t.Errorf("refused answers left receipts: %v, %v", got.Receipts, err)
	}
	r.answer(runner.Complete(p.ID, "ci", text("a"))).finished(event.FinishStop)
}

func TestRefusalsAreTyped(t *testing.T) {
	var n counter
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := newRig(t, jobs(&n, 4), &rigOptions{
		session: &session.Options{Now: func() time.Time { return now }},
	})
	p := r.say("Go.").finished(event.FinishPaused).end.Pending
	complete := func(id, pause string) error {
		_, err := r.Resume(t.Context(), id, runner.Complete(pause, "ci", text("x")))
		return err
	}
	_, err := r.Cancel(t.Context(), chat, p[0].Call, user, "no")
	must(t, err)
	_, err = r.Resume(t.Context(), chat, runner.Fail(p[1].ID, "ci", "no", false))
	must(t, err)
	must(t, r.Extend(t.Context(), chat, p[3].ID, user, now.Add(24*time.Hour)))
	now = now.Add(2 * time.Hour)
	r.carryOn().finished(event.FinishPaused) // p[2] has expired
	check := func(what string, err error, want ...error) {
		t.Helper()
		for _, w := range want {
			if !errors.Is(err, w) {
				t.Errorf("%s: %v, not %v", what, err, w)
			}
		}
	}
	check("no such session", complete("nosuch", p[3].ID), session.ErrUnknownSession)
	check("no such call", complete(chat, "call_nosuch.1"), session.ErrUnknownCall)
	check("no such pause", complete(chat, session.PauseID(p[3].Call, 7)), session.ErrUnknownPause)
	check("the next pause", complete(chat, session.PauseID(p[3].Call, 2)), session.ErrNotPaused)
	check("cancelled", complete(chat, p[0].ID), session.ErrCancelled, session.ErrSettled)
	check("settled", complete(chat, p[1].ID), session.ErrResumeConflict)
	check("expired", complete(chat, p[2].ID), session.ErrExpired, session.ErrSettled)
	check("another user", watch(t, r.Run(t.Context(), "eve", chat, llm.UserText("Hi."), nil)).err,
		session.ErrWrongUser)
	check("progress of a settled call", r.Progress(t.Context(), chat, p[0].Call,
		user, tool.Progress{}), session.ErrSettled)
	check("progress of no call", r.Progress(t.Context(), chat, "call_nosuch",
		user, tool.Progress{}), session.ErrUnknownCall)
	_, err = r.Cancel(t.Context(), chat, p[1].Call, user, "")
	check("cancel what is settled", err, session.ErrSettled)
	_, err = r.Find(t.Context(), runner.Ref{Pause: "call_nosuch.1"}, user)
	check("find no pause", err, session.ErrUnknownPause)
	for what, m := range map[string]llm.Message{
		"an empty message": {Role: llm.RoleUser}, "a model's": llm.AssistantText("x"),
		"white space": llm.UserText(" \n"),
		"a tool call": {Role: llm.RoleUser, Parts: []llm.Part{llm.ToolCall{}}},
	} {
		check(what, watch(t, r.Run(t.Context(), user, "chat-2", m, nil)).err,
			session.ErrInvalidMessage)
	}
	if _, err := r.Show(t.Context(), "chat-2", user); !errors.Is(err, session.ErrUnknownSession) {
		t.Errorf("a refused message began a session: %v", err)
	}
	must(t, r.Delete(t.Context(), chat, user))
	check("deleted", complete(chat, p[3].ID), session.ErrDeleted)
	check("run when deleted",
		watch(t, r.Run(t.Context(), user, chat, llm.UserText("Hi."), nil)).err, session.ErrDeleted)
	check("progress when deleted", r.Progress(t.Context(), chat, p[3].Call,
		user, tool.Progress{}), session.ErrDeleted)
}

// TestAnswersSayOneThing: what isn't the caller's to say, or is said twice, is
// refused with a reason, and not dropped.
func TestAnswersSayOneThing(t *testing.T) {
	approve := func(d tool.Decision) runner.Resumption {
		d.Approved = true
		return runner.Resumption{Actor: "bob", Decision: &d}
	}
	for want, answer := range map[string]runner.Resumption{
		"leave Decision.Gate empty": approve(tool.Decision{Gate: "approval"}),
		"leave Decision.Shown empty": approve(tool.Decision{
			Shown: tool.HashArguments(json.RawMessage(`{"text":"a"}`)),
		}),
		"leave Decision.Actor empty":   approve(tool.Decision{Actor: "bob"}),
		"a decision of no actor":       {Decision: &tool.Decision{Approved: true}},
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
		if !errors.Is(err, session.ErrInvalidResumePayload) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("it is refused with %v, and not with %q", err, want)
		}
		if res != nil && res.Receipts[0].Err == nil || len(r.transcript().Pending) != 1 {
			t.Errorf("%q: it was accepted", want)
		}
		// In a batch it is refused alone.
		res, err = r.Resume(t.Context(), chat, answer, runner.Approve(p.ID, "bob", ""))
		must(t, err)
		if res.Receipts[0].Err == nil || res.Receipts[1].Err != nil {
			t.Errorf("%q: with another they are judged %v, %v", want,
				res.Receipts[0].Err, res.Receipts[1].Err)
		}
	}
}

// Only a decision answers a layer, and only an output or a failure answers a
// tool. Anything else leaves no trace.
func TestAnswerOfTheWrongKind(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{waiting("deploy", tool.Once, &n)},
		Interceptors: approval(),
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
			fakellm.Says("Deployed.")),
	}, nil)
	refused := func(p tool.Pause, wrong ...runner.Resumption) {
		t.Helper()
		before := r.faults.Commits()
		for _, in := range wrong {
			in.Pause = p.ID
			if _, err := r.Resume(t.Context(), chat, in); !errors.Is(err,
				session.ErrInvalidResumePayload) {
				t.Errorf("%+v is told %v", in, err)
			}
		}
		if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil ||
			st.Status != session.Pending || r.faults.Commits() != before {
			t.Errorf("the call is %s, %v, after %d commits", st.Status, err,
				r.faults.Commits()-before)
		}
	}
	gate := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	refused(gate,
		runner.Complete("", "ci", text("v2")), runner.Complete("", "ci", []byte(`true`)),
		runner.Complete("", "ci", []byte(`{"approved":true}`)),
		runner.Fail("", "ci", "no disk", false), runner.ApproveEdited("", "ada",
			"", textIn2{"job-2"}), runner.ApproveEdited("", "ada", "", 7),
		runner.Resumption{Decision: &tool.Decision{Arguments: []byte(`{"text":"a"}`)}})
	job := r.answer(runner.Approve(gate.ID, "ada", "")).finished(event.FinishPaused).pause("deploy")
	refused(job, runner.Approve("", "ada", ""), runner.Deny("", "ada", ""),
		runner.ApproveEdited("", "ada", "", textIn{"job-2"}))
	r.answer(runner.Complete(job.ID, "ci", text("v2"))).finished(event.FinishStop)
	r.acceptable()
}

// Names are short: an actor's, and a delivery's.
func TestLongNamesAreRefused(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	for _, in := range []runner.Resumption{
		{Pause: p.ID, Payload: text("v2"), Actor: runner.Actor(strings.Repeat("x", 70_000))},
		{Pause: p.ID, Payload: text("v2"), Delivery: strings.Repeat("x", 70_000)},
	} {
		if _, err := r.Resume(t.Context(), chat, in); !errors.Is(err,
			session.ErrInvalidResumePayload) {
			t.Errorf("Resume: %.200v", err)
		}
	}
	for actor, why := range map[string]string{strings.Repeat("x", 70_000): "no",
		"ada": strings.Repeat("x", 70_000)} {
		if _, err := r.Cancel(t.Context(), chat, p.Call,
			runner.Actor(actor), why); !errors.Is(err, runner.ErrLongReason) {
			t.Errorf("Cancel: %.200v", err)
		}
	}
	r.answer(runner.Complete(p.ID,
		runner.Actor(strings.Repeat("x", 256)), text("v2"))).finished(event.FinishStop)
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

// textIn2 doesn't fit the tools' input.
type textIn2 struct {
	Txt string `json:"txt"`
}
