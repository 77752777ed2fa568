package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// all is everything that a store holds.
func all(t *testing.T, kv kvstore.Store) map[string]string {
	t.Helper()
	entries := map[string]string{}
	var r kvstore.Range
	for {
		page, err := kv.Scan(t.Context(), r)
		must(t, err)
		for _, e := range page.Entries {
			entries[string(e.Key)] = string(e.Value)
			r.After = e.Key
		}
		if !page.More {
			return entries
		}
	}
}

// A full disk refuses each operation, and leaves what was there. When there is
// room again, the operation succeeds.
func TestFullDiskChangesNothing(t *testing.T) {
	large := text(strings.Repeat("x", 200<<10))
	operations := map[string]func(context.Context, *runner.Runner, tool.Pause) error{
		"an answer": func(ctx context.Context, rn *runner.Runner, p tool.Pause) error {
			_, err := rn.Resume(ctx, chat, runner.Complete(p.ID, "ci", text("v2")))
			return err
		},
		"a large answer": func(ctx context.Context, rn *runner.Runner, p tool.Pause) error {
			_, err := rn.Resume(ctx, chat, runner.Complete(p.ID, "ci", large))
			return err
		},
		"a failure": func(ctx context.Context, rn *runner.Runner, p tool.Pause) error {
			_, err := rn.Resume(ctx, chat, runner.Fail(p.ID, "ci", "no disk", true))
			return err
		},
		"a cancellation": func(ctx context.Context, rn *runner.Runner, p tool.Pause) error {
			_, err := rn.Cancel(ctx, chat, p.Call, "ada", "too slow")
			return err
		},
		"progress": func(ctx context.Context, rn *runner.Runner, p tool.Pause) error {
			return rn.Progress(ctx, chat, p.Call, user, tool.Progress{Message: "half"})
		},
		"another session's message": func(ctx context.Context, rn *runner.Runner, p tool.Pause) (err error) {
			for _, err = range rn.Run(ctx, user, "chat-2", llm.UserText("Go."),
				&runner.RunOptions{MessageID: "m1"}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	for name, operation := range operations {
		t.Run(name, func(t *testing.T) {
			var n counter
			var disk *faultkv.Injector
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", tool.Idempotent, &n)},
				Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`),
					fakellm.Says("Done.")),
			}, &rigOptions{wrap: func(kv kvstore.Store) kvstore.Store {
				disk = faultkv.New(kv)
				return disk.Store
			}})
			p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
			for room := 0; ; room++ { // commits for which there is room
				before := all(t, r.engine)
				disk.Add(faultkv.FullFrom(disk.Applies() + 1 + room))
				struck := disk.Struck()
				err := operation(t.Context(), r.Runner, p)
				disk.Heal()
				if disk.Struck() == struck {
					must(t, err)
					break
				}
				if !errors.Is(err, faultkv.ErrFull) {
					t.Fatalf("with room for %d commits: %v", room, err)
				}
				if room == 0 && !maps.Equal(before, all(t, r.engine)) {
					t.Error("a refused write has left something")
				}
				for flaw, err := range r.store.Check(t.Context()) {
					t.Errorf("with room for %d commits: %v, %v", room, flaw, err)
				}
			}
			if disk.Struck() == 0 {
				t.Error("the disk was never full")
			}
		})
	}
}

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
		c.Puts = append(c.Puts, kvstore.Put{Key: append([]byte(nil), p.Key...),
			Value: append([]byte{}, p.Value...)})
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
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"a"}`), says("Done."))}, &rigOptions{
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
				// the user's message, the first key of tokens, the model's
				// message, the result, the closed turn with the last message
				writes := 5
				if effect.NeedsClaim() {
					writes++
				}
				for at := 1; at <= writes; at++ {
					t.Run(fmt.Sprintf("shared %v, deaf %v, %s, write %d", shared, deaf, effect, at),
						func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) {
								f(t, hangs(t, shared, deaf, effect, at), at == writes)
							})
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

// A session is deleted while an answer that was given before is judged: between
// its head, which still has the call, and the receipt, which is gone. The sender
// is told of the deletion, and of no conflict with itself.
func TestDeletedWhileAnAnswerIsJudged(t *testing.T) {
	for name, drive := range map[string]bool{"answered": false, "settled": true} {
		for kind := range engineKinds {
			t.Run(name+", "+kind, func(t *testing.T) {
				var n counter
				h := new(hooked)
				wrap := h.exclusive
				if kind == "shared" {
					wrap = h.shared
				}
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
					Model: messages(calls("deploy", `{"text":"job"}`), says("Done.")),
				}, &rigOptions{memory: true, wrap: wrap})
				p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
				answer := runner.Complete(p.ID, "ci", text("v1"))
				_, err := r.Resume(t.Context(), chat, answer)
				must(t, err)
				if drive {
					r.carryOn().finished(event.FinishStop)
				}
				deleted := false
				h.get = func(key []byte) error {
					if !deleted && !bytes.HasPrefix(key, kvstore.Key("h", chat)) &&
						bytes.Contains(key, []byte(p.Call)) {
						deleted = true
						h.get = nil
						must(t, r.Delete(t.Context(), chat, "ada"))
					}
					return nil
				}
				_, err = r.Resume(t.Context(), chat, answer)
				if !deleted || !errors.Is(err, session.ErrDeleted) {
					t.Errorf("deleted %v, it is told %v", deleted, err)
				}
			})
		}
	}
}

// A session is deleted while it is read. The error is that it was deleted, and
// not that it is damaged.
func TestDeletedWhileItIsRead(t *testing.T) {
	for _, kind := range []string{"m", "p"} {
		t.Run(kind, func(t *testing.T) {
			var n counter
			h := new(hooked)
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
				Model: messages(calls("deploy", `{"text":"job"}`),
					says(strings.Repeat("Done. ", 20000))),
			}, &rigOptions{memory: true, wrap: h.exclusive})
			p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
			_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v1")))
			must(t, err)
			r.carryOn().finished(event.FinishStop)
			deletes := func(key []byte) {
				if bytes.HasPrefix(key, kvstore.Key(kind, chat)) {
					h.get, h.scan = nil, nil
					must(t, r.Delete(t.Context(), chat, "ada"))
				}
			}
			h.get = func(key []byte) error { deletes(key); return nil }
			h.scan = func(rg kvstore.Range) { deletes(rg.Prefix) }
			if _, err := r.Show(t.Context(), chat, user); !errors.Is(err, session.ErrDeleted) ||
				errors.Is(err, session.ErrCorrupt) {
				t.Errorf("it is %v", err)
			}
		})
	}
}
