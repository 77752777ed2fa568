package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// lossy is a rig whose tool fax asks an operator what became of it. Its process
// dies in the entries of fax's body that are told.
type lossy struct {
	*rig
	inj     *faultkv.Injector
	entries []string // the body's: attempt, key, arguments, answer
	dies    int      // in so many more entries
}

// newLossy returns such a rig. With answered, the body asks first, and is
// entered again with the reply.
func newLossy(t *testing.T, answered bool, layers ...interceptor.Layer) *lossy {
	l := &lossy{dies: 1}
	fax := fakeTool{tool.Spec{Name: "fax", Description: "Send a fax.", MayPause: true,
		AskOperator: true, Input: json.RawMessage(`{"type":"object",` +
			`"properties":{"text":{"type":"string"}}}`)},
		func(c tool.Call) tool.Execution {
			if answered && c.Answer == nil {
				return tool.Execution{Await: &tool.Await{Mode: tool.ModeReenter, Key: "line-1",
					Data: json.RawMessage(`{"asked":true}`)}}
			}
			reply, data := "none", ""
			if c.Answer != nil {
				reply, data = string(c.Answer.Payload), string(c.Answer.Data)
			}
			l.entries = append(l.entries, fmt.Sprintf("attempt %d, key %s, %s, answer %s %s",
				c.Attempt, strings.TrimPrefix(c.IdempotencyKey(), c.ID), c.Arguments, reply, data))
			if l.dies > 0 {
				l.dies--
				l.inj.Kill()
			}
			return tool.Execution{Output: text("sent")}
		}}
	l.rig = newRig(t, agent.Config{Tools: []tool.Tool{fax}, Interceptors: layers,
		Model: messages(calls("fax", `{"text":"a"}`), says("Done."))},
		&rigOptions{wrap: func(kv kvstore.Store) kvstore.Store {
			l.inj = faultkv.New(kv)
			return l.inj.Store
		}})
	return l
}

// fakeTool is a raw tool of a function.
type fakeTool struct {
	spec tool.Spec
	f    func(tool.Call) tool.Execution
}

func (f fakeTool) Spec() tool.Spec { return f.spec }

func (f fakeTool) Execute(_ context.Context, c tool.Call) (tool.Execution, error) {
	return f.f(c), nil
}

// asks restarts the rig, and returns the pause in which its operator is asked.
func (l *lossy) asks() tool.Pause {
	l.t.Helper()
	l.restart()
	p := l.carryOn().finished(event.FinishPaused).pause("fax")
	if p.Await.Reason != tool.ReasonUnknown || !strings.Contains(p.Await.Prompt, "run again") {
		l.t.Fatalf("it waits for %s: %s", p.Await.Reason, p.Await.Prompt)
	}
	return p
}

func (l *lossy) entered(want ...string) {
	l.t.Helper()
	if !slices.Equal(l.entries, want) {
		l.t.Errorf("the body was entered with\n%s\nand not with\n%s",
			strings.Join(l.entries, "\n"), strings.Join(want, "\n"))
	}
}

// TestLostCallThatDidNotHappen: an operator states it, and the body is entered
// once more, with a new claim and the same key, as often as that is stated.
func TestLostCallThatDidNotHappen(t *testing.T) {
	l := newLossy(t, false)
	l.dies = 2
	l.say("Go.")
	p := l.asks()
	l.answer(runner.RunAgain(p.ID, "olga", "the line was dead"))
	p = l.asks() // that entry was lost, too
	l.answer(runner.RunAgain(p.ID, "otto", "")).finished(event.FinishStop)
	l.entered(`attempt 1, key .0, {"text":"a"}, answer none `,
		`attempt 2, key .0, {"text":"a"}, answer none `,
		`attempt 3, key .0, {"text":"a"}, answer none `)
	if out := l.outputs(); len(out) != 1 || out[0] != string(text("sent")) {
		t.Errorf("the model reads %s", out)
	}
	st, err := l.Call(t.Context(), chat, p.Call, user)
	must(t, err)
	if len(st.Again) != 2 || st.Again[0].Why != "the line was dead" ||
		st.Again[0].Actor != "olga" || st.Again[0].Attempt != 1 || st.Again[0].Pause != 1 ||
		st.Again[1].Actor != "otto" || st.Again[1].Attempt != 2 || st.Attempt != 3 {
		t.Errorf("the call keeps %+v of attempt %d", st.Again, st.Attempt)
	}
	l.acceptable()
	l.sound()
}

// TestLostReentryThatDidNotHappen: the new entry brings the answer that the
// lost one brought, and so has its key.
func TestLostReentryThatDidNotHappen(t *testing.T) {
	l := newLossy(t, true)
	job := l.say("Go.").finished(event.FinishPaused).pause("fax")
	l.answer(runner.Complete(job.ID, "ci", json.RawMessage(`"line 7"`)))
	p := l.asks()
	l.answer(runner.RunAgain(p.ID, "olga", "")).finished(event.FinishStop)
	l.entered(`attempt 2, key .1, {"text":"a"}, answer "line 7" {"asked":true}`,
		`attempt 3, key .1, {"text":"a"}, answer "line 7" {"asked":true}`)
	l.sound()
}

// TestWhatWasApprovedRunsAgain: the layers run again, and the gate that has
// decided doesn't ask again. What was edited is what runs.
func TestWhatWasApprovedRunsAgain(t *testing.T) {
	l := newLossy(t, false, interceptor.Approval(nil))
	gate := l.say("Go.").finished(event.FinishPaused).pause("fax")
	l.answer(runner.ApproveEdited(gate.ID, "ada", "", textIn{"b"}))
	p := l.asks()
	l.answer(runner.RunAgain(p.ID, "olga", "")).finished(event.FinishStop)
	l.entered(`attempt 1, key .0, {"text":"b"}, answer none `,
		`attempt 2, key .0, {"text":"b"}, answer none `)
}

// TestRunAgainIsAnAnswer: it is a duplicate by its content, excludes the other
// answers of its pause, and is durable when Resume returns.
func TestRunAgainIsAnAnswer(t *testing.T) {
	l := newLossy(t, false)
	l.say("Go.")
	p := l.asks()
	resume := func(in runner.Resumption) (session.Receipt, error) {
		res, err := l.Resume(t.Context(), chat, in)
		if err != nil {
			return session.Receipt{}, err
		}
		return res.Receipts[0], nil
	}
	first, err := resume(runner.RunAgain(p.ID, "olga", "no paper"))
	if err != nil || first.Kind != session.KindRunAgain || first.Pause != 1 {
		t.Fatalf("it is accepted as %+v, %v", first, err)
	}
	l.restart()
	check := func() {
		t.Helper()
		again, err := resume(runner.RunAgain(p.ID, "otto", "no paper"))
		if err != nil || !again.Duplicate || again.Actor != "olga" {
			t.Errorf("the same once more is %+v, %v", again, err)
		}
		for _, other := range []runner.Resumption{
			runner.RunAgain(p.ID, "olga", "something else"),
			runner.Complete(p.ID, "olga", text("sent")),
			runner.Fail(p.ID, "olga", "no paper", false),
		} {
			_, err = resume(other)
			var conflict *session.ConflictError
			if !errors.As(err, &conflict) || conflict.Receipt.Kind != session.KindRunAgain {
				t.Errorf("another answer is told %v", err)
			}
		}
	}
	check()
	if l.entered(`attempt 1, key .0, {"text":"a"}, answer none `); len(l.entries) == 1 {
		l.carryOn().finished(event.FinishStop)
	}
	check()
	if len(l.entries) != 2 {
		t.Errorf("the body was entered %d times", len(l.entries))
	}
}

// TestRunAgainIsForUnknownOutcomes: any other pause refuses it and stays open,
// and so does a body that runs. It is of an actor, and says one thing.
func TestRunAgainIsForUnknownOutcomes(t *testing.T) {
	refused := func(r *rig, want string, in runner.Resumption) {
		t.Helper()
		_, err := r.Resume(t.Context(), chat, in)
		if !errors.Is(err, session.ErrInvalidResumePayload) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("it is refused with %v, and not with %q", err, want)
		}
	}
	l := newLossy(t, true, interceptor.Approval(nil))
	gate := l.say("Go.").finished(event.FinishPaused).pause("fax")
	refused(l.rig, "waits for a decision", runner.RunAgain(gate.ID, "olga", ""))
	job := l.answer(runner.Approve(gate.ID, "ada", "")).finished(event.FinishPaused).pause("fax")
	refused(l.rig, `waits for reason "external"`, runner.RunAgain(job.ID, "olga", ""))
	l.answer(runner.Complete(job.ID, "ci", json.RawMessage(`"line 7"`)))
	p := l.asks()
	refused(l.rig, "of no actor", runner.RunAgain(p.ID, "", ""))
	why := strings.Repeat("x", 1001)
	refused(l.rig, "at most 1000", runner.RunAgain(p.ID, "olga", why))
	for _, in := range []runner.Resumption{
		{Again: true, Payload: text("a")}, {Again: true, Failure: "no"},
		{Again: true, Decision: &tool.Decision{}},
	} {
		in.Pause, in.Actor = p.ID, "olga"
		refused(l.rig, "an answer is one of them", in)
	}
	refused(l.rig, "Why goes with Again",
		runner.Resumption{Pause: p.ID, Actor: "olga", Payload: text("a"), Why: "?"})
	l.answer(runner.Complete(p.ID, "olga", text("sent"))).finished(event.FinishStop)
	l.entered(`attempt 2, key .2, {"text":"a"}, answer "line 7" {"asked":true}`)

	entered, over := make(chan struct{}), make(chan struct{})
	job2 := tool.Must(tool.Func(tool.Spec{Name: "job", MayPause: true},
		func(context.Context, textIn) (tool.Result[textOut], error) {
			close(entered)
			<-over
			return tool.Done(textOut{"done"}), nil
		}))
	r := newRig(t, oneCall(job2), &rigOptions{memory: true})
	ended := r.begin("Go.")
	<-entered
	refused(r, "no operator was asked", runner.RunAgain(r.onlyCall(), "olga", ""))
	close(over)
	ended().finished(event.FinishStop)
}

// TestRunAgainIsBounded: what operators state of one call is kept with it, so
// they state it eight times at most.
func TestRunAgainIsBounded(t *testing.T) {
	l := newLossy(t, false)
	l.dies = 9
	l.say("Go.")
	for range 8 {
		l.answer(runner.RunAgain(l.asks().ID, "olga", strings.Repeat("é", 500)))
	}
	p := l.asks()
	_, err := l.Resume(t.Context(), chat, runner.RunAgain(p.ID, "olga", ""))
	if !errors.Is(err, session.ErrInvalidResumePayload) ||
		!strings.Contains(err.Error(), "complete it, or fail it") {
		t.Errorf("the ninth time it is told %v", err)
	}
	l.answer(runner.Fail(p.ID, "olga", "broken", false)).finished(event.FinishStop)
	if st, err := l.Call(t.Context(), chat, p.Call, user); err != nil || len(st.Again) != 8 {
		t.Errorf("the call keeps %d statements, %v", len(st.Again), err)
	}
	l.sound()
}

// TestCancelledBeforeItRunsAgain: what an operator has said did not happen, the
// model isn't told has begun.
func TestCancelledBeforeItRunsAgain(t *testing.T) {
	l := newLossy(t, false)
	l.say("Go.")
	p := l.asks()
	_, err := l.Resume(t.Context(), chat, runner.RunAgain(p.ID, "olga", ""))
	must(t, err)
	_, err = l.Cancel(t.Context(), chat, p.Call, "bob", "too late")
	must(t, err)
	l.carryOn().finished(event.FinishStop)
	if out := l.outputs()[0]; !strings.Contains(out, "was not run") ||
		strings.Contains(out, "begun") {
		t.Errorf("the model reads %s", out)
	}
	l.entered(`attempt 1, key .0, {"text":"a"}, answer none `)
	if rc := l.receipt(p.Call, 1); rc.Fate != session.Superseded {
		t.Errorf("the operator's receipt is %+v", rc)
	}
}

// TestRunAgainWithoutTheTool: the statement is kept while the tool is gone.
func TestRunAgainWithoutTheTool(t *testing.T) {
	l := newLossy(t, false)
	l.say("Go.")
	p := l.asks()
	tools := l.config.Tools
	l.config.Tools = nil
	l.restart()
	run := l.answer(runner.RunAgain(p.ID, "olga", "")).finished(event.FinishPaused)
	if len(run.end.Parked) != 1 {
		t.Errorf("the call isn't parked: %+v", run.end)
	}
	l.config.Tools = tools
	l.restart()
	l.carryOn().finished(event.FinishStop)
	l.entered(`attempt 1, key .0, {"text":"a"}, answer none `,
		`attempt 2, key .0, {"text":"a"}, answer none `)
}

// TestStatementOfALaterVersion: an older program would enter the body with what
// it knows of the call, so it is kept off the head.
func TestStatementOfALaterVersion(t *testing.T) {
	l := newLossy(t, false)
	l.say("Go.")
	p := l.asks()
	_, err := l.Resume(t.Context(), chat, runner.RunAgain(p.ID, "olga", ""))
	must(t, err)
	st, err := l.store.Load(t.Context(), chat)
	must(t, err)
	if st.Version <= session.Version {
		t.Errorf("the head has version %d", st.Version)
	}
}
