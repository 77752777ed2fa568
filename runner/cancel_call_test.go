package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestCancelWhileRunning(t *testing.T) {
	done := func(context.Context) (tool.Result[textOut], error) { return tool.Done(textOut{"done"}), nil }
	for _, c := range []struct {
		name   string
		effect tool.Effect
		end    func(context.Context) (tool.Result[textOut], error) // once the body's context has ended
		status event.Status
		says   string // to the model
		fate   session.Fate
	}{
		{"it returns a result", tool.Once, done, event.Done, "done", session.Superseded},
		{"it returns a result, idempotent", tool.Idempotent, done, event.Done, "done", session.Superseded},
		{"it returns an error", tool.Once,
			func(ctx context.Context) (tool.Result[textOut], error) { return nil, ctx.Err() }, event.Cancelled, "had begun", ""},
		{"it returns an error, idempotent", tool.Idempotent,
			func(ctx context.Context) (tool.Result[textOut], error) { return nil, ctx.Err() }, event.Cancelled, "had begun", ""},
		{"it asks to pause", tool.Once,
			func(context.Context) (tool.Result[textOut], error) { return tool.Pending[textOut](tool.Await{}), nil },
			event.Cancelled, "had begun", ""},
		{"it goes on", tool.Once, nil, event.Unknown, "unknown", ""},
		{"it goes on, idempotent", tool.Idempotent, nil, event.Cancelled, "had begun", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				entered, let := make(chan string, 1), make(chan struct{})
				deploy := tool.Must(tool.Func(tool.Spec{Name: "deploy", Effect: c.effect, MayPause: true},
					func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
						entered <- tool.CallFrom(ctx).ID
						if <-ctx.Done(); c.end == nil {
							<-let
							return tool.Done(textOut{"too late"}), nil
						}
						return c.end(ctx)
					}))
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{deploy},
					Model: fakellm.New(fakellm.Calls("deploy", `{"text":"a"}`), fakellm.Says("I see.")),
				}, &rigOptions{memory: true})
				ended := r.begin("Deploy.")
				call := <-entered
				receipt, err := r.Cancel(t.Context(), chat, call, "ada", "wrong version")
				if err != nil || receipt.Duplicate {
					t.Fatalf("Cancel: %+v, %v", receipt, err)
				}
				ended().finished(event.FinishStop)
				close(let)
				synctest.Wait() // what comes too late has come
				st, err := r.Call(t.Context(), chat, call, user)
				must(t, err)
				if st.Settled != c.status || !strings.Contains(string(st.Output), c.says) {
					t.Errorf("it settled as %s with %s", st.Settled, st.Output)
				}
				if c.status != event.Done && (st.By != "ada" || !strings.Contains(string(st.Output), "wrong version")) {
					t.Errorf("it doesn't say who cancelled it, or why: %s, %s", st.By, st.Output)
				}
				if len(st.Receipts) != 1 || st.Receipts[0].Fate != c.fate {
					t.Errorf("the receipts are %+v", st.Receipts)
				}
				if again, err := r.Cancel(t.Context(), chat, call, "bob", "me too"); err != nil || !again.Duplicate || again.By != "ada" {
					t.Errorf("cancelled again: %+v, %v", again, err)
				}
				r.result(call)
				r.acceptable()
			})
		})
	}
}

// An error that a body returns of itself, just after its call was cancelled, is the end of a cancelled call all the same.
func TestCancelledBodyFailsByItself(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var r *rig
			act := tool.Must(tool.Func(tool.Spec{Name: "act", Effect: effect}, func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
				if _, err := r.Cancel(ctx, chat, tool.CallFrom(ctx).ID, "ada", "stop"); err != nil {
					t.Error(err)
				}
				return nil, errors.New("of its own")
			}))
			r = newRig(t, agent.Config{
				Tools: []tool.Tool{act}, Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`), fakellm.Says("I see.")),
			}, nil)
			r.say("Act.").finished(event.FinishStop)
			if st, err := r.Call(t.Context(), chat, r.onlyCall(), user); err != nil || st.Settled != event.Cancelled || st.By != "ada" {
				t.Errorf("it settled as %s by %q, %v", st.Settled, st.By, err)
			}
		})
	}
}

func TestSettledIsFinal(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name   string
		settle func(r *rig, p tool.Pause)
		status event.Status
		is     error // what latecomers are told
	}{
		{"by an answer", func(r *rig, p tool.Pause) {
			r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
		}, event.Done, session.ErrSettled},
		{"by a failure", func(r *rig, p tool.Pause) {
			r.answer(runner.Fail(p.ID, "ci", "no disk", false)).finished(event.FinishStop)
		}, event.Failed, session.ErrSettled},
		{"by a cancellation", func(r *rig, p tool.Pause) {
			_, err := r.Cancel(r.t.Context(), chat, p.Call, "ada", "")
			must(r.t, err)
			r.carryOn().finished(event.FinishStop)
		}, event.Cancelled, session.ErrCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n counter
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
				Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("I see.")),
			}, nil)
			p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			c.settle(r, p)
			before := r.result(p.Call)
			told := func(what string, err error) {
				t.Helper()
				var settled *session.SettledError
				var conflict *session.ConflictError
				switch {
				case errors.As(err, &settled):
					if settled.Status != c.status || !errors.Is(err, c.is) {
						t.Errorf("%s is told %v", what, err)
					}
				case errors.As(err, &conflict) && c.status != event.Cancelled:
				default:
					t.Errorf("%s is told %v", what, err)
				}
			}
			for _, rs := range []runner.Resumption{
				runner.Complete(p.ID, "ci", text("late")), runner.Complete(p.Call, "ci", text("late")),
				runner.Fail(p.ID, "ci", "late", true), runner.Approve(p.ID, "ada", ""),
				runner.Complete(tool.PauseID(p.Call, 2), "ci", text("late")),
			} {
				_, err := r.Resume(t.Context(), chat, rs)
				told("an answer", err)
			}
			if c.status != event.Cancelled {
				_, err := r.Cancel(t.Context(), chat, p.Call, "ada", "late")
				told("a cancellation", err)
			}
			told("a deadline", r.Extend(t.Context(), chat, p.ID, "ada", later))
			told("progress", r.Progress(t.Context(), chat, p.Call, user, tool.Progress{Message: "late"}))
			if after := r.result(p.Call); string(after.Output) != string(before.Output) || after.Error != before.Error {
				t.Errorf("the result was %s, and is %s", before.Output, after.Output)
			}
		})
	}
}

func TestCancelAgainstAnswer(t *testing.T) {
	const races = 20
	turns := []fakellm.Turn{}
	for i := range races {
		turns = append(turns, fakellm.Calls("deploy", fmt.Sprintf(`{"text":"job-%d"}`, i)), fakellm.Says("I see."))
	}
	var n counter
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("deploy", tool.Once, &n)}, Model: fakellm.New(turns...)}, nil)
	other := r.another()
	for range races {
		p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
		var race sync.WaitGroup
		var cancelled, answered error
		race.Go(func() { _, cancelled = r.Cancel(t.Context(), chat, p.Call, "ada", "") })
		race.Go(func() { _, answered = other.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2"))) })
		race.Wait()
		r.carryOn().finished(event.FinishStop)
		st, err := r.Call(t.Context(), chat, p.Call, user)
		must(t, err)
		if cancelled != nil {
			t.Fatalf("a call that nobody has driven can be cancelled: %v", cancelled)
		}
		if st.Settled != event.Cancelled {
			t.Errorf("it settled as %s", st.Settled)
		}
		if answered != nil && !errors.Is(answered, session.ErrCancelled) {
			t.Errorf("the answer is told %v", answered)
		}
		for _, rc := range st.Receipts {
			if rc.Kind == session.KindComplete && rc.Fate != session.Superseded {
				t.Errorf("the answer's receipt says %q", rc.Fate)
			}
		}
		if r.result(p.Call).Error != true {
			t.Error("the model reads that it went well")
		}
	}
	r.acceptable()
}

// A cancellation that comes while the model already reads the answer either counts, and then the model reads that, or is
// superseded; the run goes on in both cases.
func TestCancelWhileTheModelReadsTheAnswer(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var n counter
			var r *rig
			var p tool.Pause
			cancel := func(context.Context, int) error {
				if p.ID != "" {
					if _, err := r.Cancel(t.Context(), chat, p.Call, "ada", "too late"); err != nil && !errors.Is(err, session.ErrSettled) {
						t.Error(err)
					}
				}
				return nil
			}
			r = newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", effect, &n)},
				Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("I see.").Hook(cancel)),
			}, nil)
			p = r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
			st, err := r.Call(t.Context(), chat, p.Call, user)
			must(t, err)
			superseded := map[event.Status]session.Kind{event.Done: session.KindCancel, event.Cancelled: session.KindComplete}[st.Settled]
			for _, rc := range st.Receipts {
				if (rc.Fate == session.Superseded) != (rc.Kind == superseded) {
					t.Errorf("it settled as %s, and the receipt of the %s says %q", st.Settled, rc.Kind, rc.Fate)
				}
			}
			if got := r.result(p.Call); superseded == "" || got.Error != (st.Settled != event.Done) || string(got.Output) != string(st.Output) {
				t.Errorf("it settled as %s with %s, and the model reads %s", st.Settled, st.Output, got.Output)
			}
			r.acceptable()
		})
	}
}
