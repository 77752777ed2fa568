package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// ends delivers all that a session owes, twice.
func (p *parent) ends(ids ...string) {
	p.t.Helper()
	for range 2 {
		for _, id := range ids {
			_, err := p.store.Deliver(p.t.Context(), id)
			must(p.t, err)
		}
	}
}

// refresh has the driver see what others have committed.
func (p *parent) refresh() {
	p.t.Helper()
	_, err := p.lease.Refresh(p.t.Context())
	must(p.t, err)
}

// byHand answers the pause that waits for a child.
func byHand(t testing.TB, pause string) session.Transition {
	t.Helper()
	payload := blob(t, `"by hand"`)
	return func(tx *session.Tx) error {
		r, err := tx.Answer(&session.Incoming{Pause: pause, Kind: session.KindComplete, Hash: "h",
			Value: json.RawMessage(`"by hand"`), Payload: payload, Actor: "eve"}, fits)
		return errors.Join(err, r.Err)
	}
}

// A call that was answered by hand, and waits at a layer by then, is not ended
// by the end of the child that it had waited for.
func TestTheEndOfAChildEndsNoOtherWait(t *testing.T) {
	p := newParent(t, kvstore.NewMemory(), "c1")
	p.do(spawns(t, "c1", session.Left{}))
	must(t, p.store.Update(t.Context(), "top", byHand(t, "c1.1")))
	p.refresh()
	p.do(pause("c1", tool.Await{Gate: "check", Arguments: json.RawMessage(`{}`)}))
	p.ends("top", childOf("c1"))
	st := load(t, p.store, "top")
	if c := st.Call("c1"); c.Status != session.Pending || c.Pause.Gate != "check" {
		t.Errorf("the call is %+v", c)
	}
	if child := load(t, p.store, childOf("c1")); child.Halt == nil || len(child.Outbox) > 0 {
		t.Errorf("the child goes on: %+v", child)
	}
	problems(t, p.store)
}

// What a child has used counts for the run that made it, once, also where its
// end comes after the turn. It doesn't count for a later run.
func TestWhatALateChildUsedCounts(t *testing.T) {
	for name, later := range map[string]bool{"same run": false, "later run": true} {
		t.Run(name, func(t *testing.T) {
			p := newParent(t, kvstore.NewMemory(), "c1")
			p.do(spawns(t, "c1", session.Left{}))
			finishes(t, p.store, childOf("c1"), "Too late.")
			must(t, p.store.Update(t.Context(), "top", cancels("c1")))
			p.refresh()
			results := entry(t, llm.Message{Role: llm.RoleTool,
				Parts: []llm.Part{llm.ToolResult{Call: "c1", Output: json.RawMessage(`"no"`)}}})
			p.do(func(tx *session.Tx) error {
				return tx.Close(results, []event.Status{event.Cancelled})
			})
			want := 7
			if later {
				m := entry(t, llm.AssistantText("Well."))
				p.do(func(tx *session.Tx) error {
					return tx.Reply(m, nil, session.Stopped{Finish: event.FinishStop}, 0)
				})
				next := entry(t, llm.UserText("And now?"))
				p.do(func(tx *session.Tx) error { return tx.Say(next, "", "", false) })
				want = 0
			}
			p.ends("top", childOf("c1"))
			if st := load(t, p.store, "top"); st.Run.Usage.Input != want || len(st.Run.Leaving) > 0 {
				t.Errorf("%+v", st.Run)
			}
			problems(t, p.store)
		})
	}
}

// What a child that was deleted had used still counts.
func TestWhatADeletedChildUsedCounts(t *testing.T) {
	p := newParent(t, kvstore.NewMemory(), "c1")
	p.do(spawns(t, "c1", session.Left{}))
	finishes(t, p.store, childOf("c1"), "Done.")
	must(t, p.store.Delete(t.Context(), childOf("c1"), "ada"))
	p.ends(childOf("c1"))
	if st := load(t, p.store, "top"); st.Run.Usage.Input != 7 ||
		st.Call("c1").Settled != event.Cancelled {
		t.Errorf("%+v, %+v", st.Run, st.Call("c1"))
	}
}

// A goroutine that ends in the engine while it tells a session something keeps
// no other from telling it.
func TestAnEndedGoroutineHoldsNoLettersBack(t *testing.T) {
	kv := &quits{Store: kvstore.NewMemory()}
	p := newParent(t, kv, "c1", "c2")
	for _, c := range []string{"c1", "c2"} {
		p.do(spawns(t, c, session.Left{}))
		finishes(t, p.store, childOf(c), c)
	}
	kv.quit = true
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = p.store.Deliver(context.Background(), childOf("c1"))
	}()
	<-gone
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, c := range []string{"c1", "c2"} {
		_, err := p.store.Deliver(ctx, childOf(c))
		must(t, err)
	}
	for _, c := range load(t, p.store, "top").Calls {
		if c.Status != session.Answered {
			t.Errorf("%s is %s", c.ID, c.Status)
		}
	}
}

// quits is an engine that ends the goroutine of its next write.
type quits struct {
	kvstore.Store
	quit bool
}

func (q *quits) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if q.quit {
		q.quit = false
		runtime.Goexit()
	}
	return q.Store.Apply(ctx, b)
}

// A child whose run was cancelled may be carried on before its parent is told.
// Its parent is told all the same, and the process goes on.
func TestTheEndOfAChildThatIsCarriedOn(t *testing.T) {
	p := newParent(t, kvstore.NewMemory(), "c1")
	p.do(spawns(t, "c1", session.Left{}))
	must(t, p.store.Update(t.Context(), childOf("c1"), func(tx *session.Tx) error {
		tx.CancelChild("bob", "enough")
		return nil
	}))
	d, err := p.store.Acquire(t.Context(), childOf("c1"), nil)
	must(t, err)
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		tx.Lift(tx.Halt)
		return nil
	}))
	d.Release()
	_, err = p.store.Deliver(t.Context(), childOf("c1"))
	must(t, err)
	if c := load(t, p.store, "top").Call("c1"); c.Status != session.Settled ||
		c.Settled != event.Cancelled {
		t.Errorf("the call is %+v", c)
	}
}
