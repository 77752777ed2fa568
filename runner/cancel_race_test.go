package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestCancelAgainstAnswer(t *testing.T) {
	const races = 20
	turns := []fakellm.Turn{}
	for i := range races {
		turns = append(turns, fakellm.Calls("deploy", fmt.Sprintf(`{"text":"job-%d"}`, i)),
			fakellm.Says("I see."))
	}
	var n counter
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
		Model: fakellm.New(turns...)}, nil)
	other := r.another()
	for range races {
		p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
		var race sync.WaitGroup
		var cancelled, answered error
		race.Go(func() { _, cancelled = r.Cancel(t.Context(), chat, p.Call, "ada", "") })
		race.Go(func() {
			_, answered = other.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
		})
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

// A cancellation that comes while the model already reads the answer either
// counts, and then the model reads that, or is superseded; the run goes on in
// both cases.
func TestCancelWhileTheModelReadsTheAnswer(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var n counter
			var r *rig
			var p tool.Pause
			cancel := func(context.Context, int) error {
				if p.ID != "" {
					if _, err := r.Cancel(t.Context(), chat, p.Call,
						"ada", "too late"); err != nil && !errors.Is(err, session.ErrSettled) {
						t.Error(err)
					}
				}
				return nil
			}
			r = newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", effect, &n)},
				Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
					fakellm.Says("I see.").Hook(cancel)),
			}, nil)
			p = r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
			st, err := r.Call(t.Context(), chat, p.Call, user)
			must(t, err)
			superseded := map[event.Status]session.Kind{event.Done: session.KindCancel,
				event.Cancelled: session.KindComplete}[st.Settled]
			for _, rc := range st.Receipts {
				if (rc.Fate == session.Superseded) != (rc.Kind == superseded) {
					t.Errorf("it settled as %s, and the receipt of the %s says %q", st.Settled,
						rc.Kind, rc.Fate)
				}
			}
			if got := r.result(p.Call); superseded == "" ||
				got.Error != (st.Settled != event.Done) || string(got.Output) != string(st.Output) {
				t.Errorf("it settled as %s with %s, and the model reads %s", st.Settled,
					st.Output, got.Output)
			}
			r.acceptable()
		})
	}
}

// An accepted answer is taken up, and cancelled while the model reads it; the
// model then fails in a way that passes. What it reads next is how the call
// really ended, once.
func TestModelIsRetriedAfterTheAnswerWasCancelled(t *testing.T) {
	var n counter
	var r *rig
	var call string
	var last llm.Request
	asked := 0
	first := fakellm.New(fakellm.Calls("job", `{"text":"k"}`))
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Retry: agent.Retry{First: time.Millisecond},
		Model: streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
			switch asked++; asked {
			case 1:
				return first.Generate(ctx, req)
			case 2:
				_, err := r.Cancel(context.Background(), chat, call, "bob", "stop")
				must(t, err)
				return func(yield func(llm.Event, error) bool) {
					yield(nil, &llm.Error{Kind: llm.ErrOverloaded})
				}
			}
			last = req
			return fakellm.Echo().Generate(ctx, req)
		}),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	call = p.Call
	r.answer(runner.Complete(p.ID, "ci", text("v"))).finished(event.FinishStop)
	must(t, fakellm.Check(last))
	if got := r.result(call); !got.Error || !strings.Contains(string(got.Output), "Cancelled") {
		t.Errorf("the call ended with %s", got.Output)
	}
	r.acceptable()
}

// TestCancelSessionThatIsOvertaken: before each of its commits, others settle
// or answer a call, or a deadline passes. In each case the session is
// cancelled, without an error, and its turn is closed.
func TestCancelSessionThatIsOvertaken(t *testing.T) {
	type world struct {
		*rig
		clock *clock
		calls []tool.Pause // a job, a job, and a refund to be approved
	}
	ctx := context.Background()
	cancel := func(w *world, i int) error {
		_, err := w.Cancel(ctx, chat, w.calls[i].Call, "eve", "I was first")
		return err
	}
	answer := func(w *world, in runner.Resumption) error {
		_, err := w.Resume(ctx, chat, in)
		return err
	}
	for name, overtake := range map[string]func(*world) error{
		"by a cancellation of the first call": func(w *world) error { return cancel(w, 0) },
		"by a cancellation of the last call":  func(w *world) error { return cancel(w, 2) },
		"by cancellations of all calls": func(w *world) error {
			return errors.Join(cancel(w, 0), cancel(w, 1), cancel(w, 2))
		},
		"by a job that failed": func(w *world) error {
			return answer(w, runner.Fail(w.calls[1].ID, "ci", "broke", false))
		},
		"by a job that is done": func(w *world) error {
			return answer(w, runner.Complete(w.calls[1].ID, "ci", text("v")))
		},
		"by an approval": func(w *world) error {
			return answer(w, runner.Approve(w.calls[2].ID, "bob", ""))
		},
		"by a deadline": func(w *world) error { w.clock.pass(2 * time.Hour); return nil },
		"by another cancellation": func(w *world) error {
			return w.CancelSession(ctx, chat, "eve", "I was first")
		},
		"by a driver": func(w *world) error {
			return watch(w.t, w.another().Continue(ctx, chat, user)).err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for n, commits := 1, 1; n <= commits; n++ {
				var c counter
				h, cl := new(hooked), newClock()
				w := &world{clock: cl, rig: newRig(t, agent.Config{
					Model: fakellm.New(fakellm.Calls("job", `{"text":"a"}`).And("job",
						`{"text":"b"}`).And("refund", `{"text":"c"}`), fakellm.Says("Next.")),
					Tools: []tool.Tool{waiting("job", tool.Once, &c),
						instant("refund", tool.Once, &c)},
					Interceptors: interceptor.Chain{
						interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}}),
					},
				}, &rigOptions{
					memory: true, session: &session.Options{Now: cl.now}, wrap: h.exclusive,
				})}
				w.calls = w.say("Go.").finished(event.FinishPaused).end.Pending
				commits = 0
				h.apply = func(kvstore.Batch) {
					if commits++; commits != n {
						return
					}
					before := h.apply
					h.apply = nil
					if err := overtake(w); err != nil && !errors.Is(err, session.ErrSettled) &&
						!errors.Is(err, session.ErrBusy) {
						t.Errorf("commit %d was overtaken with %v", n, err)
					}
					h.apply = before
				}
				if err := w.CancelSession(ctx, chat, "bob", "enough"); err != nil {
					t.Errorf("before commit %d: the cancellation is told %v", n, err)
				}
				h.apply = nil
				got := w.transcript()
				if got.Finish != event.FinishCancelled || len(got.Pending) != 0 ||
					len(got.History) != 3 {
					t.Errorf("before commit %d: the session is left as %q with %d messages, and %d calls wait",
						n, got.Finish, len(got.History), len(got.Pending))
				}
				if c.get("refund") != 0 {
					t.Errorf("before commit %d: a refund was made in a session that was cancelled",
						n)
				}
				w.acceptable()
			}
		})
	}
}

// TestCallThatIsCancelledTwiceAtOnce: with its session and by itself. The model
// is told of the cancellation that came first.
func TestCallThatIsCancelledTwiceAtOnce(t *testing.T) {
	var c counter
	h := new(hooked)
	r := newRig(t, jobs(&c, 2), &rigOptions{memory: true, wrap: h.shared})
	pending := r.say("Go.").finished(event.FinishPaused).end.Pending
	commits := 0
	h.apply = func(kvstore.Batch) {
		if commits++; commits == 3 { // those before end the run and take the lease
			h.apply = nil
			for i, p := range pending {
				_, err := r.Cancel(context.Background(), chat, p.Call,
					runner.Actor(fmt.Sprint("eve-", i)), "")
				must(t, err)
			}
		}
	}
	must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
	for i, p := range pending {
		got, err := r.Call(t.Context(), chat, p.Call, user)
		must(t, err)
		if want := fmt.Sprint("eve-", i); got.Actor != want {
			t.Errorf("call %d is kept as cancelled by %q, not %q", i, got.Actor, want)
		}
	}
	r.acceptable()
}

// A call, or its session, is cancelled when a drive has read its head, and does
// not watch it yet: the body is told to end all the same.
func TestCancelledBeforeTheDriveWatches(t *testing.T) {
	for name, cancel := range map[string]func(*rig, tool.Pause) error{
		"a call": func(r *rig, p tool.Pause) error {
			_, err := r.Cancel(context.Background(), chat, p.Call, "bob", "enough")
			return err
		},
		"a session": func(r *rig, p tool.Pause) error {
			return r.CancelSession(context.Background(), chat, "bob", "enough")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := new(hooked)
				look := tool.Must(tool.Func(tool.Spec{Name: "look",
					Effect: tool.ReadOnly, MayPause: true},
					func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
						if tool.CallFrom(ctx).Answer == nil {
							return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter}), nil
						}
						select {
						case <-ctx.Done():
							return nil, context.Cause(ctx)
						case <-time.After(time.Hour):
							return tool.Done(textOut{"nobody told it to end"}), nil
						}
					}))
				r := newRig(t, agent.Config{Tools: []tool.Tool{look},
					Model: messages(calls("look", `{"text":"a"}`), says("Done."))},
					&rigOptions{memory: true, wrap: h.exclusive})
				p := r.say("Look.").finished(event.FinishPaused).pause("look")
				_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", []byte(`1`)))
				must(t, err)
				h.got = func(key []byte) {
					if isHead(key) {
						h.got = nil
						must(t, cancel(r, p))
					}
				}
				r.carryOn()
				if c, err := r.Call(t.Context(), chat, p.Call, user); err != nil ||
					c.Settled != event.Cancelled || c.Actor != "bob" {
					t.Errorf("it settled as %s by %q with %s, %v", c.Settled, c.Actor, c.Output, err)
				}
			})
		})
	}
}
