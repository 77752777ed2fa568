package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// asksFor takes a child to where calls of it wait. They have these names.
func asksFor(t testing.TB, s *session.Store, child string, calls map[string]session.Transition) {
	t.Helper()
	d, err := s.Acquire(t.Context(), child, nil)
	must(t, err)
	defer d.Release()
	m := llm.Message{Role: llm.RoleAssistant}
	var open []session.Call
	for _, id := range slices.Sorted(maps.Keys(calls)) {
		m.Parts = append(m.Parts, llm.ToolCall{ID: id, Name: "job", Arguments: json.RawMessage(`{}`)})
		open = append(open, session.Call{ID: id, Tool: "job", Status: session.Requested,
			MayPause: true, Effect: tool.Idempotent})
	}
	must(t, d.Update(t.Context(), func(tx *session.Tx) error {
		return tx.Reply(entry(t, m), open, session.Stopped{}, 0)
	}))
	for _, c := range open {
		must(t, d.Update(t.Context(), calls[c.ID]))
	}
}

// family is a tree: a child that asks, waits for a machine, and for a child of
// its own that waits for an approval; and a second child that asks.
func family(t testing.TB, kv kvstore.Store) *parent {
	t.Helper()
	p := newParent(t, kv, "one", "two", "job")
	p.do(spawns(t, "one", session.Left{}))
	p.do(spawns(t, "two", session.Left{}))
	p.do(pause("job", external))
	asksFor(t, p.store, childOf("one"), map[string]session.Transition{
		"a-asks": pause("a-asks", asks), "b-job": pause("b-job", external),
		"c-three": spawns(t, "c-three", session.Left{}),
	})
	asksFor(t, p.store, childOf("c-three"), map[string]session.Transition{
		"d-pays": pause("d-pays", approves),
	})
	asksFor(t, p.store, childOf("two"), map[string]session.Transition{"e-asks": pause("e-asks", asks)})
	return p
}

// A session is listed with what people answer below it, at whatever depth, and
// the path to that.
func TestInboxOfATree(t *testing.T) {
	p := family(t, kvstore.NewMemory())
	waits(t, p.store, "alone", asks)
	list := func(id string) (ids []string) {
		ids = inbox(t, p.store, session.PauseFilter{Session: id})
		slices.Sort(ids) // some are of the same millisecond
		return ids
	}
	for id, want := range map[string][]string{
		"top":              {"a-asks.1", "d-pays.1", "e-asks.1", "job.1", "one.1", "two.1"},
		childOf("one"):     {"a-asks.1", "b-job.1", "c-three.1", "d-pays.1"},
		childOf("c-three"): {"d-pays.1"},
		"alone":            {"alone-00.1"},
		"nobody":           nil,
	} {
		if d := cmp.Diff(want, list(id)); d != "" {
			t.Errorf("of %s (-want +got):\n%s", id, d)
		}
	}
	people := inbox(t, p.store, session.PauseFilter{Session: "top", People: true})
	slices.Sort(people)
	if d := cmp.Diff([]string{"a-asks.1", "d-pays.1", "e-asks.1"}, people); d != "" {
		t.Errorf("of people (-want +got):\n%s", d)
	}
	for got, err := range p.store.Inbox(t.Context(), session.PauseFilter{Reason: tool.ReasonApproval}) {
		must(t, err)
		want := []tool.PathStep{{Session: "top", Agent: "lead", Call: "one", Tool: "ask"},
			{Session: childOf("one"), Agent: "helper", Call: "c-three", Tool: "job"}}
		if d := cmp.Diff(want, got.Path); d != "" || got.Agent != "helper" ||
			got.Session != childOf("c-three") {
			t.Errorf("%s of %s: the path to it (-want +got):\n%s", got.ID, got.Agent, d)
		}
	}
	wellIndexed(t, p.store)
}

// What a tree no longer waits for is on no list of it.
func TestTreesForgetWhatIsOver(t *testing.T) {
	kv := kvstore.NewMemory()
	p := family(t, kv)
	must(t, p.store.Update(t.Context(), childOf("two"), cancels("e-asks")))
	must(t, p.store.Update(t.Context(), childOf("c-three"), cancels("d-pays")))
	page := func() (ids []string) {
		page, err := p.store.Waiting(t.Context(), load(t, p.store, "top"), nil)
		must(t, err)
		for _, p := range page.Pauses {
			ids = append(ids, p.ID)
		}
		return ids
	}
	if d := cmp.Diff([]string{"one.1", "two.1", "job.1", "a-asks.1"}, page()); d != "" {
		t.Errorf("it waits for (-want +got):\n%s", d)
	}
	// The child of a call that was cancelled is about to be: it asks for nothing.
	must(t, p.store.Update(t.Context(), "top", cancels("one")))
	if d := cmp.Diff([]string{"two.1", "job.1"}, page()); d != "" {
		t.Errorf("it waits for (-want +got):\n%s", d)
	}
	must(t, p.store.Delete(t.Context(), "top", ""))
	_, err := p.store.Deliver(t.Context(), "top")
	must(t, err)
	left, err := kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key("j")})
	must(t, err)
	if n := kinds(t, kv); len(left.Entries)+n["i"]+n["a"] != 0 {
		t.Errorf("of a deleted tree there are %v and %v", left.Entries, n)
	}
}

// What a session waits for is shown a page at a time, and read in bounds.
func TestWaitingIsAPage(t *testing.T) {
	kv := &counted{Store: kvstore.NewMemory()}
	p := newParent(t, kv, "one")
	p.do(spawns(t, "one", session.Left{}))
	const levels = 3
	child := "one"
	for level := range levels { // each has as many calls as a turn may
		calls := map[string]session.Transition{}
		for i := range 63 {
			id := fmt.Sprintf("%d-%02d", level, i)
			calls[id] = pause(id, asks)
		}
		next := fmt.Sprintf("%d-next", level)
		calls[next] = spawns(t, next, session.Left{})
		asksFor(t, p.store, childOf(child), calls)
		child = next
	}
	st := load(t, p.store, "top")
	kv.reads = 0
	page, err := p.store.Waiting(t.Context(), st, nil)
	must(t, err)
	if len(page.Pauses) != session.MaxPage || !page.More || page.Pauses[0].ID != "one.1" {
		t.Errorf("there are %d pauses, and more: %t", len(page.Pauses), page.More)
	}
	if most := 10 * session.MaxPage; kv.reads > most {
		t.Errorf("a page took %d reads, and %d are enough", kv.reads, most)
	}
	if got := inbox(t, p.store, session.PauseFilter{Session: "top"}); len(got) != 63*levels+1 {
		t.Errorf("all are %d", len(got))
	}
	page, err = p.store.Waiting(t.Context(), load(t, p.store, childOf("1-next")), nil)
	must(t, err)
	if len(page.Pauses) != 64 {
		t.Errorf("of the last child there are %d", len(page.Pauses))
	}
}

// Children are listed where they are asked for, and otherwise not even read.
func TestListsLeaveChildrenOut(t *testing.T) {
	kv := &counted{Store: kvstore.NewMemory()}
	p := newParent(t, kv, "one", "two")
	for _, id := range []string{"a", "child", "childs", "child;", "z"} {
		waits(t, p.store, id, asks)
	}
	list := func(f session.Filter) (ids []string) {
		t.Helper()
		for st, err := range p.store.List(t.Context(), f) {
			must(t, err)
			ids = append(ids, st.ID)
		}
		return ids
	}
	kv.reads = 0
	alone := list(session.Filter{})
	reads := kv.reads
	p.do(spawns(t, "one", session.Left{}))
	p.do(spawns(t, "two", session.Left{}))
	var calls = map[string]session.Transition{}
	for i := range 60 {
		id := fmt.Sprintf("n-%02d", i)
		calls[id] = spawns(t, id, session.Left{})
	}
	asksFor(t, p.store, childOf("one"), calls)
	kv.reads = 0
	want := []string{"a", "child", "child;", "childs", "top", "z"}
	if got := list(session.Filter{}); !slices.Equal(got, want) || !slices.Equal(alone, want) {
		t.Errorf("without children there are %v, and %v before", got, alone)
	}
	if kv.reads != reads {
		t.Errorf("with 62 children it takes %d reads, and %d without any", kv.reads, reads)
	}
	if got := list(session.Filter{Children: true}); len(got) != len(want)+62 {
		t.Errorf("with children there are %v", got)
	}
	// Page by page, each behind the last one of the page before, also where that
	// is a child or isn't there.
	for _, children := range []bool{false, true} {
		all := list(session.Filter{Children: children})
		var paged []string
		for {
			f := session.Filter{Children: children, Limit: 4}
			if len(paged) > 0 {
				f.After = paged[len(paged)-1]
			}
			page := list(f)
			if len(page) == 0 {
				break
			}
			paged = append(paged, page...)
		}
		if !slices.Equal(paged, all) {
			t.Errorf("page by page there are %v, and at once %v", paged, all)
		}
	}
	if got := list(session.Filter{After: childOf("one")}); !slices.Equal(got, []string{"child;", "childs", "top", "z"}) {
		t.Errorf("behind a child there are %v", got)
	}
	if got := list(session.Filter{After: "chile"}); !slices.Equal(got, []string{"top", "z"}) {
		t.Errorf("behind an id that isn't there, there are %v", got)
	}
	tree := list(session.Filter{Root: "top"})
	if len(tree) != 63 || tree[0] != "top" || tree[1] != childOf("one") || tree[62] != childOf("two") {
		t.Errorf("the tree is %v", tree)
	}
	if got := list(session.Filter{Root: childOf("one"), Limit: 3}); len(got) != 3 {
		t.Errorf("the first three of a tree are %v", got)
	}
	if got := list(session.Filter{Root: "z"}); !slices.Equal(got, []string{"z"}) {
		t.Errorf("a session without children is listed as %v", got)
	}
	if got := list(session.Filter{Root: "top", Agent: "nobody"}); got != nil {
		t.Errorf("of another agent there are %v", got)
	}
}

// largest is an engine that knows the largest batch that it was given.
type largest struct {
	kvstore.Store
	operations int
}

func (l *largest) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	l.operations = max(l.operations, b.Operations())
	return l.Store.Apply(ctx, b)
}

// One commit takes as many answers as one Resume has, and as many deadlines as
// pass at once, also where each of the pauses stands on the list of a tree, and
// is to be reminded of.
func TestACommitHasRoomForAnswersOfAChild(t *testing.T) {
	hasRoom(t, nil, asks)
	hasRoom(t, &session.Notify{Remind: time.Minute},
		tool.Await{Reason: tool.ReasonInput, Timeout: 10 * time.Hour})
}

func hasRoom(t *testing.T, told *session.Notify, asks tool.Await) {
	kv := &largest{Store: kvstore.NewMemory()}
	p := newParentOn(t, session.NewStore(kv, &session.Options{Notify: told}), "one")
	p.do(spawns(t, "one", session.Left{}))
	const resumptions = 16
	calls := map[string]session.Transition{}
	soon := tool.Await{Reason: tool.ReasonInput, Timeout: time.Hour}
	for i := range resumptions {
		id := fmt.Sprintf("asks-%02d", i)
		calls[id] = pause(id, asks)
	}
	for i := range session.SupersedeAtOnce {
		id := fmt.Sprintf("soon-%02d", i)
		calls[id] = pause(id, soon)
	}
	asksFor(t, p.store, childOf("one"), calls)
	kv.operations = 0
	must(t, p.store.Update(t.Context(), childOf("one"), func(tx *session.Tx) error {
		tx.Now = tx.Now.Add(2 * time.Hour)
		if err := tx.Expire(); err != nil {
			return err
		}
		for i := range resumptions {
			r, err := tx.Answer(&session.Incoming{Pause: fmt.Sprintf("asks-%02d.1", i),
				Kind: session.KindFail, Hash: "h", Payload: blob(t, `"no"`), Actor: "ada"}, fits)
			if err != nil || r.Err != nil {
				return errors.Join(err, r.Err)
			}
		}
		return nil
	}))
	if kv.operations < 4*resumptions+3*session.SupersedeAtOnce || kv.operations > kvstore.MaxOperations {
		t.Errorf("the largest batch had %d operations", kv.operations)
	}
	t.Logf("counted: a batch of %d operations", kv.operations)
	st := load(t, p.store, childOf("one"))
	for _, c := range st.Calls {
		if c.Status != session.Settled {
			t.Errorf("%s is %s", c.ID, c.Status)
		}
	}
}
