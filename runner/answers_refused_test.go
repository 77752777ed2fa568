package runner_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// jobs is an agent whose model starts some jobs at once, and then is done.
func jobs(n *counter, some int) agent.Config {
	var asked []string
	for i := range some {
		asked = append(asked, "job", fmt.Sprintf(`{"text":"j%d"}`, i))
	}
	return agent.Config{Tools: []tool.Tool{waiting("job", tool.Idempotent, n)}, Model: messages(calls(asked...), says("Done."))}
}

func TestBatchIsJudgedItemByItem(t *testing.T) {
	var n counter
	r := newRig(t, jobs(&n, 4), nil)
	p := r.say("Go.").finished(event.FinishPaused).end.Pending
	r.answer(runner.Complete(p[0].ID, "ci", text("a")))
	res, err := r.Resume(t.Context(), chat,
		runner.Complete(p[0].ID, "ci", text("a")),
		runner.Complete(p[0].ID, "ci", text("other")),
		runner.Complete(p[1].ID, "ci", text("b")),
		runner.Complete(p[1].ID, "ci", text("b")),
		runner.Complete(p[1].ID, "ci", text("c")),
		runner.Complete(p[2].ID, "ci", []byte(`{"text":1}`)),
		runner.Complete("call_nosuch.1", "ci", text("x")),
		runner.Approve(p[2].ID, "ada", "yes"),                            // no decision is asked for
		runner.ApproveEdited(p[2].ID, "ada", "yes", make(chan struct{})), // does not encode
		runner.Fail(p[3].ID, "ci", "no disk", false))                     // accepted
	must(t, err)
	want := []error{nil, session.ErrResumeConflict, nil, nil, session.ErrResumeConflict, session.ErrInvalidResumePayload,
		session.ErrUnknownCall, session.ErrInvalidResumePayload, session.ErrInvalidResumePayload, nil}
	for i, receipt := range res.Receipts {
		if !errors.Is(receipt.Err, want[i]) || receipt.Duplicate != (i == 0 || i == 3) {
			t.Errorf("item %d: %+v, not %v", i, receipt, want[i])
		}
	}
	if got := r.transcript().Pending; len(got) != 1 || got[0].ID != p[2].ID {
		t.Errorf("what waits is %v", got)
	}
	if _, err := r.Resume(t.Context(), chat, runner.Complete(p[2].ID, "ci", []byte(`1`)), runner.Complete("call_nosuch", "ci", text("x"))); !errors.Is(err, session.ErrUnknownCall) || !errors.Is(err, session.ErrInvalidResumePayload) {
		t.Errorf("a batch of which nothing is accepted: %v", err)
	}
	for _, some := range []int{0, 17} {
		if _, err := r.Resume(t.Context(), chat, make([]runner.Resumption, some)...); err == nil {
			t.Errorf("%d resumptions are taken", some)
		}
	}
}

// As many answers as one Resume takes fit one commit, also where each settles its call, with much to say, and as many other calls
// expire in it.
func TestLargestBatch(t *testing.T) {
	for name, answer := range map[string]func(pause string) runner.Resumption{
		"failures": func(pause string) runner.Resumption {
			return runner.Fail(pause, "ci", strings.Repeat("long ", 1000), true)
		},
		"outputs": func(pause string) runner.Resumption {
			return runner.Complete(pause, "ci", text(strings.Repeat("x", 55_000)))
		},
		"huge": func(pause string) runner.Resumption {
			return runner.Complete(pause, "ci", text(strings.Repeat("x", 300_000)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			r := newRig(t, jobs(&n, 64), &rigOptions{session: &session.Options{Now: func() time.Time { return now }}})
			p := r.say("Go.").finished(event.FinishPaused).end.Pending
			for _, p := range p[:48] {
				must(t, r.Extend(t.Context(), chat, p.ID, user, now.Add(24*time.Hour)))
			}
			now = now.Add(2 * time.Hour) // the last 16 are overdue
			for first := 0; first < 48; first += 16 {
				var all []runner.Resumption
				for _, p := range p[first : first+16] {
					all = append(all, answer(p.ID))
				}
				_, err := r.Resume(t.Context(), chat, all...)
				must(t, err)
			}
			r.restart()
			r.carryOn().finished(event.FinishStop) // 48 answers are taken up by one drive
			r.acceptable()
		})
	}
}

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
		if !errors.As(err, &misfit) || !errors.Is(err, session.ErrInvalidResumePayload) || !strings.Contains(err.Error(), words) || len(err.Error()) > 1000 {
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
	r := newRig(t, jobs(&n, 4), &rigOptions{session: &session.Options{Now: func() time.Time { return now }}})
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
	check("no such pause", complete(chat, tool.PauseID(p[3].Call, 7)), session.ErrUnknownPause)
	check("the next pause", complete(chat, tool.PauseID(p[3].Call, 2)), session.ErrNotPaused)
	check("cancelled", complete(chat, p[0].ID), session.ErrCancelled, session.ErrSettled)
	check("settled", complete(chat, p[1].ID), session.ErrResumeConflict)
	check("expired", complete(chat, p[2].ID), session.ErrExpired, session.ErrSettled)
	check("another user", watch(t, r.Run(t.Context(), "eve", chat, llm.UserText("Hi."), nil)).err, session.ErrWrongUser)
	check("progress of a settled call", r.Progress(t.Context(), chat, p[0].Call, user, tool.Progress{}), session.ErrSettled)
	check("progress of no call", r.Progress(t.Context(), chat, "call_nosuch", user, tool.Progress{}), session.ErrUnknownCall)
	_, err = r.Cancel(t.Context(), chat, p[1].Call, user, "")
	check("cancel what is settled", err, session.ErrSettled)
	_, err = r.Find(t.Context(), runner.Ref{Pause: "call_nosuch.1"}, user)
	check("find no pause", err, session.ErrUnknownPause)
	for what, m := range map[string]llm.Message{
		"an empty message": {Role: llm.RoleUser}, "a model's": llm.AssistantText("x"), "white space": llm.UserText(" \n"),
		"a tool call": {Role: llm.RoleUser, Parts: []llm.Part{llm.ToolCall{}}},
	} {
		check(what, watch(t, r.Run(t.Context(), user, "chat-2", m, nil)).err, session.ErrInvalidMessage)
	}
	if _, err := r.Show(t.Context(), "chat-2", user); !errors.Is(err, session.ErrUnknownSession) {
		t.Errorf("a refused message began a session: %v", err)
	}
	must(t, r.Delete(t.Context(), chat, user))
	check("deleted", complete(chat, p[3].ID), session.ErrDeleted)
	check("run when deleted", watch(t, r.Run(t.Context(), user, chat, llm.UserText("Hi."), nil)).err, session.ErrDeleted)
	check("progress when deleted", r.Progress(t.Context(), chat, p[3].Call, user, tool.Progress{}), session.ErrDeleted)
}

func TestAuthorizerSeesEveryOperation(t *testing.T) {
	var n counter
	denied := errors.New("not allowed")
	asked := map[runner.OperationKind]int{}
	allow := true
	config := agent.Config{
		Tools: []tool.Tool{messageTool(&n)},
		Model: messages(calls("ask", `{"text":"q"}`), says("Done.")),
	}
	r := newRig(t, config, &rigOptions{runner: &runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
		asked[op.Kind]++
		if !allow {
			return denied
		}
		return nil
	}}})
	p := r.say("Go.").finished(event.FinishPaused).pause("ask")
	before := printed(r.transcript())
	allow = false
	ctx := t.Context()
	_, resume := r.Resume(ctx, chat, runner.Complete(p.ID, user, text("x")))
	_, cancel := r.Cancel(ctx, chat, p.Call, user, "")
	_, find := r.Find(ctx, runner.Ref{Pause: p.ID}, user)
	_, findNone := r.Find(ctx, runner.Ref{Pause: "call_nosuch.1"}, user)
	_, show := r.Show(ctx, chat, user)
	_, call := r.Call(ctx, chat, p.Call, user)
	var pending, list error
	for _, err := range r.Pending(ctx, session.PauseFilter{}, user) {
		pending = err
	}
	for _, err := range r.Sessions(ctx, session.Filter{}, user) {
		list = err
	}
	for what, err := range map[string]error{
		"run": r.say("Hi.").err, "continue": r.carryOn().err, "resume": resume, "cancel": cancel, "find": find, "find nothing": findNone, "rotate": r.RotateTokenKeys(ctx, user, nil), "show": show, "call": call,
		"pending": pending, "list": list, "follow": watch(t, r.Follow(ctx, chat, user, nil)).err,
		"progress": r.Progress(ctx, chat, p.Call, user, tool.Progress{}), "extend": r.Extend(ctx, chat, p.ID, user, time.Time{}),
		"cancel session": r.CancelSession(ctx, chat, user, ""), "delete": r.Delete(ctx, chat, user),
	} {
		if !errors.Is(err, denied) {
			t.Errorf("%s: %v", what, err)
		}
	}
	allow = true
	if after := printed(r.transcript()); after != before {
		t.Errorf("what was not allowed left a trace: %s", after)
	}
	// A message that would answer is asked for as an answer, too.
	clear(asked)
	r.say("Blue.").finished(event.FinishStop)
	if asked[runner.OpRun] != 1 || asked[runner.OpResume] != 1 {
		t.Errorf("asked for %v", slices.Collect(maps.Keys(asked)))
	}
}

// messageTool takes the user's next message for its output.
func messageTool(n *counter) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "ask", Description: "Asks.", MayPause: true},
		func(_ context.Context, in textIn) (tool.Result[string], error) {
			n.add("ask")
			return tool.Pending[string](tool.Await{Reason: tool.ReasonInput, Mode: tool.ModeMessage, Prompt: in.Text}), nil
		}))
}

func TestMessageAnswers(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{messageTool(&n), waiting("job", tool.Idempotent, &n)},
		Model: messages(calls("ask", `{"text":"Which?"}`, "job", `{"text":"j"}`), says("Done."), says("Hm.")),
	}, nil)
	run := r.say("Go.").finished(event.FinishPaused)
	if err := r.say("The blue one.").err; !errors.Is(err, session.ErrPending) {
		t.Errorf("with another call waiting: %v", err)
	}
	r.answer(runner.Complete(run.pause("job").ID, "ci", text("v"))).finished(event.FinishPaused)
	said := func() *seen {
		return watch(t, r.Run(t.Context(), user, chat, llm.UserText(`The "blue" <one>.`), &runner.RunOptions{MessageID: "m-2"}))
	}
	said().finished(event.FinishStop)
	r.restart()
	said().finished(event.FinishStop) // delivered again
	if got := string(r.result(run.pause("ask").Call).Output); got != `"The \"blue\" <one>."` {
		t.Errorf("the answer arrives as %s", got)
	}
	if got := len(r.transcript().History); got != 4 {
		t.Errorf("%d messages are stored: the answer is none", got)
	}
	status, err := r.Call(t.Context(), chat, run.pause("ask").Call, user)
	must(t, err)
	if len(status.Receipts) != 1 || status.Receipts[0].Kind != session.KindMessage || status.Receipts[0].By != user {
		t.Errorf("its receipts are %v", status.Receipts)
	}
	// The same answer by Resume is the same answer.
	res, err := r.Resume(t.Context(), chat, runner.Complete(run.pause("ask").ID, user, status.Output))
	must(t, err)
	if !res.Receipts[0].Duplicate {
		t.Errorf("the receipt is %+v", res.Receipts[0])
	}
	r.acceptable()
}

func TestPartialAnswers(t *testing.T) {
	var n counter
	asked := 0
	config := jobs(&n, 6)
	model := config.Model.(modelFunc)
	config.Model = modelFunc(func(r llm.Request) []llm.Event { asked++; return model(r) })
	config.Concurrency = 8
	r := newRig(t, config, nil)
	p := r.say("Go.").finished(event.FinishPaused).end.Pending
	for i, at := range []int{3, 0, 5, 1, 4, 2} {
		res, err := r.Resume(t.Context(), chat, runner.Complete(p[at].ID, "ci", text(fmt.Sprint(at))))
		must(t, err)
		r.restart()
		if got := len(r.transcript().Pending); got != 5-i {
			t.Errorf("after %d answers %d calls wait", i+1, got)
		}
		if asked != 1 {
			t.Fatalf("the model was called with %d calls open", 6-i)
		}
		if i%2 == 0 {
			r.carryOn()
		}
		_ = res
	}
	r.carryOn().finished(event.FinishStop)
	if asked != 2 || n.get("job") != 6 {
		t.Errorf("the model was called %d times, bodies were entered %d times", asked, n.get("job"))
	}
	for i := range p {
		if got := string(r.result(p[i].Call).Output); got != string(text(fmt.Sprint(i))) {
			t.Errorf("call %d has the result %s", i, got)
		}
	}
	r.acceptable()
}

func TestMessageIDs(t *testing.T) {
	var n counter
	r := newRig(t, jobs(&n, 1), nil)
	say := func(text, id string) *seen {
		return watch(t, r.Run(t.Context(), user, chat, llm.UserText(text), &runner.RunOptions{MessageID: id}))
	}
	p := say("Go.", "m-1").finished(event.FinishPaused).pause("job")
	say("Go.", "m-1").finished(event.FinishPaused) // not refused: it is not a new message
	if s := say("Stop.", "m-1"); !errors.Is(s.err, session.ErrMessageConflict) || s.end.Finish != event.FinishPaused {
		t.Errorf("another content: it ends as %q, %v", s.end.Finish, s.err)
	}
	r.answer(runner.Complete(p.ID, "ci", text("v"))).finished(event.FinishStop)
	r.restart()
	say("Go.", "m-1").finished(event.FinishStop)
	if got := len(r.transcript().History); got != 4 {
		t.Errorf("%d messages are stored", got)
	}
}

func TestSessionsBelongToTheirUser(t *testing.T) {
	r := newRig(t, agent.Config{Model: messages(says("a"), says("b"))}, nil)
	r.say("Hi.").finished(event.FinishStop)
	for _, who := range []string{"eve", "ADA", " ada"} {
		if err := watch(t, r.Run(t.Context(), who, chat, llm.UserText("Hi."), nil)).err; !errors.Is(err, session.ErrWrongUser) {
			t.Errorf("%q: %v", who, err)
		}
	}
	for _, bad := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 129), "a\nb"} {
		if err := watch(t, r.Run(t.Context(), user, bad, llm.UserText("Hi."), nil)).err; err == nil {
			t.Errorf("the session id %.20q is taken", bad)
		}
		if err := watch(t, r.Run(t.Context(), bad, chat+"x", llm.UserText("Hi."), nil)).err; err == nil {
			t.Errorf("the user %.20q is taken", bad)
		}
	}
	// An id that begins like another one is another session.
	watch(t, r.Run(t.Context(), "eve", chat+"0", llm.UserText("Hi."), nil)).finished(event.FinishStop)
	if got := len(r.transcript().History); got != 2 {
		t.Errorf("%d messages are stored in the first", got)
	}
}

// No user code runs inside a storage transaction, nor under a lock: a layer, a body, a policy, the consumer of the events and the
// authorizer each call back into the runner.
func TestNoUserCodeInTransactions(t *testing.T) {
	var n counter
	var r *rig
	reenter := func() {
		ctx := context.Background()
		for range r.Sessions(ctx, session.Filter{}, user) {
			for range r.Pending(ctx, session.PauseFilter{}, user) {
			}
		}
		if got, err := r.Show(ctx, chat, user); err == nil && len(got.Pending) > 0 {
			must(t, r.Progress(ctx, chat, got.Pending[0].Call, user, tool.Progress{Message: "x"}))
		}
	}
	act := tool.Must(tool.Func(tool.Spec{Name: "act", Description: "a"}, func(context.Context, textIn) (tool.Result[textOut], error) {
		reenter()
		return tool.Done(textOut{strings.Repeat("x", 100_000)}), nil // the file grows, and is mapped anew
	}))
	script := messages(calls("job", `{"text":"j"}`, "act", `{"text":"a"}`, "act", `{"text":"b"}`), says("Done."))
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{act, waiting("job", tool.Idempotent, &n)},
		Model: modelFunc(func(req llm.Request) []llm.Event { reenter(); return script(req) }),
		Interceptors: interceptor.Chain{
			{Name: "layer", Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
				return func(ctx context.Context, c tool.Call) (tool.Execution, error) { reenter(); return next(ctx, c) }
			}},
			interceptor.Approval(&interceptor.ApprovalOptions{Policy: func(context.Context, tool.Call) (interceptor.Verdict, error) {
				reenter()
				return interceptor.Verdict{Ruling: interceptor.Allow}, nil
			}}),
		},
	}, &rigOptions{runner: &runner.Options{Authorizer: func(ctx context.Context, op runner.Operation) error {
		if op.Kind == runner.OpResume {
			_, err := r.store.Load(ctx, op.Session)
			return err
		}
		return nil
	}}})
	var p tool.Pause
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		must(t, err)
		reenter()
		if e, ok := ev.(event.Pause); ok {
			p = e.Pause
		}
	}
	r.answer(runner.Complete(p.ID, "ci", text("v"))).finished(event.FinishStop)
	r.acceptable()
}
