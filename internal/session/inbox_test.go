package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// counted is an engine that counts its reads, and the entries that they return.
type counted struct {
	kvstore.Store
	reads int
}

func (c *counted) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	c.reads++
	return c.Store.Get(ctx, key)
}

func (c *counted) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	page, err := c.Store.Scan(ctx, r)
	c.reads += 1 + len(page.Entries)
	return page, err
}

// lasting returns a store over an engine that counts its reads. Its clock goes
// on by a second with each look, so that no two pauses are of one time.
func lasting() (*counted, *session.Store) {
	kv := &counted{Store: kvstore.NewMemory()}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return kv, session.NewStore(kv, &session.Options{Now: func() time.Time {
		at = at.Add(time.Second)
		return at
	}})
}

// waits makes a session whose calls wait for these, in this order.
func waits(t *testing.T, s *session.Store, id string, awaits ...tool.Await) {
	t.Helper()
	d, err := s.Acquire(t.Context(), id, &session.New{User: "ada"})
	must(t, err)
	defer d.Release()
	m := llm.Message{Role: llm.RoleAssistant}
	var calls []session.Call
	for i := range awaits {
		call := fmt.Sprintf("%s-%02d", id, i)
		m.Parts = append(m.Parts, llm.ToolCall{ID: call, Name: "job",
			Arguments: json.RawMessage(`{}`)})
		calls = append(calls, session.Call{ID: call, Tool: "job", Status: session.Requested,
			MayPause: true, Effect: tool.Idempotent})
	}
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		if err := tx.Say(entry(t, llm.UserText("Go.")), "", "", false); err != nil {
			return err
		}
		return tx.Reply(entry(t, m), calls, session.Stopped{}, 0)
	}))
	for i, a := range awaits {
		must(t, d.Update(t.Context(), pause(calls[i].ID, a)))
	}
}

// every reason, and whether an inbox of people has it.
var (
	approves = tool.Await{Gate: "approval", Arguments: json.RawMessage(`{}`)}
	asks     = tool.Await{Reason: tool.ReasonInput}
	unknown  = tool.Await{Reason: tool.ReasonUnknown}
	external = tool.Await{Reason: tool.ReasonExternal}
	sleeps   = tool.Await{Reason: tool.ReasonTimer, Timeout: 24 * time.Hour}
	nested   = tool.Await{Reason: tool.ReasonAgent}
)

func inbox(t *testing.T, s *session.Store, f session.PauseFilter) (ids []string) {
	t.Helper()
	for p, err := range s.Inbox(t.Context(), f) {
		must(t, err)
		ids = append(ids, p.ID)
	}
	return ids
}

// kinds are the kinds of the entries that list open pauses, with how many there
// are.
func kinds(t *testing.T, kv kvstore.Store) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, kind := range []string{"i", "a"} {
		page, err := kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key(kind)})
		must(t, err)
		n[kind] = len(page.Entries)
	}
	return n
}

func wellIndexed(t *testing.T, s *session.Store) {
	t.Helper()
	for p, err := range s.Check(t.Context()) {
		must(t, err)
		t.Error(p)
	}
}

// An inbox has all open pauses in the order of their time, or those that a
// person or an operator answers.
func TestInboxesByWhoAnswers(t *testing.T) {
	kv, s := lasting()
	waits(t, s, "b", external, approves, sleeps, asks)
	waits(t, s, "a", unknown, nested)
	for _, c := range []struct {
		f    session.PauseFilter
		want []string
	}{
		{session.PauseFilter{}, []string{"b-00.1", "b-01.1", "b-02.1", "b-03.1", "a-00.1", "a-01.1"}},
		{session.PauseFilter{People: true}, []string{"b-01.1", "b-03.1", "a-00.1"}},
		{session.PauseFilter{Reason: tool.ReasonTimer}, []string{"b-02.1"}},
		{session.PauseFilter{Reason: tool.ReasonUnknown}, []string{"a-00.1"}},
		{session.PauseFilter{Reason: tool.ReasonTimer, People: true}, nil},
		{session.PauseFilter{Session: "a"}, []string{"a-00.1", "a-01.1"}},
		{session.PauseFilter{Limit: 3}, []string{"b-00.1", "b-01.1", "b-02.1"}},
		{session.PauseFilter{People: true, Limit: 2}, []string{"b-01.1", "b-03.1"}},
	} {
		if d := cmp.Diff(c.want, inbox(t, s, c.f)); d != "" {
			t.Errorf("%+v (-want +got):\n%s", c.f, d)
		}
	}
	if got := kinds(t, kv); got["i"] != 3 || got["a"] != 3 {
		t.Errorf("the entries are %v", got)
	}
	wellIndexed(t, s)
}

// What machines wait for costs an inbox of people nothing.
func TestInboxesDontReadMachineWaits(t *testing.T) {
	kv, s := lasting()
	waits(t, s, "first", approves)
	listed := func(f session.PauseFilter) int {
		kv.reads = 0
		if got := inbox(t, s, f); !slices.Equal(got, []string{"first-00.1"}) {
			t.Errorf("%+v lists %v", f, got)
		}
		return kv.reads
	}
	filters := []session.PauseFilter{{People: true}, {Reason: tool.ReasonApproval}}
	var alone []int
	for _, f := range filters {
		alone = append(alone, listed(f))
	}
	for i := range 10 {
		waits(t, s, fmt.Sprint("many-", i), slices.Repeat([]tool.Await{external}, 60)...)
	}
	for i, f := range filters {
		if got := listed(f); got != alone[i] {
			t.Errorf("%+v takes %d reads, and %d without the waits of machines", f, got, alone[i])
		}
	}
	if got := inbox(t, s, session.PauseFilter{}); len(got) != 601 {
		t.Errorf("%d pauses are open", len(got))
	}
}

// older makes of the session's head, and of the index, what an older version
// has: it lists all in the inbox.
func older(t *testing.T, kv kvstore.Store, id string) {
	t.Helper()
	e, err := kv.Get(t.Context(), kvstore.Key("h", id))
	must(t, err)
	head := strings.ReplaceAll(string(e.Value), `,"machine":true`, "")
	if head == string(e.Value) {
		t.Fatalf("nothing waits for a machine in %s", head)
	}
	b := kvstore.Batch{Puts: []kvstore.Put{{Key: e.Key, Value: []byte(head)}}}
	page, err := kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key("a")})
	must(t, err)
	for _, e := range page.Entries {
		parts, err := kvstore.Parts(e.Key)
		must(t, err)
		b.Puts = append(b.Puts, kvstore.Put{Key: kvstore.Key("i", parts[1], parts[2]), Value: e.Value})
		b.Deletes = append(b.Deletes, e.Key)
	}
	_, err = kv.Apply(t.Context(), b)
	must(t, err)
}

// What an older version has put into the inbox is listed rightly, and goes with
// its pause.
func TestInboxesOfOlderVersions(t *testing.T) {
	kv, s := lasting()
	waits(t, s, "b", external, approves, sleeps)
	older(t, kv, "b")
	waits(t, s, "a", external)
	want := []string{"b-00.1", "b-01.1", "b-02.1", "a-00.1"}
	if d := cmp.Diff(want, inbox(t, s, session.PauseFilter{})); d != "" {
		t.Errorf("all (-want +got):\n%s", d)
	}
	people := session.PauseFilter{People: true}
	if got := inbox(t, s, people); !slices.Equal(got, want[1:2]) {
		t.Errorf("for people there are %v", got)
	}
	wellIndexed(t, s)
	if swept, err := s.Sweep(t.Context(), nil); err != nil || swept.Entries != 0 {
		t.Errorf("a sweep removes %+v, %v", swept, err)
	}
	for _, call := range []string{"b-00", "b-02", "a-00"} {
		must(t, s.Update(t.Context(), call[:1], func(tx *session.Tx) error {
			_, err := tx.Cancel(call, "ada", "")
			return err
		}))
	}
	if got := kinds(t, kv); got["i"] != 1 || got["a"] != 0 {
		t.Errorf("at the end there are %v", got)
	}
}

// A session goes with all that lists its pauses, however many there are.
func TestDeletingTakesPausesOffTheLists(t *testing.T) {
	kv, s := lasting()
	waits(t, s, "a", slices.Repeat([]tool.Await{external, approves}, 60)...)
	waits(t, s, "b", external, approves)
	must(t, s.Delete(t.Context(), "a", ""))
	want := []string{"b-00.1", "b-01.1"}
	if got := inbox(t, s, session.PauseFilter{}); !slices.Equal(got, want) {
		t.Errorf("after the deletion there are %v", got)
	}
	swept, err := s.Sweep(t.Context(), nil)
	must(t, err)
	if got := kinds(t, kv); got["i"] != 1 || got["a"] != 1 {
		t.Errorf("after the sweep, of %+v, the entries are %v", swept, got)
	}
	if got := inbox(t, s, session.PauseFilter{}); !slices.Equal(got, want) {
		t.Errorf("after the sweep there are %v", got)
	}
	wellIndexed(t, s)
}
