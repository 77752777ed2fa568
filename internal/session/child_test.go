package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// parent is a session whose calls wait for children.
type parent struct {
	t     testing.TB
	store *session.Store
	lease *session.Lease
}

func newParent(t testing.TB, kv kvstore.Store, calls ...string) *parent {
	t.Helper()
	return newParentOn(t, session.NewStore(kv, nil), calls...)
}

func newParentOn(t testing.TB, s *session.Store, calls ...string) *parent {
	t.Helper()
	p := &parent{t: t, store: s}
	var err error
	p.lease, err = p.store.Acquire(t.Context(), "top", &session.New{User: "ada", Agent: "lead"})
	must(t, err)
	t.Cleanup(p.lease.Release)
	m := llm.Message{Role: llm.RoleAssistant}
	var open []session.Call
	for _, id := range calls {
		m.Parts = append(m.Parts, llm.ToolCall{ID: id, Name: "ask", Arguments: json.RawMessage(`{}`)})
		open = append(open, session.Call{ID: id, Tool: "ask", Status: session.Requested,
			Effect: tool.ReadOnly, MayPause: true})
	}
	p.do(func(tx *session.Tx) error { return tx.Say(entry(t, llm.UserText("Go.")), "", "", false) })
	p.do(func(tx *session.Tx) error { return tx.Reply(entry(t, m), open, session.Stopped{}, 0) })
	return p
}

func (p *parent) do(ts ...session.Transition) {
	p.t.Helper()
	must(p.t, p.lease.Update(p.t.Context(), ts...))
}

// spawns is the transition by which a call waits for a child.
func spawns(t testing.TB, call string, limits session.Left) session.Transition {
	t.Helper()
	await, err := tool.Await{Reason: tool.ReasonAgent}.Normalize()
	must(t, err)
	n := &session.NewChild{Agent: "helper", Message: entry(t, llm.UserText("Do it.")), Limits: limits}
	return func(tx *session.Tx) error { return tx.Pause(call, &session.Hold{Await: await, Child: n}) }
}

func childOf(call string) string { return session.ChildID(session.PauseID(call, 1)) }

// says ends a child's run with a message of its model.
func finishes(t testing.TB, s *session.Store, child, text string) {
	t.Helper()
	d, err := s.Acquire(t.Context(), child, nil)
	must(t, err)
	defer d.Release()
	m := entry(t, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text{Text: text}}})
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Reply(m, nil, session.Stopped{Finish: event.FinishStop,
			Usage: llm.Usage{Input: 7}}, 0)
	}))
}

func load(t testing.TB, s *session.Store, id string) *session.State {
	t.Helper()
	st, err := s.Load(t.Context(), id)
	must(t, err)
	return st
}

// A child is made in the commit of its call's pause: a session of its own, with
// what it is told, that stands among what is due. Its end is the call's answer,
// once, however often it is delivered.
func TestAChildIsMadeWithItsPauseAndAnswersIt(t *testing.T) {
	p := newParent(t, kvstore.NewMemory(), "c1", "c2")
	p.do(spawns(t, "c1", session.Left{Turns: 10, Tokens: 100}))
	st := load(t, p.store, childOf("c1"))
	if st.Root() != "top" || st.User != "ada" || st.Agent != "helper" || !st.Due ||
		st.Version != 3 || st.Parent.Left != (session.Left{Turns: 9, Tokens: 100}) {
		t.Errorf("%+v, %+v", st, st.Parent)
	}
	due, _, _, err := p.store.Due(t.Context(), "helper", nil)
	if must(t, err); len(due) != 1 || due[0].Session != st.ID {
		t.Errorf("due are %v", due)
	}
	history, err := p.store.History(t.Context(), st, 0)
	if must(t, err); len(history) != 1 || history[0].Text() != "Do it." {
		t.Errorf("the child is told %v", history)
	}
	finishes(t, p.store, st.ID, "Done it.")
	for range 2 {
		_, err = p.store.Deliver(t.Context(), st.ID)
		must(t, err)
	}
	if got := load(t, p.store, st.ID); len(got.Outbox) != 0 || !got.Wake.IsZero() {
		t.Errorf("the child still has %v, and is due at %v", got.Outbox, got.Wake)
	}
	now := load(t, p.store, "top")
	c := now.Call("c1")
	if c.Status != session.Answered || string(c.Answer.Payload.JSON()) != `"Done it."` ||
		c.Answer.Actor != "agent:helper" || now.Run.Usage.Input != 7 || now.Run.Turns != 2 {
		t.Errorf("%+v, %+v", c, now.Run)
	}
	if _, err := p.store.Acquire(t.Context(), st.ID, &session.New{User: "ada"}); !errors.Is(err,
		session.ErrChild) {
		t.Errorf("a child is run, with %v", err)
	}
	problems(t, p.store)
}

func problems(t testing.TB, s *session.Store) {
	t.Helper()
	for p, err := range s.Check(t.Context()) {
		t.Error(p, err)
	}
}

// Whatever ends a call that waits for a child, the child is told to end, and
// what it has used still counts.
func TestAChildEndsWithItsCall(t *testing.T) {
	p := newParent(t, kvstore.NewMemory(), "c1")
	p.do(spawns(t, "c1", session.Left{}))
	child := childOf("c1")
	must(t, p.store.Update(t.Context(), "top", cancels("c1")))
	_, err := p.store.Deliver(t.Context(), "top")
	must(t, err)
	st := load(t, p.store, child)
	if st.Halt == nil || st.Halt.Finish != event.FinishCancelled || st.Halt.Actor != "ada" {
		t.Fatalf("the child goes on: %+v", st.Halt)
	}
	if now := load(t, p.store, "top"); len(now.Outbox) != 0 || len(now.Run.Leaving) != 1 {
		t.Errorf("%+v", now)
	}
	_, err = p.store.Deliver(t.Context(), child)
	must(t, err)
	if now := load(t, p.store, "top"); len(now.Run.Leaving) != 0 {
		t.Errorf("its end has not come")
	}
	problems(t, p.store)
}

// A deleted session stays due until its children are deleted, and theirs.
func TestADeletedSessionTakesItsChildrenAlong(t *testing.T) {
	p := newParent(t, kvstore.NewMemory(), "c1", "c2")
	p.do(spawns(t, "c1", session.Left{}))
	p.do(spawns(t, "c2", session.Left{}))
	finishes(t, p.store, childOf("c2"), "Over.")
	must(t, p.store.Delete(t.Context(), "top", ""))
	if st := load(t, p.store, "top"); len(st.Outbox) != 1 || st.Wake.IsZero() {
		t.Fatalf("the tombstone owes %v, and is due at %v", st.Outbox, st.Wake)
	}
	_, err := p.store.Deliver(t.Context(), "top")
	must(t, err)
	for _, call := range []string{"c1", "c2"} {
		if st := load(t, p.store, childOf(call)); st.Deleted.IsZero() || len(st.Outbox) > 0 {
			t.Errorf("%s is left behind: %+v", st.ID, st)
		}
	}
	if st := load(t, p.store, "top"); len(st.Outbox) != 0 || !st.Wake.IsZero() {
		t.Errorf("the tombstone owes %v", st.Outbox)
	}
	problems(t, p.store)
}

// Children that end at once are told together, in far fewer commits than there
// are children.
func TestEndsAtOnceShareCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		for i := range 60 {
			calls = append(calls, fmt.Sprint("c", i))
		}
		kv := &slowly{Store: kvstore.NewMemory()}
		p := newParent(t, kv, calls...)
		for _, c := range calls {
			p.do(spawns(t, c, session.Left{}))
			finishes(t, p.store, childOf(c), c)
		}
		p.lease.Release()
		kv.takes = time.Second
		before := load(t, p.store, "top").Commits
		var all sync.WaitGroup
		for _, c := range calls {
			all.Go(func() {
				if _, err := p.store.Deliver(t.Context(), childOf(c)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		st := load(t, p.store, "top")
		for _, c := range st.Calls {
			if c.Status != session.Answered {
				t.Errorf("%s is %s", c.ID, c.Status)
			}
		}
		// All of these are kept: one for the first, and then twelve at a time.
		if n := bytes.Index(st.Commits, before[len(before)-8:]); n < 0 || len(st.Commits)-n-8 > 6*8 {
			t.Errorf("60 ends took %d bytes of commits", len(st.Commits)-n-8)
		}
	})
}

// slowly is an engine whose commits take their time.
type slowly struct {
	kvstore.Store
	takes time.Duration
}

func (s *slowly) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	time.Sleep(s.takes)
	return s.Store.Apply(ctx, b)
}

// A child gets what its parent has left, and none is made for which nothing is
// left, nor below too many others.
func TestAChildGetsWhatIsLeft(t *testing.T) {
	p := newParent(t, kvstore.NewMemory(), "c1")
	err := p.lease.Update(t.Context(), spawns(t, "c1", session.Left{Turns: 1}))
	if !errors.Is(err, session.ErrUsedUp) {
		t.Errorf("a child is made of nothing, with %v", err)
	}
	_, err = p.store.Load(t.Context(), childOf("c1"))
	if !errors.Is(err, session.ErrUnknownSession) {
		t.Errorf("it is there, with %v", err)
	}
	_, err = p.store.Acquire(t.Context(), "child:x", &session.New{User: "ada"})
	if !errors.Is(err, session.ErrInvalidID) {
		t.Errorf("a caller takes a child's id, with %v", err)
	}
}

// A child takes the place of no session: one that is written while its parent
// thinks stays as it is.
func TestAChildTakesNoOthersPlace(t *testing.T) {
	kv := &intruder{Store: kvstore.NewMemory()}
	p := newParent(t, kv, "c1")
	kv.key = kvstore.Key("h", childOf("c1"))
	err := p.lease.Update(t.Context(), spawns(t, "c1", session.Left{}))
	if !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("the child is made, with %v", err)
	}
	if e, err := kv.Get(t.Context(), kv.key); err != nil || string(e.Value) != "other" {
		t.Errorf("the other session is %q, %v", e.Value, err)
	}
}

// intruder writes a key right before the first batch that does.
type intruder struct {
	kvstore.Store
	key  []byte
	done bool
}

func (i *intruder) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	for _, put := range b.Puts {
		if !i.done && bytes.Equal(put.Key, i.key) {
			i.done = true
			other := kvstore.Put{Key: i.key, Value: []byte("other")}
			if _, err := i.Store.Apply(ctx, kvstore.Batch{Puts: []kvstore.Put{other}}); err != nil {
				return 0, err
			}
		}
	}
	return i.Store.Apply(ctx, b)
}
