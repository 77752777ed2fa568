package workflow_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/workflow"
)

// counting counts the commits of an engine. What conflicts with another one is
// none.
type counting struct {
	*kvstore.Memory
	n atomic.Int64
}

func (c *counting) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	r, err := c.Memory.Apply(ctx, b)
	if err == nil {
		c.n.Add(1)
	}
	return r, err
}

// A step costs as many commits in a long workflow as in a short one.
func TestWhatAStepCosts(t *testing.T) {
	of := func(steps int) int64 {
		b := workflow.New("chain")
		for i := range steps {
			var o workflow.StepOptions
			if i > 0 {
				o.After = []string{fmt.Sprint("s", i-1)}
			}
			b.Step(fmt.Sprint("s", i), tools.echo, args{"text": "x"}, &o)
		}
		w := build(t, b)
		engine := &counting{Memory: kvstore.NewMemory()}
		r := &rig{t: t, engine: engine}
		r.open(w.Agent())
		if got := r.begin(w, nil); got.end.Finish != event.FinishStop {
			t.Fatalf("%+v, %v", got.end, got.err)
		}
		r.sound()
		return engine.n.Load()
	}
	one, few, many := of(1), of(6), of(26)
	t.Logf("commits of 1, 6 and 26 steps: %d, %d, %d", one, few, many)
	const most = 10 // beside six and a half, what two that commit at once share or not
	if few-one > 5*most || many-few > 20*most {
		t.Errorf("a step costs more than %d commits", most)
	}
}
