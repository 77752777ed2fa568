package runner_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// hung is a rig over a store that stops to answer at its n-th write, whether or
// not it obeys contexts.
type hung struct {
	*rig
	n     counter
	disk  *faultkv.Injector
	ended chan time.Time // a run
}

// soon is how long a run whose caller has left may take over a store that
// hangs: what the loop waits for it, and what the store has for a last word.
const soon = 110 * time.Millisecond

// eachHang runs f for each write of a run at which the store may hang.
func eachHang(t *testing.T, f func(t *testing.T, h *hung, last bool)) {
	for _, shared := range []bool{false, true} {
		for _, deaf := range []bool{false, true} {
			for _, effect := range []tool.Effect{tool.Once, tool.ReadOnly} {
				writes := 5 // the user's message, the first key of tokens, the model's message, the result, the closed turn with the last message
				if effect.NeedsClaim() {
					writes++
				}
				for at := 1; at <= writes; at++ {
					t.Run(fmt.Sprintf("shared %v, deaf %v, %s, write %d", shared, deaf, effect, at), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { f(t, hangs(t, shared, deaf, effect, at), at == writes) })
					})
				}
			}
		}
	}
}

func hangs(t *testing.T, shared, deaf bool, effect tool.Effect, at int) *hung {
	h := &hung{ended: make(chan time.Time, 1)}
	h.rig = newRig(t, agent.Config{
		Tools: []tool.Tool{instant("act", effect, &h.n)},
		Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`), fakellm.Says("Done.")),
	}, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
		if shared {
			kv = hidden(kv)
		}
		h.disk = faultkv.New(kv)
		return h.disk.Store
	}, runner: &runner.Options{Logger: slog.New(slog.DiscardHandler), CloseTimeout: time.Second}})
	h.disk.Before(func(c faultkv.Call) {
		if c.Number == at {
			h.disk.Stall(deaf)
		}
	})
	return h
}

// run runs a message until the store has hung for a second.
func (h *hung) run(ctx context.Context) {
	go func() {
		for range h.Run(ctx, user, chat, llm.UserText("Go."), nil) {
		}
		h.ended <- time.Now()
	}()
	time.Sleep(time.Second)
	synctest.Wait()
}

// TestRunIsBackThoughTheStoreHangs: the caller leaves while the store hangs,
// and is back at once. When the store answers again, while the lease lasts,
// what was under way is stored, and nothing that was come back with is lost.
func TestRunIsBackThoughTheStoreHangs(t *testing.T) {
	eachHang(t, func(t *testing.T, h *hung, last bool) {
		ctx, cancel := context.WithCancel(t.Context())
		h.run(ctx)
		left := time.Now()
		cancel()
		if took := (<-h.ended).Sub(left); took > soon {
			t.Errorf("Run was back after %v", took)
		}
		time.Sleep(time.Second)
		h.disk.Before(nil)
		h.disk.Heal()
		time.Sleep(time.Second)
		synctest.Wait()
		want := event.FinishInterrupted
		if last {
			want = event.FinishStop
		}
		if got := h.transcript().Finish; got != want {
			t.Errorf("the session stands as %q, not as %q", got, want)
		}
		entered := h.n.get("act")
		h.carryOn().finished(event.FinishStop)
		if got := h.n.get("act"); got != 1 {
			t.Errorf("the body was entered %d times, %d of them before", got, entered)
		}
		h.acceptable()
	})
}

// TestCloseThoughTheStoreHangs: Close is back when its time is over, and leaves
// no goroutine but those inside the store's calls.
func TestCloseThoughTheStoreHangs(t *testing.T) {
	eachHang(t, func(t *testing.T, h *hung, _ bool) {
		h.run(context.Background())
		begun := time.Now()
		if h.Close() == nil {
			t.Error("Close says that all has ended")
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		if took := (<-h.ended).Sub(begun); took > soon {
			t.Errorf("Run was back after %v", took)
		}
		h.disk.Before(nil)
		h.disk.Heal()
		synctest.Wait() // else the bubble ends with goroutines that wait for ever
	})
}
