package runner_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// belated is an engine that, once told so, loses sight of a batch: it isn't
// applied by the time that its caller is told that nothing is certain, but
// right before the next one.
type belated struct {
	kvstore.Store

	mu   sync.Mutex
	next bool
	kept *kvstore.Batch
}

func (b *belated) Apply(ctx context.Context, batch kvstore.Batch) (kvstore.Revision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next {
		b.next, b.kept = false, copied(batch)
		return 0, kvstore.ErrUncertain
	}
	if b.kept != nil {
		if _, err := b.Store.Apply(ctx, *b.kept); err != nil {
			return 0, err
		}
		b.kept = nil
	}
	return b.Store.Apply(ctx, batch)
}

// copied is a batch of its own: what goes into Apply is the caller's again when
// that returns.
func copied(b kvstore.Batch) *kvstore.Batch {
	var c kvstore.Batch
	c.Preconditions = append(c.Preconditions, b.Preconditions...)
	for _, p := range b.Puts {
		c.Puts = append(c.Puts, kvstore.Put{Key: append([]byte(nil), p.Key...), Value: append([]byte{}, p.Value...)})
	}
	for _, k := range b.Deletes {
		c.Deletes = append(c.Deletes, append([]byte(nil), k...))
	}
	return &c
}

// A commit that is applied only after it was tried again is the one that its
// caller is told of: the receipt that Resume returns is the one that is stored.
func TestReceiptOfABelatedCommitIsTheStoredOne(t *testing.T) {
	var n counter
	engine := &belated{}
	var mu sync.Mutex
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { // each look at it is later than the last
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Millisecond)
		return now
	}
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)}, Model: messages(calls("job", `{"text":"a"}`), says("Done."))}, &rigOptions{
		memory: true, session: &session.Options{Now: clock},
		wrap: func(kv kvstore.Store) kvstore.Store { engine.Store = kv; return engine },
	})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	engine.mu.Lock()
	engine.next = true
	engine.mu.Unlock()
	first, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "eve", text("x")))
	must(t, err)
	again, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "eve", text("x")))
	must(t, err)
	if engine.next || engine.kept != nil {
		t.Fatal("no commit was belated")
	}
	if a, b := first.Receipts[0], again.Receipts[0]; !a.At.Equal(b.At) || !b.Duplicate {
		t.Errorf("Resume returned %+v, and stored is %+v", a, b)
	}
}
