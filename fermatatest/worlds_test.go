package fermatatest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
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
	w.Operator = func(tool.Pause) json.RawMessage { return text("paid") }
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
					case <-time.After(20 * time.Millisecond):
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
