package runner_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A session is deleted while somebody reads it. It is said to be deleted, and not to be damaged.
func TestDeletedWhileItIsRead(t *testing.T) {
	for _, kind := range []string{"m", "p"} {
		t.Run(kind, func(t *testing.T) {
			var n counter
			var reads *beforeReads
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
				Model: messages(calls("deploy", `{"text":"job"}`), says(strings.Repeat("Done. ", 20000))),
			}, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
				reads = &beforeReads{Exclusive: kv.(kvstore.Exclusive)}
				return reads
			}})
			p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
			_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v1")))
			must(t, err)
			r.carryOn().finished(event.FinishStop)
			reads.prefix, reads.do = kvstore.Key(kind, chat), func() { must(t, r.Delete(t.Context(), chat, "ada")) }
			if _, err := r.Show(t.Context(), chat, user); !errors.Is(err, session.ErrDeleted) || errors.Is(err, session.ErrCorrupt) {
				t.Errorf("it is %v", err)
			}
		})
	}
}

// beforeReads is an engine that does something, once, before it reads what begins with prefix.
type beforeReads struct {
	kvstore.Exclusive
	prefix []byte
	do     func()
}

func (b *beforeReads) before(key []byte) {
	if do := b.do; do != nil && bytes.HasPrefix(key, b.prefix) {
		b.do = nil
		do()
	}
}

func (b *beforeReads) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	b.before(key)
	return b.Exclusive.Get(ctx, key)
}

func (b *beforeReads) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	b.before(r.Prefix)
	return b.Exclusive.Scan(ctx, r)
}
