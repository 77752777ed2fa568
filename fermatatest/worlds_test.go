package fermatatest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// ledger is an outside system that keeps the effects of calls, by idempotency
// key.
type ledger struct {
	mu   sync.Mutex
	done map[string]int
}

func (l *ledger) do(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = map[string]int{}
	}
	l.done[key]++
}

func (l *ledger) has(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[key] > 0
}

// atMostOnce returns an error if any effect came twice.
func (l *ledger) atMostOnce() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, n := range l.done {
		if n > 1 {
			return fmt.Errorf("the ledger has %s %d times", key, n)
		}
	}
	return nil
}

var paid = fakellm.New(fakellm.Calls("pay", `{"text":"ada"}`), fakellm.Says("Done."),
	fakellm.Says("Welcome."))

// reconciled returns a world in which a tool looks into the ledger to find out
// what became of a lost call.
func reconciled() fermatatest.World {
	var l ledger
	pay := fn(tool.Spec{Name: "pay",
		Reconcile: func(_ context.Context, c tool.Call) (tool.Execution, error) {
			if l.has(c.IdempotencyKey()) {
				return tool.Execution{Output: text("paid")}, nil
			}
			return tool.Execution{Output: text("not paid")}, nil
		}}, func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
		l.do(tool.CallFrom(ctx).IdempotencyKey())
		return tool.Done(textOut{"paid"}), nil
	})
	w := world(agent.Config{Tools: []tool.Tool{pay}, Model: paid})()
	w.Check = l.atMostOnce
	return w
}

// operated returns a world in which a person is asked instead.
func operated() fermatatest.World {
	var l ledger
	pay := fn(tool.Spec{Name: "pay", AskOperator: true},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			l.do(tool.CallFrom(ctx).IdempotencyKey())
			return tool.Done(textOut{"paid"}), nil
		})
	w := world(agent.Config{Tools: []tool.Tool{pay}, Model: paid})()
	w.Check = l.atMostOnce
	w.Operator = func(tool.Pause) runner.Resumption {
		return runner.Complete("", "operator", text("paid"))
	}
	return w
}

// exactly returns an error unless those effects came, once each.
func (l *ledger) exactly(n int) error {
	if len(l.done) != n {
		return fmt.Errorf("the ledger has %v, and not %d effects", l.done, n)
	}
	return l.atMostOnce()
}

// honest returns an operator who looks into the ledger for an effect of the
// call that was lost: what didn't happen runs again.
func honest(l *ledger, suffix func(tool.Pause) string) func(tool.Pause) runner.Resumption {
	return func(p tool.Pause) runner.Resumption {
		if l.has(p.Call + suffix(p)) {
			return runner.Complete("", "operator", text("paid"))
		}
		return runner.RunAgain("", "operator", "the ledger doesn't have it")
	}
}

// rerun returns a world in which a person approves a payment, and an operator
// knows whether a lost one came about. So it comes about exactly once.
func rerun() fermatatest.World {
	var l ledger
	pay := fn(tool.Spec{Name: "pay", AskOperator: true},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			l.do(tool.CallFrom(ctx).IdempotencyKey())
			return tool.Done(textOut{"paid"}), nil
		})
	w := world(agent.Config{Tools: []tool.Tool{pay}, Model: paid,
		Interceptors: interceptor.Chain{interceptor.Approval(nil)}})()
	w.Check = func() error { return l.exactly(1) }
	w.Operator = honest(&l, func(tool.Pause) string { return ".0" })
	return w
}

// reentered returns a world in which the payment is made in the entry that an
// answer leads to. That entry brings the answer each time.
func reentered() fermatatest.World {
	var l ledger
	var lost error
	which := tool.NewQuestion[textOut, int, textIn]("which")
	pay := tool.Must(tool.Resumable(
		tool.Spec{Name: "pay", Description: "Pays.", AskOperator: true},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			return which.Ask("When?", 7), nil
		},
		tool.On(which, func(ctx context.Context, _ textIn,
			re tool.Reply[int, textIn]) (tool.Result[textOut], error) {
			if re.Answer.Text != "now" || re.State != 7 {
				lost = fmt.Errorf("an entry brings %+v", re)
			}
			l.do(tool.CallFrom(ctx).IdempotencyKey())
			return tool.Done(textOut{"paid"}), nil
		})))
	w := world(agent.Config{Tools: []tool.Tool{pay}, Model: paid})()
	w.Check = func() error { return errors.Join(lost, l.atMostOnce()) }
	w.Operator = honest(&l, func(p tool.Pause) string { return fmt.Sprintf(".%d", p.Number-1) })
	return w
}

// fatal returns a world in which one tool ends the run while another one runs.
func fatal(e tool.Effect) func() fermatatest.World {
	return func() fermatatest.World {
		return fermatatest.World{Agent: func() agent.Config {
			runs, over := make(chan struct{}, 100), make(chan struct{}, 100)
			run := fn(tool.Spec{Name: "run", Effect: e},
				func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
					runs <- struct{}{}
					select {
					case <-over:
					case <-ctx.Done():
					}
					return nil, errors.New("it was ended")
				})
			fail := fn(tool.Spec{Name: "fail", Effect: tool.Idempotent},
				func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
					select {
					case <-runs:
					case <-ctx.Done(): // the store failed the other's claim, say
						over <- struct{}{}
						return nil, ctx.Err()
					case <-time.After(2 * time.Second): // a busy machine may be slow
						// The other was lost in a crash, and is never entered.
					}
					return nil, tool.Fatal(errors.New("the disk is on fire"))
				})
			return agent.Config{
				Name:  "ops",
				Tools: []tool.Tool{run, fail},
				Model: fakellm.New(fakellm.Calls("run", `{"text":"a"}`).And("fail", `{"text":"b"}`),
					fakellm.Says("Sorry."),
					fakellm.Says("Bye.")),
			}
		}}
	}
}

// site is an outside system that builds, and can be told to stop.
type site struct {
	mu      sync.Mutex
	begun   map[string]bool // by the key of the entry
	stopped map[string]int  // by that key: how often it was told to
	tries   map[string]int  // by call and try
}

func (s *site) build(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[key] = true
}

// stop fails at the first try of each call.
func (s *site) stop(_ context.Context, c tool.Cancelled) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[fmt.Sprint(c.Call.ID, " ", c.Try)]++
	if c.Key != "job" || string(c.Call.Arguments) != `{"text":"a"}` {
		s.tries[fmt.Sprintf("%+v", c)] = 2
	}
	if c.Try == 1 {
		return errors.New("no answer")
	}
	s.stopped[c.Call.IdempotencyKey()]++
	return nil
}

// check returns what is wrong: what was begun is stopped, or nothing is. No try
// is made twice.
func (s *site) check(stops bool) error {
	for try, n := range s.tries {
		if n > 1 {
			return fmt.Errorf("try %s was made %d times", try, n)
		}
	}
	for key := range s.begun {
		if stopped := s.stopped[key] > 0; stopped != stops {
			return fmt.Errorf("the job %s was stopped: %v", key, stopped)
		}
	}
	if len(s.begun) == 0 {
		return errors.New("no job was begun")
	}
	return nil
}

// building returns a world in which a job waits, and is called off if the call
// ends otherwise than by its answer.
func building(stops bool) func() fermatatest.World {
	return func() fermatatest.World {
		s := &site{begun: map[string]bool{}, stopped: map[string]int{}, tries: map[string]int{}}
		build := fn(tool.Spec{Name: "build", Effect: tool.Idempotent, MayPause: true,
			Cancel: tool.Cancel{Do: s.stop}},
			func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
				s.build(tool.CallFrom(ctx).IdempotencyKey())
				return tool.Pending[textOut](tool.Await{Reason: tool.ReasonInput, Key: "job",
					Mode: tool.ModeOutput, Timeout: time.Hour}), nil
			})
		w := world(agent.Config{Tools: []tool.Tool{build},
			Model: fakellm.New(fakellm.Calls("build", `{"text":"a"}`), fakellm.Says("Done."),
				fakellm.Says("Welcome."))})()
		w.Check = func() error { return s.check(stops) }
		return w
	}
}

var calledOff, notCalledOff = building(true), building(false)
