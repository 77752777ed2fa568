package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// many is a rig with n calls that wait, and their pauses in call order.
func many(t *testing.T, n int) (*rig, []tool.Pause) {
	t.Helper()
	turn := fakellm.Turn{}
	for i := range n {
		turn = turn.And("deploy", fmt.Sprintf(`{"text":"job-%d"}`, i))
	}
	var entered counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{starting(tool.Idempotent, &entered, func(context.Context, tool.Call) (tool.Result[textOut], error) {
			return tool.Pending[textOut](tool.Await{}), nil
		})},
		Model: fakellm.New(turn, fakellm.Says("All done.")),
	}, nil)
	pauses := r.say("Deploy them.").finished(event.FinishPaused).end.Pending
	if len(pauses) != n {
		t.Fatalf("%d calls wait, not %d", len(pauses), n)
	}
	return r, pauses
}

// All the calls that a turn may have can be answered before anybody drives; their results fit what is written then.
func TestFullTurnIsAnsweredAtOnce(t *testing.T) {
	for name, size := range map[string]int{"small": 1, "of 30 KB": 30 << 10} {
		t.Run(name, func(t *testing.T) {
			r, pauses := many(t, agent.MaxCalls)
			for i := 0; i < len(pauses); i += 16 {
				var batch []runner.Resumption
				for _, p := range pauses[i : i+16] {
					batch = append(batch, runner.Complete(p.ID, "ci", text(strings.Repeat("x", size))))
				}
				_, err := r.Resume(t.Context(), chat, batch...)
				must(t, err)
			}
			r.carryOn().finished(event.FinishStop)
			results := r.outputs()
			if len(results) != len(pauses) {
				t.Fatalf("%d calls have %d results", len(pauses), len(results))
			}
			for _, got := range results {
				if len(got) != len(text(""))+size {
					t.Fatalf("a result has %d bytes", len(got))
				}
			}
		})
	}
}

// The head stays small: long words of those who answer don't make it too large to be written.
func TestFullTurnIsDecidedAtLength(t *testing.T) {
	turn := fakellm.Turn{}
	for i := range agent.MaxCalls {
		turn = turn.And("refund", fmt.Sprintf(`{"text":"order-%d"}`, i))
	}
	var n counter
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{instant("refund", tool.Once, &n)},
		Interceptors: approval(),
		Model:        fakellm.New(turn, fakellm.Says("All done.")),
	}, nil)
	pauses := r.say("Refund them.").finished(event.FinishPaused).end.Pending
	why := strings.Repeat(`"`, 900)
	for i := 0; i < len(pauses); i += 16 {
		var batch []runner.Resumption
		for _, p := range pauses[i : i+16] {
			batch = append(batch, runner.Approve(p.ID, "ada", why))
		}
		_, err := r.Resume(t.Context(), chat, batch...)
		must(t, err)
	}
	r.carryOn().finished(event.FinishStop)
	if n.get("refund") != agent.MaxCalls {
		t.Errorf("the body was entered %d times", n.get("refund"))
	}
	st, err := r.Call(t.Context(), chat, pauses[7].Call, user)
	if err != nil || len(st.Decisions) != 1 || st.Decisions[0].Reason != why {
		t.Errorf("what was said is kept as %+v, %v", st.Decisions, err)
	}
	r.acceptable()
}

// Several senders may share one slice, and send it again after it was refused in part.
func TestBatchIsTheCallersOwn(t *testing.T) {
	r, p := many(t, 2)
	batch := []runner.Resumption{runner.Complete(p[0].ID, "ci", text("v2")), runner.Complete(p[1].ID, "ci", nil)}
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			if _, err := r.Resume(t.Context(), chat, batch...); err != nil {
				t.Error(err)
			}
		})
	}
	senders.Wait()
	batch[1].Payload = text("v3")
	res, err := r.Resume(t.Context(), chat, batch...)
	if err != nil || res.Receipts[1].Err != nil {
		t.Errorf("mended, and sent again: %+v, %v", res, err)
	}
}

func TestPayloadSizes(t *testing.T) {
	const limit = 1 << 20
	frame := len(text(""))
	for _, c := range []struct {
		size int // of the payload
		ok   bool
	}{{1 << 10, true}, {1<<10 + 1, true}, {60 << 10, true}, {60<<10 + 1, true}, {limit, true}, {limit + 1, false}} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			var n counter
			r, p := deployed(t, &n)
			payload := text(strings.Repeat("x", c.size-frame))
			_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", payload))
			if !c.ok {
				if !errors.Is(err, session.ErrInvalidResumePayload) || !strings.Contains(err.Error(), fmt.Sprint(limit)) {
					t.Errorf("Resume: %v", err)
				}
				if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil || st.Status != session.Pending {
					t.Errorf("the call is %s, %v", st.Status, err)
				}
				return
			}
			must(t, err)
			r.restart()
			r.carryOn().finished(event.FinishStop)
			if got := r.result(p.Call).Output; string(got) != string(payload) {
				t.Errorf("the result has %d bytes", len(got))
			}
			st, err := r.Call(t.Context(), chat, p.Call, user)
			if err != nil || string(st.Output) != string(payload) {
				t.Errorf("the call's output has %d bytes, %v", len(st.Output), err)
			}
			r.acceptable()
		})
	}
}

// An error may be as long as it likes: that the run has failed is recorded all the same.
func TestLongErrorsAreRecorded(t *testing.T) {
	long := errors.New(strings.Repeat("é", 100_000))
	fatal := tool.Must(tool.Func(tool.Spec{Name: "act"}, func(context.Context, textIn) (tool.Result[textOut], error) {
		return nil, tool.Fatal(long)
	}))
	for name, model := range map[string]llm.Model{
		"of the model": fakellm.New(fakellm.Fails(long)),
		"of a tool":    fakellm.New(fakellm.Calls("act", `{"text":"a"}`)),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, agent.Config{Tools: []tool.Tool{fatal}, Model: model}, nil)
			if s := r.say("Go."); !errors.Is(s.err, long) || s.end.Finish != event.FinishFailed {
				t.Errorf("the run ended as %s", s.end.Finish)
			}
			r.restart()
			got := r.transcript()
			if got.Finish != event.FinishFailed || !strings.Contains(got.Why, "éé") || len(got.Why) > 2000 || !utf8.ValidString(got.Why) {
				t.Errorf("it is recorded as %s: %.100s", got.Finish, got.Why)
			}
		})
	}
}

// Names are short: that of whoever answers, and that of a delivery.
func TestLongNamesAreRefused(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	for _, in := range []runner.Resumption{
		{Pause: p.ID, Payload: text("v2"), Actor: runner.Actor(strings.Repeat("x", 70_000))},
		{Pause: p.ID, Payload: text("v2"), Delivery: strings.Repeat("x", 70_000)},
	} {
		if _, err := r.Resume(t.Context(), chat, in); !errors.Is(err, session.ErrInvalidResumePayload) {
			t.Errorf("Resume: %.200v", err)
		}
	}
	for actor, why := range map[string]string{strings.Repeat("x", 70_000): "no", "ada": strings.Repeat("x", 70_000)} {
		if _, err := r.Cancel(t.Context(), chat, p.Call, runner.Actor(actor), why); !errors.Is(err, runner.ErrLongReason) {
			t.Errorf("Cancel: %.200v", err)
		}
	}
	r.answer(runner.Complete(p.ID, runner.Actor(strings.Repeat("x", 256)), text("v2"))).finished(event.FinishStop)
}
