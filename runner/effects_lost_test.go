package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
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

// crash is a rig whose process dies within the body of a tool: what the body returns is not recorded.
func crash(t *testing.T, spec tool.Spec, body func(tool.Call) tool.Result[textOut]) *rig {
	t.Helper()
	var inj *faultkv.Injector
	first := true
	spec.Description, spec.MayPause = "a", true
	act := tool.Must(tool.Func(spec, func(ctx context.Context, _ struct{}) (tool.Result[textOut], error) {
		res := body(tool.CallFrom(ctx))
		if first {
			first = false
			inj.Kill()
		}
		return res, nil
	}))
	r := newRig(t, agent.Config{Tools: []tool.Tool{act}, Model: messages(calls(spec.Name, `{}`), says("Done."))}, &rigOptions{
		wrap: func(kv kvstore.Store) kvstore.Store { inj = faultkv.New(kv); return inj.Store },
	})
	if run := r.say("Go."); run.err == nil {
		t.Fatalf("the run of a process that died ended as %q", run.end.Finish)
	}
	r.restart()
	return r
}

func TestLostCallIsUnknown(t *testing.T) {
	entered := 0
	r := crash(t, tool.Spec{Name: "pay"}, func(tool.Call) tool.Result[textOut] { entered++; return tool.Done(textOut{"paid"}) })
	res := of[event.Result](r.carryOn().finished(event.FinishStop))
	if len(res) != 1 || res[0].Status != event.Unknown || !res[0].Result.Error ||
		!strings.Contains(string(res[0].Result.Output), "unknown") {
		t.Errorf("it settled as %v", res)
	}
	if entered != 1 {
		t.Errorf("the body was entered %d times", entered)
	}
	r.acceptable()
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
		"it does not know":     {func(context.Context, tool.Call) (tool.Execution, error) { return tool.Execution{}, errors.New("?") }, false, event.Unknown},
		"it panics":            {func(context.Context, tool.Call) (tool.Execution, error) { panic("?") }, false, event.Unknown},
		"an operator is asked": {nil, true, ""},
		"both, the tool knows": {func(context.Context, tool.Call) (tool.Execution, error) {
			return tool.Execution{Output: text("x")}, nil
		}, true, event.Done},
		"both, an operator must": {func(context.Context, tool.Call) (tool.Execution, error) { return tool.Execution{}, errors.New("?") }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			entered := 0
			r := crash(t, tool.Spec{Name: "pay", Reconcile: test.reconcile, AskOperator: test.operator},
				func(tool.Call) tool.Result[textOut] { entered++; return tool.Done(textOut{"paid"}) })
			run := r.carryOn()
			want := test.want
			if want == "" {
				p := run.finished(event.FinishPaused).pause("pay")
				if p.Await.Reason != tool.ReasonUnknown {
					t.Errorf("it waits for reason %q", p.Await.Reason)
				}
				if _, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "op", []byte(`{"no":1}`))); !errors.Is(err, session.ErrInvalidResumePayload) {
					t.Errorf("an operator's word that is no output: %v", err)
				}
				run, want = r.answer(runner.Complete(p.ID, "op", text("op says paid"))), event.Done
			}
			if res := of[event.Result](run.finished(event.FinishStop)); len(res) != 1 || res[0].Status != want {
				t.Errorf("it settled as %v", res)
			}
			if entered != 1 {
				t.Errorf("the body was entered %d times", entered)
			}
			r.acceptable()
		})
	}
}

func TestIdempotentCallRunsAgain(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Idempotent, tool.ReadOnly} {
		var keys []string
		r := crash(t, tool.Spec{Name: "pay", Effect: effect}, func(c tool.Call) tool.Result[textOut] {
			keys = append(keys, c.IdempotencyKey()+" "+c.IdempotencyKey("part"))
			return tool.Done(textOut{"paid"})
		})
		r.carryOn().finished(event.FinishStop)
		if len(keys) != 2 || keys[0] != keys[1] {
			t.Errorf("%s: the entries' keys are %q", effect, keys)
		}
		r.acceptable()
	}
}

func TestIdempotencyKey(t *testing.T) {
	var keys []string
	again := tool.Must(tool.Resumable(tool.Spec{Name: "book", Description: "b", Effect: tool.Idempotent},
		func(ctx context.Context, _ struct{}, ask tool.Ask[textOut, int]) (tool.Result[textOut], error) {
			c := tool.CallFrom(ctx)
			keys = append(keys, c.IdempotencyKey(), c.IdempotencyKey("a"), c.IdempotencyKey("b"), c.IdempotencyKey("a", "b"), c.IdempotencyKey("ab"))
			return ask("Which?", 1), nil
		},
		func(ctx context.Context, _ struct{}, re tool.Reply[textOut, int, int]) (tool.Result[textOut], error) {
			keys = append(keys, tool.CallFrom(ctx).IdempotencyKey())
			if re.Answer == 0 {
				return re.Ask("Really?", 2), nil
			}
			return tool.Done(textOut{"booked"}), nil
		}))
	r := newRig(t, agent.Config{Concurrency: 1, Tools: []tool.Tool{again}, Model: messages(calls("book", `{}`, "book", `{}`), says("Done."))}, nil)
	for _, p := range r.say("Go.").finished(event.FinishPaused).end.Pending {
		p = r.answer(runner.Complete(p.ID, user, []byte("0"))).finished(event.FinishPaused).pauseOf(p.Call)
		r.answer(runner.Complete(p.ID, user, []byte("1")))
	}
	seen := map[string]bool{}
	for _, k := range keys {
		if seen[k] {
			t.Errorf("the key %s comes twice in %q", k, keys)
		}
		seen[k] = true
	}
	if len(keys) != 2*7 {
		t.Errorf("%d keys", len(keys))
	}
}

// pauseOf is the open pause of a call, by the run's last event.
func (s *seen) pauseOf(call string) tool.Pause {
	s.t.Helper()
	for _, p := range s.end.Pending {
		if p.Call == call {
			return p
		}
	}
	s.t.Fatalf("call %s does not wait", call)
	return tool.Pause{}
}

// A drive that was stopped past its lease wakes up: it may neither write nor enter a body. What the model said to it is dropped.
func TestFencing(t *testing.T) {
	var n counter
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	asked, wake := make(chan struct{}, 2), make(chan struct{})
	stopped := true
	script := messages(calls("act", `{"text":"a"}`), says("Done."))
	model := modelFunc(func(r llm.Request) []llm.Event {
		if stopped {
			stopped = false
			asked <- struct{}{}
			<-wake // the process is stopped
		}
		return script(r)
	})
	r := newRig(t, agent.Config{Tools: []tool.Tool{instant("act", tool.Once, &n)}, Model: model}, &rigOptions{
		memory: true, wrap: hidden, session: &session.Options{Now: func() time.Time { return now }, MaxSkew: time.Millisecond},
	})
	first := make(chan *seen)
	go func() { first <- watch(t, r.Run(context.Background(), user, chat, llm.UserText("Go."), nil)) }()
	<-asked
	other := r.another()
	if err := watch(t, other.Continue(t.Context(), chat, user)).err; !errors.Is(err, session.ErrBusy) {
		t.Errorf("while the lease lasts, another driver gets %v", err)
	}
	now = now.Add(time.Minute)
	watch(t, other.Continue(t.Context(), chat, user)).finished(event.FinishStop)
	close(wake)
	if run := <-first; run.end.Finish != event.FinishElsewhere || run.err != nil {
		t.Errorf("the drive that lost its lease ended as %q with %v", run.end.Finish, run.err)
	}
	if n.get("act") != 1 {
		t.Errorf("the body was entered %d times", n.get("act"))
	}
	if got := len(r.transcript().History); got != 4 {
		t.Errorf("%d messages are stored", got)
	}
	r.acceptable()
}

// hidden is an engine that several processes might share: leases on it are stored.
func hidden(kv kvstore.Store) kvstore.Store { return struct{ kvstore.Store }{kv} }

// A session that kills each of its drives is left alone after five takeovers,
// as failed and in the list of sessions. Continue tries again.
func TestSessionThatKillsItsDriver(t *testing.T) {
	for name, wrap := range map[string]func(kvstore.Store) kvstore.Store{"exclusive": nil, "shared": hidden} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			entered, deadly := 0, true
			act := tool.Must(tool.Func(tool.Spec{Name: "act", Effect: tool.Idempotent}, func(context.Context, struct{}) (tool.Result[textOut], error) {
				if entered++; deadly {
					r.faults.Kill()
				}
				return tool.Done(textOut{"ok"}), nil
			}))
			cl := newClock()
			r = newRig(t, agent.Config{Tools: []tool.Tool{act}, Model: messages(calls("act", `{}`), says("Done."))},
				&rigOptions{wrap: wrap, session: &session.Options{Now: cl.now, MaxSkew: time.Millisecond}})
			r.say("Go.")
			work := func() {
				cl.pass(time.Minute) // until the dead one's lease is over
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				_ = r.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, err error) {
					if _, ok := ev.(event.End); ok || err != nil {
						cancel()
					}
				}})
			}
			for entered < 20 {
				r.restart()
				work()
				r.restart()
				if s := r.transcript(); s.Finish == event.FinishFailed {
					break
				}
			}
			if entered != 6 { // the first time, and five takeovers
				t.Errorf("the body was entered %d times", entered)
			}
			var listed []runner.Session
			for s, err := range r.Sessions(t.Context(), session.Filter{}, user) {
				must(t, err)
				listed = append(listed, s)
			}
			if len(listed) != 1 || listed[0].Finish != event.FinishFailed {
				t.Errorf("the list says %+v", listed)
			}
			deadly = false
			r.carryOn().finished(event.FinishStop)
			r.acceptable()
		})
	}
}

// A body that ran with edited arguments is lost: its tool is asked what became of those, rather than of what the model wrote.
func TestReconcileIsAskedAboutWhatRan(t *testing.T) {
	var inj *faultkv.Injector
	var ran, asked []string
	pay := tool.Must(tool.Func(tool.Spec{Name: "pay", Reconcile: func(_ context.Context, c tool.Call) (tool.Execution, error) {
		asked = append(asked, string(c.Arguments))
		return tool.Execution{Output: c.Arguments}, nil
	}}, func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
		ran = append(ran, string(tool.CallFrom(ctx).Arguments))
		inj.Kill()
		return tool.Done(textOut(in)), nil
	}))
	gates := interceptor.Chain{
		interceptor.Approval(&interceptor.ApprovalOptions{Name: "clerk"}), interceptor.Approval(&interceptor.ApprovalOptions{Name: "boss"}),
		interceptor.Approval(&interceptor.ApprovalOptions{Name: "owner"}),
	}
	r := newRig(t, agent.Config{Tools: []tool.Tool{pay}, Interceptors: gates, Model: messages(calls("pay", `{"text":"100"}`), says("Done."))},
		&rigOptions{wrap: func(kv kvstore.Store) kvstore.Store { inj = faultkv.New(kv); return inj.Store }})
	p := r.say("Pay.").finished(event.FinishPaused).pause("pay")
	p = r.answer(runner.ApproveEdited(p.ID, "carl", "", textIn{"50"})).finished(event.FinishPaused).pause("pay")
	p = r.answer(runner.ApproveEdited(p.ID, "bea", "", textIn{"6"})).finished(event.FinishPaused).pause("pay")
	r.answer(runner.Approve(p.ID, "olga", ""))
	r.restart()
	r.carryOn().finished(event.FinishStop)
	const want = `{"text":"6"}`
	if len(ran) != 1 || ran[0] != want || len(asked) != 1 || asked[0] != want {
		t.Errorf("it ran with %s, and was asked about %s", ran, asked)
	}
}

// A tool is declared anew while a call of it waits: where a second entry is harmful now, the call is claimed, and not entered again.
func TestEffectThatWasDeclaredAnew(t *testing.T) {
	var inj *faultkv.Injector
	var attempts []int
	pay := func(effect tool.Effect) []tool.Tool {
		return []tool.Tool{tool.Must(tool.Func(tool.Spec{Name: "pay", Effect: effect}, func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			attempts = append(attempts, tool.CallFrom(ctx).Attempt)
			inj.Kill()
			return tool.Done(textOut(in)), nil
		}))}
	}
	for _, was := range []tool.Effect{tool.ReadOnly, tool.Idempotent} {
		t.Run(string(was), func(t *testing.T) {
			attempts = nil
			gate := interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"pay"}})
			r := newRig(t, agent.Config{Tools: pay(was), Interceptors: interceptor.Chain{gate}, Model: messages(calls("pay", `{"text":"5"}`), says("Done."))},
				&rigOptions{wrap: func(kv kvstore.Store) kvstore.Store { inj = faultkv.New(kv); return inj.Store }})
			p := r.say("Pay.").finished(event.FinishPaused).pause("pay")
			r.config.Tools = pay(tool.Once)
			r.restart()
			r.answer(runner.Approve(p.ID, "bob", ""))
			r.restart()
			res := of[event.Result](r.carryOn().finished(event.FinishStop))
			if len(attempts) != 1 || attempts[0] != 1 || len(res) != 1 || res[0].Status != event.Unknown {
				t.Errorf("it was entered as attempts %v, and settled as %v", attempts, res)
			}
		})
	}
}
