package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// asksOnce is a tool that waits once, as await has it, and then tells what it
// got. It notes the key of each entry.
func asksOnce(await tool.Await, keys *[]string) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true},
		func(ctx context.Context, _ textIn) (tool.Result[string], error) {
			c := tool.CallFrom(ctx)
			*keys = append(*keys, c.IdempotencyKey())
			if a := c.Answer; a != nil {
				if a.TimedOut != tool.TimedOut(ctx) {
					return nil, errors.New("the call tells one thing, and its context another")
				}
				return tool.Done(fmt.Sprintf("timed out: %v, by %s, with %s of %q and %s",
					a.TimedOut, a.Actor, a.Payload, a.Prompt, a.Data)), nil
			}
			return tool.Pending[string](await), nil
		}))
}

func asksOnceRig(t *testing.T, await tool.Await, keys *[]string) (*rig, *clock, tool.Pause) {
	t.Helper()
	cl := newClock()
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{asksOnce(await, keys)},
		Model: fakellm.New(fakellm.Calls("ask", `{"text":"a"}`), fakellm.Says("I see."),
			fakellm.Says("Hello.")),
	}, at(cl))
	return r, cl, r.say("Ask.").finished(event.FinishPaused).pause("ask")
}

const noAnswer = `timed out: true, by timer, with null of \"Which?\" and [1]`

// In each mode, a pause that has it so ends in an entry of its tool, which is
// told that no answer came: once, and under a key of its own.
func TestATimeOutMayEnterTheToolAgain(t *testing.T) {
	for _, mode := range []tool.Mode{tool.ModeOutput, tool.ModeReenter, tool.ModeMessage} {
		t.Run(string(mode), func(t *testing.T) {
			var keys []string
			r, cl, p := asksOnceRig(t, tool.Await{Reason: tool.ReasonInput, Mode: mode,
				Prompt: "Which?", Data: []byte("[1]"), Timeout: time.Hour,
				OnTimeout: tool.ReenterOnTimeout}, &keys)
			if p.Await.OnTimeout != tool.ReenterOnTimeout || p.Await.Timeout != time.Hour {
				t.Errorf("it is listed as %+v", p.Await)
			}
			cl.pass(time.Hour - time.Millisecond)
			r.restart()
			r.carryOn().finished(event.FinishPaused)
			cl.pass(time.Millisecond)
			r.restart()
			r.carryOn().finished(event.FinishStop)
			if got := string(r.result(p.Call).Output); !strings.Contains(got, noAnswer) {
				t.Errorf("the result is %s", got)
			}
			if len(keys) != 2 || keys[0] == keys[1] {
				t.Errorf("the entries have the keys %q", keys)
			}
			st, err := r.Call(t.Context(), chat, p.Call, user)
			if err != nil || st.Settled != event.Done || len(st.Receipts) != 0 {
				t.Errorf("it settled as %s with receipts %v, %v", st.Settled, st.Receipts, err)
			}
			r.sound()
			r.acceptable()
		})
	}
}

// An answer that comes in time is one, whatever the pause has for its deadline.
func TestAnswerBeforeATimeOutThatReenters(t *testing.T) {
	var keys []string
	r, cl, p := asksOnceRig(t, tool.Await{Mode: tool.ModeReenter, Timeout: time.Hour,
		OnTimeout: tool.ReenterOnTimeout}, &keys)
	cl.pass(time.Hour - time.Millisecond)
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", []byte(`"red"`)))
	must(t, err)
	cl.pass(24 * time.Hour)
	r.restart()
	r.carryOn().finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); !strings.Contains(got, "timed out: false, by ci") {
		t.Errorf("the result is %s", got)
	}
}

// What comes at the deadline or later finds that the call goes on: an answer is
// never taken for that pause, and a message is no answer.
func TestAnswerAfterATimeOutThatReenters(t *testing.T) {
	late := func(t *testing.T) (*rig, tool.Pause) {
		var keys []string
		r, cl, p := asksOnceRig(t, tool.Await{Reason: tool.ReasonInput, Mode: tool.ModeMessage,
			Prompt: "Which?", Data: []byte("[1]"), Timeout: time.Hour,
			OnTimeout: tool.ReenterOnTimeout}, &keys)
		cl.pass(time.Hour)
		return r, p
	}
	for name, in := range map[string]runner.Resumption{
		"an answer":  {Payload: []byte(`"late"`)},
		"a failure":  {Failure: "late"},
		"a decision": {Decision: &tool.Decision{Approved: true}},
	} {
		t.Run(name, func(t *testing.T) {
			r, p := late(t)
			in.Pause, in.Actor = p.ID, "ci"
			_, err := r.Resume(t.Context(), chat, in)
			var conflict *session.ConflictError
			if !errors.As(err, &conflict) || conflict.Receipt.Kind != session.KindTimeout ||
				!strings.Contains(err.Error(), "no answer had come in time") ||
				!strings.Contains(conflict.Impersonal(), "no answer had come in time") {
				t.Errorf("it is told %v", err)
			}
			r.carryOn().finished(event.FinishStop)
			if got := string(r.result(p.Call).Output); !strings.Contains(got, noAnswer) {
				t.Errorf("the result is %s", got)
			}
			if _, err := r.Resume(t.Context(), chat, in); !errors.Is(err, session.ErrSettled) {
				t.Errorf("after the call's end it is told %v", err)
			}
		})
	}
	t.Run("a new deadline", func(t *testing.T) {
		r, p := late(t)
		err := r.Extend(t.Context(), chat, p.ID, "ada", p.Deadline.Add(time.Hour))
		if !errors.Is(err, session.ErrNotPaused) {
			t.Errorf("it is told %v", err)
		}
	})
	t.Run("a cancellation", func(t *testing.T) {
		r, p := late(t)
		_, err := r.Cancel(t.Context(), chat, p.Call, "ada", "enough")
		must(t, err)
		r.carryOn().finished(event.FinishStop)
		if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil ||
			st.Settled != event.Cancelled {
			t.Errorf("it settled as %s, %v", st.Settled, err)
		}
	})
	t.Run("a message", func(t *testing.T) {
		r, p := late(t)
		r.say("late").finished(event.FinishStop)
		if got := string(r.result(p.Call).Output); !strings.Contains(got, noAnswer) {
			t.Errorf("the result is %s", got)
		}
		if texts := r.texts(); !slices.Contains(texts, "late") {
			t.Errorf("the message is not among %q", texts)
		}
	})
}

// The pause's deadline moves, and is taken away, as any.
func TestTimeOutThatReentersIsExtended(t *testing.T) {
	var keys []string
	r, cl, p := asksOnceRig(t, tool.Await{Mode: tool.ModeReenter, Timeout: time.Hour,
		OnTimeout: tool.ReenterOnTimeout}, &keys)
	must(t, r.Extend(t.Context(), chat, p.ID, "ada", time.Time{}))
	cl.pass(1000 * time.Hour)
	r.restart()
	r.carryOn().finished(event.FinishPaused)
	r.sound()
	must(t, r.Extend(t.Context(), chat, p.ID, "ada", cl.now().Add(time.Second)))
	cl.pass(time.Second)
	r.carryOn().finished(event.FinishStop)
}

// More calls than one commit ends are each entered once.
func TestTimeOutsThatReenterAtOnce(t *testing.T) {
	const many = 20
	var keys []string
	asked := make([]string, 0, 2*many)
	for range many {
		asked = append(asked, "ask", `{"text":"a"}`)
	}
	cl := newClock()
	r := newRig(t, agent.Config{Concurrency: 1,
		Tools: []tool.Tool{asksOnce(tool.Await{Timeout: time.Hour,
			OnTimeout: tool.ReenterOnTimeout}, &keys)},
		Model: messages(calls(asked...), says("Done.")),
	}, at(cl))
	r.say("Go.").finished(event.FinishPaused)
	cl.pass(time.Hour)
	r.carryOn().finished(event.FinishStop)
	slices.Sort(keys)
	if n := len(slices.Compact(keys)); n != 2*many {
		t.Errorf("there are %d entries with keys of their own", n)
	}
	r.acceptable()
}

// A tool that doesn't look at its answer is slowed down, and then fails by
// name, whatever form its deadline has.
func TestTimeOutsWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(tool.Call) tool.Await{
		"a time-out": func(tool.Call) tool.Await {
			return tool.Await{Timeout: 1, OnTimeout: tool.ReenterOnTimeout}
		},
		"a deadline": func(tool.Call) tool.Await {
			return tool.Await{Deadline: time.Now(), OnTimeout: tool.ReenterOnTimeout}
		},
		"a timer": func(tool.Call) tool.Await {
			return tool.Await{Reason: tool.ReasonTimer, Deadline: time.Now().Add(-time.Hour)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				tick := tool.Must(tool.Func(tool.Spec{Name: "tick", MayPause: true,
					Effect: tool.ReadOnly},
					func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
						n.add("tick")
						return tool.Pending[textOut](make(tool.CallFrom(ctx))), nil
					}))
				r := newRig(t, agent.Config{
					Model: fakellm.New(fakellm.Calls("tick", `{"text":"a"}`),
						fakellm.Says("Never mind.")), Tools: []tool.Tool{tick},
				}, &rigOptions{memory: true})
				works(t, r.Runner)
				r.say("Tick.")
				time.Sleep(time.Hour)
				if got := r.transcript(); got.Finish != event.FinishStop || n.get("tick") != 201 ||
					!strings.Contains(r.outputs()[0], "tick has paused 200 times, and asks for a time") {
					t.Errorf("after %d it is %q", n.get("tick"), got.Finish)
				}
			})
		})
	}
}

// A gate takes none of it: it stays shut, and a layer that asks for it fails
// its call.
func TestALayerIsNotToldOfATimeOut(t *testing.T) {
	var n counter
	layer := interceptor.Layer{Name: "brake",
		Tool: func(interceptor.ToolHandler) interceptor.ToolHandler {
			return func(context.Context, tool.Call) (tool.Execution, error) {
				return tool.Execution{Await: &tool.Await{Prompt: "Well?", Timeout: time.Hour,
					OnTimeout: tool.ReenterOnTimeout}}, nil
			}
		}}
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{instant("act", tool.Once, &n)},
		Interceptors: interceptor.Chain{layer},
		Model:        messages(calls("act", `{"text":"a"}`), says("I see.")),
	}, nil)
	r.say("Act.").finished(event.FinishStop)
	if got := r.outputs()[0]; !strings.Contains(got, "OnTimeout is for tools") ||
		n.get("act") != 0 {
		t.Errorf("the model reads %s; the body was entered %d times", got, n.get("act"))
	}
}
