package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// newMessage returns a user's message whose id is its text.
func newMessage(t testing.TB, id string) *session.NewMessage {
	t.Helper()
	e := entry(t, llm.UserText(id))
	return &session.NewMessage{ID: id, Hash: e.Hash(), Entry: e, Most: 4}
}

func unseen(*session.State) error { return nil }

// sends sends a user's message.
func sends(t testing.TB, id string) session.Transition {
	t.Helper()
	m := newMessage(t, id)
	return func(tx *session.Tx) error { _, _, err := tx.Send(m); return err }
}

// steers sends a message that steers.
func steers(t testing.TB, id string) session.Transition {
	t.Helper()
	m := newMessage(t, id)
	m.Steer = true
	return func(tx *session.Tx) error { _, _, err := tx.Send(m); return err }
}

// first does something with the first message that waits.
func first(do func(*session.Tx, *session.Queued) error) session.Transition {
	return func(tx *session.Tx) error {
		m, err := tx.First()
		if err == nil {
			err = do(tx, m)
		}
		return err
	}
}

// saysFirst says the first message that waits.
var saysFirst = first((*session.Tx).SayQueued)

// chat is a session that a drive holds.
type chat struct {
	*session.Lease
	t     *testing.T
	store *session.Store
	kv    kvstore.Store
}

func newChat(t *testing.T) *chat {
	t.Helper()
	kv := kvstore.NewMemory()
	s := session.NewStore(kv, nil)
	must(t, s.SendTo(t.Context(), "s", &session.New{User: "ada"}, unseen, sends(t, "first")))
	d, err := s.Acquire(t.Context(), "s", nil)
	must(t, err)
	t.Cleanup(d.Release)
	return &chat{Lease: d, t: t, store: s, kv: kv}
}

func (c *chat) do(ts ...session.Transition) {
	c.t.Helper()
	for _, change := range ts {
		must(c.t, c.Update(c.t.Context(), change))
	}
}

// replies has the model say something, and perhaps ask for calls.
func (c *chat) replies(calls ...string) session.Transition {
	c.t.Helper()
	m := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text{Text: "Well."}}}
	var open []session.Call
	for _, id := range calls {
		m.Parts = append(m.Parts, llm.ToolCall{ID: id, Name: "ask", Arguments: []byte(`{}`)})
		open = append(open, session.Call{ID: id, Tool: "ask", Status: session.Requested,
			Effect: tool.Idempotent, MayPause: true})
	}
	e := entry(c.t, m)
	return func(tx *session.Tx) error {
		return tx.Reply(e, open, session.Stopped{Finish: event.FinishStop}, 0)
	}
}

// closes closes the open turn, whose one call has settled.
func (c *chat) closes(call string, end event.Status) session.Transition {
	c.t.Helper()
	e := entry(c.t, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{
		llm.ToolResult{Call: call, Name: "ask", Output: []byte(`1`)}}})
	return func(tx *session.Tx) error { return tx.Close(e, []event.Status{end}) }
}

func (c *chat) step() session.StepKind { return session.Next(c.State(), c.store.Now()).Kind }

// wants compares what happens next, and what waits, with what is wanted.
func (c *chat) wants(step session.StepKind, waits ...string) {
	c.t.Helper()
	var got []string
	for q, err := range c.store.Queue(c.t.Context(), "s") {
		must(c.t, err)
		got = append(got, q.ID)
	}
	if c.step() != step || !slices.Equal(got, waits) || c.State().Queue.Len() != len(waits) {
		c.t.Errorf("the next step is %s, and %q wait (%d by the head), want %s and %q",
			c.step(), got, c.State().Queue.Len(), step, waits)
	}
	for p, err := range c.store.Check(c.t.Context()) {
		c.t.Error(p, err)
	}
}

// said returns the texts of the history.
func (c *chat) said() string {
	c.t.Helper()
	all, err := c.store.History(c.t.Context(), c.State(), 0)
	must(c.t, err)
	var texts []string
	for _, m := range all {
		texts = append(texts, m.Text())
	}
	return strings.Join(texts, ", ")
}

// A message begins a session that is not there, and is said at once where
// nothing goes on. Others wait, one run each.
func TestMessagesWaitWhileTheModelIsAsked(t *testing.T) {
	c := newChat(t)
	c.wants(session.StepModel)
	c.do(sends(t, "second"), sends(t, "third"))
	c.wants(session.StepModel, "second", "third")
	if !c.State().Run.Detached {
		t.Error("the run ends with its caller, though others wait for it")
	}
	c.do(c.replies())
	c.wants(session.StepSay, "second", "third")
	c.do(saysFirst)
	c.wants(session.StepModel, "third")
	if run := c.State().Run; run.Turns != 0 {
		t.Errorf("it is of the run before: %+v", run)
	}
	c.do(c.replies(), saysFirst, c.replies())
	c.wants(session.StepIdle)
	if got := c.said(); got != "first, Well., second, Well., third, Well." {
		t.Error(got)
	}
}

// A steering message is said before the model's next answer, once no call is
// open, in the same run. After the run it begins one.
func TestSteeringMessageGoesIntoTheRun(t *testing.T) {
	c := newChat(t)
	c.do(c.replies("c-1"), sends(t, "later"), steers(t, "now"))
	c.wants(session.StepCalls, "now", "later")
	c.do(func(tx *session.Tx) error {
		return tx.Settle("c-1", &session.Outcome{Status: event.Done, Output: blob(t, `1`), Body: true})
	}, c.closes("c-1", event.Done))
	c.wants(session.StepSay, "now", "later")
	c.do(saysFirst)
	c.wants(session.StepModel, "later")
	if run := c.State().Run; run.Turns != 1 || run.Calls != 1 {
		t.Errorf("it is not of the same run: %+v", run)
	}
	c.do(steers(t, "too late"), c.replies(), saysFirst)
	c.wants(session.StepModel, "later")
	if run := c.State().Run; run.Turns != 0 {
		t.Errorf("the run was over, and yet goes on: %+v", run)
	}
}

// While a turn waits, a driver judges the first message once, and again when
// the turn, or what waits, has changed.
func TestMessageIsJudgedAnewWhenTheTurnChanges(t *testing.T) {
	c := newChat(t)
	c.do(c.replies("c-1", "c-2"), pause("c-1", tool.Await{}), pause("c-2", tool.Await{}))
	c.wants(session.StepWait)
	c.do(sends(t, "second"))
	c.wants(session.StepSay, "second")
	judged := c.State()
	judge := func(tx *session.Tx) error { return tx.Judge(judged) }
	c.do(judge)
	c.wants(session.StepWait, "second")
	c.do(sends(t, "third")) // the second is the first to be judged
	c.wants(session.StepWait, "second", "third")
	c.do(steers(t, "now"))
	c.wants(session.StepSay, "now", "second", "third")
	judged = c.State()
	c.do(judge)
	c.wants(session.StepWait, "now", "second", "third")
	m := newMessage(t, "instead")
	m.Supersede = true
	c.do(func(tx *session.Tx) error { _, _, err := tx.Send(m); return err })
	c.wants(session.StepSay, "now", "second", "third", "instead")
	judged = c.State()
	c.do(judge, cancels("c-1"))
	c.wants(session.StepSay, "now", "second", "third", "instead")
	c.do(judge) // by a driver that knows of no cancellation
	c.wants(session.StepSay, "now", "second", "third", "instead")
}

// A message comes once, also when it is sent again, and lies in the queue once.
func TestMessageIsSentTwice(t *testing.T) {
	c := newChat(t)
	c.do(sends(t, "second"), sends(t, "second"), sends(t, "first"))
	c.wants(session.StepModel, "second")
	other := newMessage(t, "second")
	other.Entry = entry(t, llm.UserText("other"))
	other.Hash = other.Entry.Hash()
	err := c.Update(t.Context(), func(tx *session.Tx) error { _, _, err := tx.Send(other); return err })
	if !errors.Is(err, session.ErrMessageConflict) {
		t.Errorf("another message of that id: %v", err)
	}
	sent := func() string {
		t.Helper()
		s, err := c.store.Sent(t.Context(), "s", "second")
		must(t, err)
		return fmt.Sprint(s)
	}
	if got := sent(); got != fmt.Sprint(session.Sent{Place: 1, Number: -1}) {
		t.Errorf("while it waits: %s", got)
	}
	c.do(c.replies(), saysFirst)
	if got := sent(); got != fmt.Sprint(session.Sent{Number: 2}) {
		t.Errorf("once it is said: %s", got)
	}
	c.do(sends(t, "second"), sends(t, "third"), c.replies())
	c.do(first(func(tx *session.Tx, m *session.Queued) error { return tx.Refuse(m, "no") }))
	c.wants(session.StepIdle)
	s, err := c.store.Sent(t.Context(), "s", "third")
	if err != nil || s.Refused != "no" || s.Number != -1 {
		t.Errorf("once it is refused: %+v, %v", s, err)
	}
	_, err = c.store.Sent(t.Context(), "s", "fourth")
	if !errors.Is(err, session.ErrUnknownMessage) {
		t.Errorf("one that was never sent: %v", err)
	}
}

// The messages that wait are bounded in number and in bytes.
func TestQueueIsBounded(t *testing.T) {
	c := newChat(t)
	c.do(sends(t, "1"), steers(t, "2"), sends(t, "3"), sends(t, "4"))
	if err := c.Update(t.Context(), sends(t, "5")); !errors.Is(err, session.ErrQueueFull) {
		t.Errorf("the fifth of four: %v", err)
	}
	c.do(sends(t, "4")) // which came before
	c = newChat(t)
	large := func(id string) session.Transition {
		m := newMessage(t, id)
		m.Entry = entry(t, llm.UserText(strings.Repeat("x", 9<<20)))
		return func(tx *session.Tx) error { _, _, err := tx.Send(m); return err }
	}
	c.do(large("1"))
	if err := c.Update(t.Context(), large("2")); !errors.Is(err, session.ErrQueueFull) {
		t.Errorf("18 MiB: %v", err)
	}
	c.wants(session.StepModel, "1")
}

// A message that is too large for its record is stored once, where it stays
// when it is said, and a sweep leaves it there.
func TestLargeMessageStaysWhereItLies(t *testing.T) {
	c := newChat(t)
	m := newMessage(t, "large")
	m.Entry = entry(t, llm.UserText(strings.Repeat("y", 200<<10)))
	c.do(func(tx *session.Tx) error { _, _, err := tx.Send(m); return err })
	sweep := func() {
		t.Helper()
		swept, err := c.store.Sweep(t.Context(), &session.Retention{Orphans: 1})
		if err != nil || swept.Payloads != 0 {
			t.Errorf("swept %+v, %v", swept, err)
		}
	}
	sweep()
	c.wants(session.StepModel, "large")
	c.do(c.replies(), saysFirst)
	sweep()
	c.wants(session.StepModel)
	if n := len(c.said()); n < 200<<10 {
		t.Errorf("%d bytes were said", n)
	}
}

// A halt is lifted by a message, which takes the place of what the run had
// still to say. The end of a run leaves what waits, and halts it.
func TestMessageLiftsAHalt(t *testing.T) {
	c := newChat(t)
	c.do(sends(t, "second"), func(tx *session.Tx) error {
		tx.End(event.FinishCancelled, "ops", "no")
		return nil
	})
	c.wants(session.StepHalted, "second")
	if err := c.Update(t.Context(), saysFirst); !errors.Is(err, session.ErrStale) {
		t.Errorf("it is taken though the session is halted: %v", err)
	}
	c.do(sends(t, "second")) // which came before
	c.wants(session.StepHalted, "second")
	c.do(sends(t, "third"))
	c.wants(session.StepSay, "second", "third")
	c.do(saysFirst)
	if got := c.said(); got != "first, second" {
		t.Error(got)
	}
}

// A message that comes while the calls of a run that ends are still stopped
// goes on with that once the turn is closed.
func TestMessageAfterTheEndOfARunWasAskedFor(t *testing.T) {
	for _, after := range []bool{false, true} {
		c := newChat(t)
		c.do(c.replies("c-1"), sends(t, "before"), func(tx *session.Tx) error {
			tx.End(event.FinishCancelled, "ops", "no")
			return nil
		})
		if after {
			c.do(sends(t, "after"))
		}
		c.do(func(tx *session.Tx) error {
			return tx.Settle("c-1", &session.Outcome{Status: event.Cancelled, Output: blob(t, `1`)})
		}, c.closes("c-1", event.Cancelled))
		if !after {
			c.wants(session.StepHalted, "before")
			continue
		}
		c.wants(session.StepSay, "before", "after")
		c.do(saysFirst)
		if got := c.said(); got != "first, Well., , before" {
			t.Error(got)
		}
	}
}

// Where the caller wants that, a message isn't stored that can't be said at
// once.
func TestMessageIsRefusedWhileTheSessionIsBusy(t *testing.T) {
	c := newChat(t)
	m := newMessage(t, "second")
	m.Refuse = true
	err := c.Update(t.Context(), func(tx *session.Tx) error { _, _, err := tx.Send(m); return err })
	if !errors.Is(err, session.ErrNotNow) {
		t.Errorf("while the model is asked: %v", err)
	}
	c.wants(session.StepModel)
}

// What is wrong with a queue is found.
func TestDamageOfAQueueIsFound(t *testing.T) {
	key := kvstore.Key("Q", "s", "1", "00000000")
	damage := func(do func(*testing.T, kvstore.Store), want string) *chat {
		c := newChat(t)
		c.do(sends(t, "second"), sends(t, "third"))
		do(t, c.kv)
		if all := found(t, c.kv); !strings.Contains(all, want) {
			t.Errorf("it reports %q, and not %q", all, want)
		}
		return c
	}
	damage(func(t *testing.T, kv kvstore.Store) {
		replace(t, kv, key, `"role":"user"`, `"role":"assistant"`)
	}, `is no user's: its role is "assistant"`)
	c := damage(removes(key), "and 0 is to come there")
	if err := c.Update(t.Context(), first((*session.Tx).Take)); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("one is missing, and taking it is %v", err)
	}
}

// A deleted session leaves no messages, and takes none.
func TestMessagesOfADeletedSession(t *testing.T) {
	c := newChat(t)
	c.do(sends(t, "second"))
	must(t, c.store.Delete(t.Context(), "s", "ops"))
	page, err := c.kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key("Q")})
	must(t, err)
	if len(page.Entries) > 0 {
		t.Errorf("%q is left", page.Entries[0].Key)
	}
	err = c.store.SendTo(t.Context(), "s", &session.New{User: "ada"}, unseen, sends(t, "third"))
	if !errors.Is(err, session.ErrDeleted) {
		t.Errorf("a message afterwards: %v", err)
	}
}
