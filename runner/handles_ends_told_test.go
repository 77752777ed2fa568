package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// The end of a handle that no run waits for is told, unless its policy keeps
// that end from the model.
func TestPoliciesOfNotices(t *testing.T) {
	for name, test := range map[string]struct {
		target string // "x" is built, "y" fails, "z" is aborted
		policy tool.HandlePolicy
		told   string // the beginning of the notice; empty: there is none
	}{
		"success":              {"x", tool.HandlePolicy{}, "a: stopped"},
		"success, quiet":       {"x", tool.HandlePolicy{NoSuccess: true}, ""},
		"success, else quiet":  {"x", tool.HandlePolicy{NoFailure: true, NoWaiting: true}, "a: stopped"},
		"failure":              {"y", tool.HandlePolicy{}, "a: failed"},
		"failure, quiet":       {"y", tool.HandlePolicy{NoFailure: true}, ""},
		"failure, else quiet":  {"y", tool.HandlePolicy{NoSuccess: true, NoWaiting: true}, "a: failed"},
		"an abort":             {"z", tool.HandlePolicy{}, "a: failed"},
		"an abort, quiet":      {"z", tool.HandlePolicy{NoFailure: true}, ""},
		"an abort, else quiet": {"z", tool.HandlePolicy{NoSuccess: true, NoWaiting: true}, "a: failed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.policy.AtEnd = tool.KeepAtEnd
				build := underPolicy(t, "build", tool.Idempotent, test.policy,
					func(ctx context.Context, in target) (tool.Result[string], error) {
						select {
						case <-time.After(time.Minute):
						case <-ctx.Done():
							return nil, ctx.Err()
						}
						if in.Target == "y" {
							return nil, errors.New("no compiler")
						}
						return tool.Done("built"), nil
					})
				model := fakellm.New(
					fakellm.Calls("build", `{"action":"spawn","id":"a","target":"`+test.target+`"}`),
					fakellm.Says("Begun."), fakellm.Says("Hello."))
				r := newRig(t, agent.Config{Tools: []tool.Tool{build}, Model: model}, &rigOptions{memory: true})
				r.say("Go.").finished(event.FinishStop)
				if test.target == "z" {
					must(t, r.Abort(t.Context(), chat, "a", user, ""))
				}
				time.Sleep(2 * time.Minute)
				r.say("Hello?").finished(event.FinishStop)
				all := told(model)
				if len(all) > 1 || (len(all) == 1) != (test.told != "") ||
					!strings.HasPrefix(strings.Join(all, ""), test.told) {
					t.Errorf("it was told %q", all)
				}
				must(t, r.Close())
				r.sound()
			})
		})
	}
}

// asksLater is a tool that asks after a minute. What it is told is its result.
func asksLater(t *testing.T, p tool.HandlePolicy, await tool.Await) tool.Tool {
	own, err := tool.Func(tool.Spec{Name: "build", MayPause: true, Effect: tool.Idempotent},
		func(ctx context.Context, _ target) (tool.Result[string], error) {
			select {
			case <-time.After(time.Minute):
				return tool.Pending[string](await), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	must(t, err)
	return tool.Must(handle.Stateful(own, &handle.Options{Asks: true, HandlePolicy: p}))
}

// A question that is the model's to answer ends the wait for its handle: the
// model is told of it, answers, and its run goes on.
func TestAQuestionForTheModelEndsTheWait(t *testing.T) {
	for _, policy := range []tool.HandlePolicy{{}, {AtEnd: tool.AwaitAtEnd}} {
		synctest.Test(t, func(t *testing.T) {
			model := fakellm.New(inquired(fate("a", "wait")), begin("a"), fakellm.Says("Begun."),
				fakellm.Calls("build", `{"action":"apply","id":"a","input":"gcc"}`), fakellm.Says("Told it."),
				fakellm.Says("Built."))
			r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{asksLater(t, policy,
				tool.Await{Reason: tool.ReasonAssistant, Prompt: "Which compiler?"})}},
				&rigOptions{memory: true})
			start := time.Now()
			r.say("Go.").finished(event.FinishStop)
			if took := time.Since(start); took < time.Minute || took > time.Minute+5*time.Second {
				t.Errorf("it took %v", took)
			}
			all := told(model)
			if len(all) == 0 || !strings.HasPrefix(all[0], "a: waiting for your answer") ||
				!strings.HasSuffix(all[0], "Which compiler?") {
				t.Errorf("the model was told %q", all)
			}
			// The handle may have stopped before the reply of apply was made.
			replied := strings.Contains(r.outputs()[1], `"result":"gcc"`)
			noticed := len(all) == 2 && strings.HasPrefix(all[1], "a: stopped, with its result: gcc")
			if replied == noticed {
				t.Errorf("the model reads its end %v, %v: %q, %s", replied, noticed, all, r.outputs()[1])
			}
			must(t, r.Close())
			r.sound()
		})
	}
}

// A question for a person doesn't end the wait. The run is paused, and goes on
// once the person's answer has ended the handle.
func TestAQuestionForAPersonKeepsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := fakellm.New(begin("a"), fakellm.Says("Begun."), fakellm.Says("I see."))
		r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{asksLater(t,
			tool.HandlePolicy{AtEnd: tool.AwaitAtEnd},
			tool.Await{Reason: tool.ReasonInput, Prompt: "Which compiler?"})}}, &rigOptions{memory: true})
		p := r.say("Go.").finished(event.FinishPaused).pause("build")
		if n := len(model.Requests()); n != 2 {
			t.Errorf("the model was asked %d times", n)
		}
		_, err := r.Resume(t.Context(), p.Session, runner.Complete(p.ID, user, json.RawMessage(`"gcc"`)))
		must(t, err)
		r.settled()
		r.carryOn().finished(event.FinishStop)
		if all := told(model); len(all) != 1 || !strings.Contains(all[0], "gcc") {
			t.Errorf("the model was told %q", all)
		}
		must(t, r.Close())
		r.sound()
	})
}

// A limit that passes while no process runs counts: the next one aborts the
// handle, and tells the model.
func TestTheLimitOfAWaitPassesOverARestart(t *testing.T) {
	cl := newClock()
	model := fakellm.New(begin("a"), fakellm.Says("Begun."), fakellm.Says("I see."))
	o := at(cl)
	o.memory = true
	r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{waitsOutside(t,
		tool.HandlePolicy{AtEnd: tool.AwaitAtEnd, Limit: time.Hour})}}, o)
	r.say("Go.").finished(event.FinishPaused)
	cl.pass(59 * time.Minute)
	r.restart()
	r.carryOn().finished(event.FinishPaused)
	if got := r.statusOf("a"); got != "" {
		t.Errorf("before its limit the handle is %q", got)
	}
	cl.pass(2 * time.Minute)
	r.restart()
	r.settled()
	r.carryOn().finished(event.FinishStop)
	if got := r.statusOf("a"); got != event.Cancelled {
		t.Errorf("after its limit the handle is %q", got)
	}
	if all := told(model); len(all) != 1 || !strings.HasPrefix(all[0], "a: failed") {
		t.Errorf("the model was told %q", all)
	}
	must(t, r.Close())
	r.sound()
}

// Killed at any write, or with any acknowledgement lost, a run comes to the same
// whose handles are aborted, awaited and asked about, one after the other.
func TestEndsOfATurnKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	for _, fault := range []func(int) faultkv.Fault{faultkv.FailAt, faultkv.LoseAt} {
		for n, struck := 1, true; struck; n += testlength.Step(3) {
			t.Run(fault(n).String(), func(t *testing.T) {
				outside := func(name string, end tool.AtEnd) tool.Tool {
					return underPolicy(t, name, tool.Idempotent, tool.HandlePolicy{AtEnd: end},
						func(context.Context, target) (tool.Result[string], error) {
							return tool.Pending[string](tool.Await{}), nil
						})
				}
				model := fakellm.New(inquired(fate("open", "abort")),
					fakellm.Calls("drops", `{"action":"spawn","id":"gone","target":"x"}`).
						And("waits", `{"action":"spawn","id":"built","target":"y"}`).
						And("asks", `{"action":"spawn","id":"open","target":"z"}`),
					fakellm.Says("Begun."), fakellm.Says("I see."))
				r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{outside("drops", tool.AbortAtEnd),
					outside("waits", tool.AwaitAtEnd), outside("asks", tool.InquireAtEnd)}},
					&rigOptions{memory: true})
				// plays does all that is done from outside, as far as it comes.
				plays := func() event.Finish {
					r.tell("m-1", "Go.")
					r.carryOn()
					h, err := r.Fetch(t.Context(), chat, "built", user)
					if err == nil && h.Pause == nil && h.State == tool.HandleRunning {
						st, err := r.store.Load(t.Context(), h.Session)
						if err == nil && len(st.Calls) == 1 && st.Calls[0].Pauses == 1 {
							_, _ = r.Resume(t.Context(), h.Session,
								runner.Complete(h.Call+".1", "ci", json.RawMessage(`"built y"`)))
						}
					}
					return r.carryOn().end.Finish
				}
				r.faults.Add(fault(n).AndDie())
				plays()
				struck = r.faults.Struck() > 0
				r.restart()
				plays()
				r.settled()
				r.carryOn()
				r.settled()
				st, err := r.store.Load(t.Context(), chat)
				must(t, err)
				if st.Finish != event.FinishStop || st.Linger != nil || st.Handles != 0 || st.Kept != 0 ||
					len(st.Outbox) != 0 {
					t.Errorf("it is left with %+v", st)
				}
				for name, want := range map[string]event.Status{
					"gone": event.Cancelled, "built": event.Done, "open": event.Cancelled} {
					if got := r.statusOf(name); got != want {
						t.Errorf("%s is %q", name, got)
					}
				}
				notices := 0
				for _, m := range r.transcript().History {
					for _, notice := range m.Notices() {
						if notice.Handle == "built" {
							notices++
						}
					}
				}
				if notices != 1 {
					t.Errorf("the end of what was awaited is told %d times", notices)
				}
				must(t, r.Close())
				r.sound()
			})
		}
	}
}
