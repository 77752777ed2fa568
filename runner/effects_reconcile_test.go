package runner_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestReconcileWaitsForTheStore: a lost call whose decision can't be read just
// now is not given up; its tool is asked when the store answers again.
func TestReconcileWaitsForTheStore(t *testing.T) {
	var n counter
	var broken atomic.Bool
	pay, entered := stuck("pay", &n)
	r := newRig(t, oneCall(pay, interceptor.Approval(nil)), &rigOptions{
		wrap: func(kv kvstore.Store) kvstore.Store {
			h := &hooked{get: func(key []byte) error {
				if broken.Load() && strings.HasPrefix(string(key), "p\x00") {
					return errAway
				}
				return nil
			}}
			return h.exclusive(kv)
		},
	})
	p := r.say("Pay.").finished(event.FinishPaused).pause("pay")
	res, err := r.Resume(t.Context(), chat, runner.ApproveEdited(p.ID, "bob", "",
		textIn{strings.Repeat("x", 4<<10)}))
	must(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); watch(t, res.Events(context.Background())) }()
	<-entered
	r.restart()
	<-ended
	broken.Store(true)
	if run := r.carryOn(); run.err == nil || n.get("asked") != 0 {
		t.Errorf("the drive ended with %v; the tool was asked %d times", run.err, n.get("asked"))
	}
	st, err := r.Call(t.Context(), chat, p.Call, user)
	if err == nil && st.Settled != "" {
		t.Errorf("the call was given up: %s", st.Output)
	}
	broken.Store(false)
	r.carryOn().finished(event.FinishStop)
	if out := r.outputs()[0]; n.get("asked") != 1 || out != string(text("done once")) {
		t.Errorf("the tool was asked %d times; the model reads %s", n.get("asked"), out)
	}
}

// TestReconcileIsAskedThoughTheLeaseWasShort: a lost call's tool can tell.
// While code of its own reads the arguments, most of the lease passes in which
// the store doesn't answer, and it is well again in time. The lease is renewed,
// and the tool is asked; or it isn't in time, and the next drive asks.
func TestReconcileIsAskedThoughTheLeaseWasShort(t *testing.T) {
	const lease = 30 * time.Second
	for name, hangs := range map[string]time.Duration{
		"in time": 23 * time.Second, "too late": 2 * lease,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				entered, over := make(chan struct{}), make(chan struct{})
				pay := tool.Must(tool.Func(tool.Spec{Name: "pay", Effect: tool.Once,
					Reconcile: func(context.Context, tool.Call) (tool.Execution, error) {
						n.add("asked")
						return tool.Execution{Output: text("it was paid")}, nil
					}}, func(context.Context, slowIn) (tool.Result[textOut], error) {
					close(entered)
					<-over
					return tool.Done(textOut{"late"}), nil
				}))
				r := newRig(t, oneCall(pay), &rigOptions{memory: true,
					session: &session.Options{Lease: lease}})
				first, second := faultkv.New(hidden(r.engine)), faultkv.New(hidden(r.engine))
				var runners []*runner.Runner
				for _, kv := range []kvstore.Store{first.Store, second.Store} {
					r.kv = kv
					runners = append(runners, r.another())
				}
				r.kv = r.engine
				a, b := runners[0], runners[1]
				ran := make(chan *seen, 1)
				go func() {
					ran <- watch(t, a.Run(context.Background(), user, chat,
						llm.UserText("Pay."), nil))
				}()
				<-entered
				first.Kill()
				<-ran
				time.Sleep(2 * lease)
				reading := func() {
					whileReading.Store(nil)
					second.Stall(false)
					time.AfterFunc(hangs, second.Heal)
					time.Sleep(22 * time.Second)
				}
				whileReading.Store(&reading)
				for range 4 { // the first of which sees the lease of the one that is cut off
					watch(t, b.Continue(context.Background(), chat, user))
					time.Sleep(3 * lease)
				}
				if out := r.outputs()[0]; n.get("asked") != 1 ||
					out != string(text("it was paid")) {
					t.Errorf("the tool was asked %d times, and the model reads %s",
						n.get("asked"), out)
				}
				close(over)
				must(t, a.Close())
				must(t, b.Close())
			})
		})
	}
}

// slowIn is an input whose text is read by code of its own.
type slowIn struct {
	Text slowText `json:"text"`
}

type slowText string

// whileReading is called when a slowText is read.
var whileReading atomic.Pointer[func()]

func (s *slowText) UnmarshalText(b []byte) error {
	if f := whileReading.Load(); f != nil {
		(*f)()
	}
	*s = slowText(b)
	return nil
}

func TestReconcileAndOperator(t *testing.T) {
	for name, test := range map[string]struct {
		reconcile func(context.Context, tool.Call) (tool.Execution, error)
		operator  bool
		want      event.Status // empty: an operator is asked
	}{
		"it knows": {func(_ context.Context, c tool.Call) (tool.Execution, error) {
			if c.Attempt != 2 && c.Attempt != 1 {
				return tool.Execution{}, errors.New("which attempt?")
			}
			return tool.Execution{Output: text("paid")}, nil
		}, false, event.Done},
		"it does not know": {func(context.Context, tool.Call) (tool.Execution, error) {
			return tool.Execution{}, errors.New("?")
		}, false, event.Unknown},
		"it panics": {
			func(context.Context, tool.Call) (tool.Execution, error) { panic("?") },
			false, event.Unknown,
		},
		"an operator is asked": {nil, true, ""},
		"both, the tool knows": {func(context.Context, tool.Call) (tool.Execution, error) {
			return tool.Execution{Output: text("x")}, nil
		}, true, event.Done},
		"both, an operator must": {func(context.Context, tool.Call) (tool.Execution, error) {
			return tool.Execution{}, errors.New("?")
		}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			entered := 0
			r := crash(t, tool.Spec{Name: "pay", Reconcile: test.reconcile,
				AskOperator: test.operator},
				func(tool.Call) tool.Result[textOut] {
					entered++
					return tool.Done(textOut{"paid"})
				})
			run := r.carryOn()
			want := test.want
			if want == "" {
				p := run.finished(event.FinishPaused).pause("pay")
				if p.Await.Reason != tool.ReasonUnknown {
					t.Errorf("it waits for reason %q", p.Await.Reason)
				}
				if _, err := r.Resume(t.Context(), chat, runner.Complete(p.ID,
					"op", []byte(`{"no":1}`))); !errors.Is(err, session.ErrInvalidResumePayload) {
					t.Errorf("an operator's word that is no output: %v", err)
				}
				run, want = r.answer(runner.Complete(p.ID, "op", text("op says paid"))), event.Done
			}
			if res := of[event.Result](run.finished(event.FinishStop)); len(res) != 1 ||
				res[0].Status != want {
				t.Errorf("it settled as %v", res)
			}
			if entered != 1 {
				t.Errorf("the body was entered %d times", entered)
			}
			r.acceptable()
		})
	}
}

// A body that ran with edited arguments is lost: its tool is asked what became
// of those, rather than of what the model wrote.
func TestReconcileIsAskedAboutWhatRan(t *testing.T) {
	var inj *faultkv.Injector
	var ran, asked []string
	pay := tool.Must(tool.Func(tool.Spec{Name: "pay",
		Reconcile: func(_ context.Context, c tool.Call) (tool.Execution, error) {
			asked = append(asked, string(c.Arguments))
			return tool.Execution{Output: c.Arguments}, nil
		}}, func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
		ran = append(ran, string(tool.CallFrom(ctx).Arguments))
		inj.Kill()
		return tool.Done(textOut(in)), nil
	}))
	gates := interceptor.Chain{
		interceptor.Approval(&interceptor.ApprovalOptions{Name: "clerk"}),
		interceptor.Approval(&interceptor.ApprovalOptions{Name: "boss"}),
		interceptor.Approval(&interceptor.ApprovalOptions{Name: "owner"}),
	}
	r := newRig(t, agent.Config{Tools: []tool.Tool{pay}, Interceptors: gates,
		Model: messages(calls("pay", `{"text":"100"}`), says("Done."))},
		&rigOptions{wrap: func(kv kvstore.Store) kvstore.Store {
			inj = faultkv.New(kv)
			return inj.Store
		}})
	p := r.say("Pay.").finished(event.FinishPaused).pause("pay")
	p = r.answer(runner.ApproveEdited(p.ID, "carl",
		"", textIn{"50"})).finished(event.FinishPaused).pause("pay")
	p = r.answer(runner.ApproveEdited(p.ID, "bea",
		"", textIn{"6"})).finished(event.FinishPaused).pause("pay")
	r.answer(runner.Approve(p.ID, "olga", ""))
	r.restart()
	r.carryOn().finished(event.FinishStop)
	const want = `{"text":"6"}`
	if len(ran) != 1 || ran[0] != want || len(asked) != 1 || asked[0] != want {
		t.Errorf("it ran with %s, and was asked about %s", ran, asked)
	}
}

// Reconcile is interrupted, by its caller or by Close: it is asked again, and
// what it knows counts.
func TestReconcileIsInterrupted(t *testing.T) {
	for _, how := range []string{"left", "closed"} {
		t.Run(how, func(t *testing.T) {
			asked, knows := make(chan struct{}, 3), false
			r := crash(t, tool.Spec{Name: "pay",
				Reconcile: func(ctx context.Context, c tool.Call) (tool.Execution, error) {
					if knows {
						return tool.Execution{Output: text("paid")}, nil
					}
					asked <- struct{}{}
					<-ctx.Done()
					return tool.Execution{}, ctx.Err()
				}}, func(tool.Call) tool.Result[textOut] { return tool.Done(textOut{"paid"}) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan struct{})
			go func() { watch(t, r.Continue(ctx, chat, user)); close(ended) }()
			<-asked
			if how == "left" {
				cancel()
			}
			_ = r.Close()
			<-ended
			knows = true
			r.restart()
			r.carryOn().finished(event.FinishStop)
			if res := r.result(r.transcript().History[1].ToolCalls()[0].ID); string(res.Output) != string(text("paid")) {
				t.Errorf("the result is %s", res.Output)
			}
		})
	}
}

// A lost call is cancelled while its tool is asked what became of it: it isn't
// put before an operator any more.
func TestCancelledDuringReconcile(t *testing.T) {
	asked := make(chan struct{}, 3)
	r := crash(t, tool.Spec{Name: "pay", AskOperator: true,
		Reconcile: func(ctx context.Context, c tool.Call) (tool.Execution, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return tool.Execution{}, ctx.Err()
		}}, func(tool.Call) tool.Result[textOut] { return tool.Done(textOut{"paid"}) })
	call := r.onlyCall()
	go func() {
		<-asked
		if _, err := r.Cancel(context.Background(), chat, call, "bob", "stop"); err != nil {
			t.Error(err)
		}
	}()
	r.carryOn().finished(event.FinishStop)
	c, err := r.Call(t.Context(), chat, call, user)
	must(t, err)
	if c.Settled != event.Unknown || !strings.Contains(string(c.Output), "Cancelled") {
		t.Errorf("it ended as %s, with %s", c.Settled, c.Output)
	}
}
