package fermatatest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/retry"
)

// unsteady returns a world in which a tool fails its first two tries of each
// entry. The second of them had reached the outside all the same, and so does
// the third, under the same key: one effect for each entry.
func unsteady(e tool.Effect) fermatatest.World {
	var l ledger
	pay := tool.Must(retry.Tool(fn(tool.Spec{Name: "pay", Effect: e, MayPause: true},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			call := tool.CallFrom(ctx)
			if call.Tried.Count > 0 {
				l.once(call.IdempotencyKey())
			}
			switch {
			case call.Tried.Count < 2:
				return nil, retry.Transient(errors.New("the bank is closed"))
			case call.Answer == nil:
				return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter}), nil
			}
			return tool.Done(textOut{in.Text + " is paid"}), nil
		}), &retry.Policy{Initial: time.Minute, Jitter: -1}))
	w := world(agent.Config{Tools: []tool.Tool{pay},
		Model: fakellm.New(fakellm.Calls("pay", `{"text":"ada"}`), fakellm.Says("Done."))})()
	w.Check = func() error {
		if n := len(l.done); n > 2 {
			return fmt.Errorf("%d effects came of two entries: %v", n, l.done)
		}
		return nil
	}
	return w
}

// once keeps an effect, however often it comes under its key.
func (l *ledger) once(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = map[string]int{}
	}
	l.done[key] = 1
}

// A call between two tries is killed at every write. The tries are made at their
// times, each as often as its effect allows, and under the key of their entry.
func TestKilledBetweenTries(t *testing.T) {
	t.Parallel()
	killed(t, .1, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Memory(),
			fermatatest.Shared(fermatatest.Memory())},
	}, tries()...)
}

func tries() (all []fermatatest.Scenario) {
	for name, e := range map[string]tool.Effect{"once": tool.Once, "idempotent": tool.Idempotent} {
		all = append(all, fermatatest.Scenario{
			Name:  "tried again, " + name,
			World: func() fermatatest.World { return unsteady(e) },
			Inputs: []fermatatest.Input{hello, fermatatest.Pass(2 * time.Minute),
				fermatatest.Pass(4 * time.Minute),
				fermatatest.Answer("pay", runner.Complete("", "bank", text("now"))).OfPause(3),
				fermatatest.Pass(2 * time.Minute), fermatatest.Pass(4 * time.Minute)},
		})
	}
	return all
}
