package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// callsOff is what a tool was told to call off. Any goroutine may use it.
type callsOff struct {
	mu    sync.Mutex
	all   []tool.Cancelled
	fails func(try int) error
	came  chan struct{}
}

func newCallsOff(fails func(try int) error) *callsOff {
	return &callsOff{fails: fails, came: make(chan struct{}, 100)}
}

func (o *callsOff) do(_ context.Context, c tool.Cancelled) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, c)
	o.came <- struct{}{}
	if o.fails != nil {
		return o.fails(c.Try)
	}
	return nil
}

func (o *callsOff) seen() []tool.Cancelled {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]tool.Cancelled(nil), o.all...)
}

// build is a tool that waits for a job that it can call off.
func build(o *callsOff, effect tool.Effect) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "build", Description: "Build.", Effect: effect,
		MayPause: true, Cancel: tool.Cancel{Do: o.do}},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			return tool.Pending[textOut](tool.Await{Key: "job of " + in.Text[:1], Timeout: time.Hour,
				Data: json.RawMessage(`{"host":"h1"}`)}), nil
		}))
}

// building is a rig whose call of build waits, perhaps behind a gate.
func building(t *testing.T, o *callsOff, gates ...interceptor.Layer) (*rig, tool.Pause) {
	t.Helper()
	r := newRig(t, agent.Config{Tools: []tool.Tool{build(o, tool.Once)}, Interceptors: gates,
		Model: messages(calls("build", `{"text":"a"}`), says("Done."), says("Hello."))},
		&rigOptions{memory: true})
	return r, r.say("Build.").finished(event.FinishPaused).pause("build")
}

// owed lists what is to be called off of the chat, once what is under way is
// over.
func (r *rig) owed() (all []runner.Undo) {
	r.t.Helper()
	synctest.Wait()
	for u, err := range r.Undos(r.t.Context(), session.UndoFilter{Session: chat}, user) {
		must(r.t, err)
		all = append(all, u)
	}
	return all
}

// TestWhatACallHadBegunIsCalledOff: each way in which a call may end while it
// waits, other than by its answer, has its tool called once, without a worker.
func TestWhatACallHadBegunIsCalledOff(t *testing.T) {
	ctx := context.Background()
	for name, test := range map[string]struct {
		end   func(r *rig, p tool.Pause) error
		cause tool.Cause // empty: there is nothing to call off
		by    string
	}{
		"cancelled": {func(r *rig, p tool.Pause) error {
			_, err := r.Cancel(ctx, chat, p.Call, "bob", "too dear")
			return err
		}, tool.CauseCancelled, "bob"},
		"the session is cancelled": {func(r *rig, _ tool.Pause) error {
			return r.CancelSession(ctx, chat, "bob", "too dear")
		}, tool.CauseRunEnded, "bob"},
		"expired": {func(r *rig, _ tool.Pause) error {
			time.Sleep(2 * time.Hour)
			r.carryOn()
			return nil
		}, tool.CauseExpired, "deadline"},
		"deleted": {func(r *rig, _ tool.Pause) error {
			return r.Delete(ctx, chat, "bob")
		}, tool.CauseDeleted, "bob"},
		"completed": {func(r *rig, p tool.Pause) error {
			r.answer(runner.Complete(p.ID, "ci", text("v2")))
			return nil
		}, "", ""},
		"failed": {func(r *rig, p tool.Pause) error {
			r.answer(runner.Fail(p.ID, "ci", "no disk", false))
			return nil
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				off := newCallsOff(nil)
				r, p := building(t, off)
				must(t, test.end(r, p))
				if owed := r.owed(); len(owed) > 0 {
					t.Errorf("it is still to be called off: %+v", owed)
				}
				all := off.seen()
				if test.cause == "" {
					if len(all) > 0 {
						t.Errorf("it was called off: %+v", all)
					}
					return
				}
				if len(all) != 1 {
					t.Fatalf("it was called off %d times", len(all))
				}
				c := all[0]
				if c.Cause != test.cause || c.Actor != test.by || c.Try != 1 || c.Number != 1 ||
					c.Key != "job of a" || string(c.Data) != `{"host":"h1"}` ||
					string(c.Call.Arguments) != `{"text":"a"}` || c.Call.Session != chat ||
					c.Call.User != user || c.Call.ID != p.Call || c.Call.Attempt != 1 ||
					c.Reason != tool.ReasonExternal || c.At.IsZero() {
					t.Errorf("it is told %+v", c)
				}
				if test.by == "bob" && test.cause != tool.CauseDeleted && !strings.HasSuffix(c.Why, "too dear") {
					t.Errorf("it is told why: %q", c.Why)
				}
				if c.Call.IdempotencyKey() != p.Call+".0" ||
					c.IdempotencyKey() != p.Call+".cancel" ||
					c.IdempotencyKey("x") == c.IdempotencyKey() {
					t.Errorf("its keys are %s and %s", c.Call.IdempotencyKey(), c.IdempotencyKey())
				}
				if test.cause != tool.CauseDeleted {
					r.carryOn()
					if out := r.outputs()[0]; !strings.Contains(out, "is now called off") {
						t.Errorf("the model reads %s", out)
					}
					r.sound()
				}
			})
		})
	}
}

// TestSupersededCallIsCalledOff: a question whose tool has booked something
// meanwhile. The message takes its place.
func TestSupersededCallIsCalledOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := newCallsOff(nil)
		ask := tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true,
			Cancel: tool.Cancel{Do: off.do}},
			func(context.Context, textIn) (tool.Result[textOut], error) {
				return tool.NeedInput[textOut]("Which room?"), nil
			}))
		r := newRig(t, agent.Config{Tools: []tool.Tool{ask},
			Model: messages(calls("ask", `{"text":"a"}`), says("As you like."))},
			&rigOptions{memory: true})
		r.say("Book.").finished(event.FinishPaused)
		watch(t, r.Run(t.Context(), user, chat, llm.UserText("Never mind."),
			&runner.RunOptions{Supersede: true})).finished(event.FinishStop)
		synctest.Wait()
		if all := off.seen(); len(all) != 1 || all[0].Cause != tool.CauseSuperseded ||
			all[0].Actor != user || all[0].Reason != tool.ReasonInput {
			t.Errorf("it was called off: %+v", all)
		}
	})
}

// TestNothingIsCalledOffAtAGate: the body has not been entered.
func TestNothingIsCalledOffAtAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := newCallsOff(nil)
		r, p := building(t, off, interceptor.Approval(nil))
		_, err := r.Cancel(t.Context(), chat, p.Call, "bob", "")
		must(t, err)
		if owed := r.owed(); len(owed) > 0 || len(off.seen()) > 0 {
			t.Errorf("it is called off: %+v, %+v", owed, off.seen())
		}
	})
}

// TestWhatRanIsCalledOff: the tool is told the arguments that were edited and
// ran, and the answer that the entry brought.
func TestWhatRanIsCalledOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := newCallsOff(nil)
		r, gate := building(t, off, interceptor.Approval(nil))
		p := r.answer(runner.ApproveEdited(gate.ID, "ada", "",
			textIn{strings.Repeat("b", 3000)})).finished(event.FinishPaused).pause("build")
		must(t, r.Delete(t.Context(), chat, user))
		if owed := r.owed(); len(owed) > 0 {
			t.Errorf("it is still to be called off: %+v", owed)
		}
		if all := off.seen(); len(all) != 1 || len(all[0].Call.Arguments) < 3000 ||
			all[0].Number != 2 || p.Number != 2 {
			t.Errorf("it was called off: %d", len(all))
		}
		r.sound()
	})
}

// TestCallingOffIsTriedAgain: with growing waits, a bounded number of times,
// and then it is given up and listed, until an actor has it tried once more, or
// dismisses it. The session's deletion changes nothing in that.
func TestCallingOffIsTriedAgain(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprint("deleted ", deleted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ok atomic.Bool
				off := newCallsOff(func(try int) error {
					if ok.Load() {
						return nil
					}
					if try == 2 {
						panic("no such host")
					}
					return errors.New("no answer")
				})
				r, p := building(t, off)
				_, err := r.Cancel(t.Context(), chat, p.Call, "bob", "")
				must(t, err)
				if deleted {
					must(t, r.Delete(t.Context(), chat, user))
				}
				if owed := r.owed(); len(owed) != 1 || owed[0].Tries != 1 ||
					owed[0].Failed != "no answer" || time.Until(owed[0].Next) > 10*time.Second {
					t.Fatalf("it is owed so: %+v", owed)
				}
				time.Sleep(11 * time.Second)
				if owed := r.owed(); owed[0].Tries != 2 ||
					!strings.Contains(owed[0].Failed, "panic") {
					t.Errorf("it is owed so: %+v", owed)
				}
				time.Sleep(6 * 24 * time.Hour)
				if n := len(off.seen()); n != 12 {
					t.Errorf("it was tried %d times", n)
				}
				list := func() (all []runner.Undo) {
					f := session.UndoFilter{GivenUp: true, User: user, Tool: "build"}
					for u, err := range r.Undos(t.Context(), f, user) {
						must(t, err)
						all = append(all, u)
					}
					return all
				}
				if all := list(); len(all) != 1 || all[0].GaveUp.IsZero() ||
					all[0].Call != p.Call || all[0].Pause != p.ID || all[0].Key != "job of a" {
					t.Errorf("it is listed so: %+v", all)
				}
				_, err = r.public.Sweep(t.Context(), &session.Retention{Sessions: time.Hour})
				must(t, err)
				must(t, r.RetryUndo(t.Context(), chat, p.Call, user))
				if owed := r.owed(); len(owed) != 1 || owed[0].Tries != 1 || !owed[0].GaveUp.IsZero() {
					t.Errorf("tried anew it is owed so: %+v", owed)
				}
				ok.Store(true)
				time.Sleep(time.Minute)
				if owed := r.owed(); len(owed) != 0 || len(list()) != 0 {
					t.Errorf("it is still owed: %+v, %+v", owed, list())
				}
				err = r.DismissUndo(t.Context(), chat, p.Call, user)
				if !errors.Is(err, session.ErrNoUndo) {
					t.Errorf("what is done is dismissed: %v", err)
				}
			})
		})
	}
}

// TestCallingOffIsDismissed: it is neither tried nor listed any more.
func TestCallingOffIsDismissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := newCallsOff(func(int) error { return errors.New("no answer") })
		r, p := building(t, off)
		_, err := r.Cancel(t.Context(), chat, p.Call, "bob", "")
		must(t, err)
		if undos := r.transcript().Undos; len(undos) != 1 || undos[0].Call != p.Call {
			t.Errorf("Show has %+v", undos)
		}
		synctest.Wait()
		must(t, r.DismissUndo(t.Context(), chat, p.Call, user))
		time.Sleep(24 * time.Hour)
		if n := len(off.seen()); n != 1 || len(r.owed()) != 0 {
			t.Errorf("it was tried %d times, and is owed so: %+v", n, r.owed())
		}
	})
}

// TestCallingOffTakesItsTime: a Cancel that ignores its context is a failure
// when its time is over, and Close doesn't wait for it for ever.
func TestCallingOffTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		off := newCallsOff(nil)
		off.fails = func(try int) error {
			off.mu.Unlock()
			<-over
			off.mu.Lock()
			return nil
		}
		r, p := building(t, off)
		_, err := r.Cancel(t.Context(), chat, p.Call, "bob", "")
		must(t, err)
		synctest.Wait()
		time.Sleep(31 * time.Second)
		if owed := r.owed(); len(owed) != 1 || !strings.Contains(owed[0].Failed, "longer than 30s") {
			t.Errorf("it is owed so: %+v", owed)
		}
	})
}

// TestCallingOffWithoutTheTool: what is owed is parked, and listed, while the
// tool or its Cancel is gone; a worker that has it again goes on.
func TestCallingOffWithoutTheTool(t *testing.T) {
	for _, gone := range []bool{true, false} {
		t.Run(fmt.Sprint("the tool is gone: ", gone), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				off := newCallsOff(nil)
				r, p := building(t, off)
				tools := r.config.Tools
				var n counter
				r.config.Tools = []tool.Tool{waiting("build", tool.Once, &n)}
				if gone {
					r.config.Tools = nil
				}
				r.restart()
				_, err := r.Cancel(t.Context(), chat, p.Call, "bob", "")
				must(t, err)
				synctest.Wait()
				var listed []runner.Undo
				for u, err := range r.Undos(t.Context(), session.UndoFilter{}, user) {
					must(t, err)
					listed = append(listed, u)
				}
				if len(listed) != 1 || !listed[0].Parked || len(off.seen()) != 0 {
					t.Errorf("it is listed so: %+v", listed)
				}
				r.config.Tools = tools
				r.restart()
				workFor(t, time.Minute, r.Runner)
				if owed := r.owed(); len(owed) != 0 || len(off.seen()) != 1 {
					t.Errorf("it is owed so: %+v; it was called off %d times", owed, len(off.seen()))
				}
				r.sound()
			})
		})
	}
}

// TestCallingOffByAnotherProcess: one that has no tool accepts the
// cancellation, or dies right after it; a worker of another one goes on, also
// of a halted and of a deleted session.
func TestCallingOffByAnotherProcess(t *testing.T) {
	for name, end := range map[string]func(r *rig, rn *runner.Runner, p tool.Pause) error{
		"cancelled": func(r *rig, rn *runner.Runner, p tool.Pause) error {
			_, err := rn.Cancel(r.t.Context(), chat, p.Call, "bob", "")
			return err
		},
		"deleted": func(r *rig, rn *runner.Runner, _ tool.Pause) error {
			return rn.Delete(r.t.Context(), chat, "bob")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				off := newCallsOff(nil)
				r, p := building(t, off)
				front, err := runner.New(nil, r.public, nil)
				must(t, err)
				defer front.Close()
				must(t, r.Close())
				must(t, end(r, front, p))
				synctest.Wait()
				if n := len(off.seen()); n != 0 {
					t.Fatalf("it was called off %d times", n)
				}
				r.restart()
				workFor(t, time.Minute, r.Runner)
				if owed := r.owed(); len(owed) != 0 || len(off.seen()) != 1 {
					t.Errorf("it is owed so: %+v; it was called off %d times", owed, len(off.seen()))
				}
			})
		})
	}
}
