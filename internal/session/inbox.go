package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// Where open pauses are listed: those that a person or an operator answers
// under i, those that a machine or the time ends under a. So an inbox of people
// costs nothing for the many waits of machines beside it. This file alone makes
// and removes the entries.
const (
	inboxKind   = "i"
	machineKind = "a"
)

// pauseEntry is what the pause index and the inbox know of a pause.
type pauseEntry struct {
	Session string      `json:"session"`
	Tool    string      `json:"tool"`
	User    string      `json:"user"`
	Reason  tool.Reason `json:"reason"`
}

// entry returns what the indexes have of a call's open pause.
func (s *State) entry(c *Call) pauseEntry {
	return pauseEntry{Session: s.ID, Tool: c.Tool, User: s.User, Reason: c.Pause.Reason}
}

// ForPeople reports whether a person or an operator answers a pause of that
// reason.
func ForPeople(r tool.Reason) bool { return r.Person() || r == tool.ReasonUnknown }

// listKey is where a call's open pause is listed. Older versions list all under
// inboxKind, and leave Machine unset.
func listKey(c *Call) []byte {
	kind := inboxKind
	if c.Pause.Machine {
		kind = machineKind
	}
	return kvstore.Key(kind, millis(c.Pause.Since), PauseID(c.ID, c.Pauses))
}

// list lists a call's open pause.
func (tx *Tx) list(c *Call) {
	c.Pause.Machine = !ForPeople(c.Pause.Reason)
	tx.tellPause(c)
	tx.putJSON(listKey(c), tx.entry(c))
	if key := tx.treeKey(c); key != nil {
		tx.putJSON(key, tx.entry(c))
	}
}

// unlist removes the entries of a call's pause, which is about to end.
func (tx *Tx) unlist(c *Call) {
	tx.unremind(c)
	tx.delete(listKey(c))
	if key := tx.treeKey(c); key != nil {
		tx.delete(key)
	}
}

// unlistAll removes the entries of all open pauses, as many as a commit has
// room for. The rest names a session without calls then: no list shows it, and
// the next sweep removes it.
func (tx *Tx) unlistAll() {
	for i := range tx.Calls {
		if c := &tx.Calls[i]; c.Status == Pending && len(tx.puts)+len(tx.deletes) < deleteAtOnce {
			tx.unlist(c)
		}
	}
}

// deleteAtOnce is how much one commit removes with a session; it leaves room
// for the last pause's own entries, the head and its place among what is due.
const deleteAtOnce = kvstore.MaxOperations - 10

// PauseFilter selects open pauses; empty fields select all.
type PauseFilter struct {
	Reason tool.Reason
	// People leaves out what machines and timers end. Such waits aren't read
	// then, however many there are, nor if Reason is one for people.
	People  bool
	User    string
	Session string // with what people answer in the sessions below it
	Tool    string
	Limit   int // 0: no limit
}

// match reports whether the filter selects a pause; of Session, the list that
// it stands in has taken care.
func (f PauseFilter) match(e pauseEntry) bool {
	return (f.Reason == "" || f.Reason == e.Reason) && (f.User == "" || f.User == e.User) &&
		(f.Tool == "" || f.Tool == e.Tool) && (!f.People || ForPeople(e.Reason))
}

// hint is what an index has of a pause that was open when the entry was
// written.
type hint struct {
	pauseEntry
	pause string
	since string // as millis has it
	key   []byte // of the entry; nil: the head told it
}

// hints goes through the entries under a prefix. One that can't be read is an
// error in its place.
func (s *Store) hints(ctx context.Context, prefix []byte) iter.Seq2[hint, error] {
	return func(yield func(hint, error) bool) {
		for e, err := range s.scan(ctx, prefix) {
			if err != nil {
				yield(hint{}, err)
				return
			}
			h := hint{key: e.Key}
			parts, err := kvstore.Parts(e.Key)
			if err == nil {
				err = decode(e.Key, e.Value, &h.pauseEntry)
			}
			if n := len(parts); err == nil && n >= 3 {
				h.since, h.pause = parts[n-2], parts[n-1]
			} else if err == nil {
				err = fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
			}
			if !yield(h, err) {
				return
			}
		}
	}
}

// listed goes through the entries that the filter may select, the oldest first.
func (s *Store) listed(ctx context.Context, f PauseFilter) iter.Seq2[hint, error] {
	people := s.hints(ctx, kvstore.Key(inboxKind))
	switch {
	case f.Session != "":
		return s.treeHints(ctx, f.Session)
	case f.People, f.Reason != "" && ForPeople(f.Reason):
		return people
	}
	return merged(people, s.hints(ctx, kvstore.Key(machineKind)))
}

// merged goes through two lists in the order of time.
func merged(a, b iter.Seq2[hint, error]) iter.Seq2[hint, error] {
	return func(yield func(hint, error) bool) {
		next, stop := iter.Pull2(b)
		defer stop()
		second, secondErr, more := next()
		for first, err := range a {
			for more && (secondErr != nil || err == nil && second.compare(first) < 0) {
				if !yield(second, secondErr) {
					return
				}
				second, secondErr, more = next()
			}
			if !yield(first, err) {
				return
			}
		}
		for ; more; second, secondErr, more = next() {
			if !yield(second, secondErr) {
				return
			}
		}
	}
}

// compare orders hints by time.
func (h hint) compare(o hint) int {
	return cmp.Or(strings.Compare(h.since, o.since), strings.Compare(h.pause, o.pause))
}

// Inbox lists open pauses, the oldest first. A session that can't be read is an
// error in its place; the list goes on after it.
func (s *Store) Inbox(ctx context.Context, f PauseFilter) iter.Seq2[tool.Pause, error] {
	return func(yield func(tool.Pause, error) bool) {
		n := 0
		for h, err := range s.listed(ctx, f) {
			var p tool.Pause
			if err == nil {
				if !f.match(h.pauseEntry) {
					continue
				}
				p, err = s.hinted(ctx, h)
				if isOver(err) || err == nil && f.Session != "" && !isBelow(&p, f.Session) {
					continue
				}
				n++
			}
			if !yield(p, err) || n > 0 && n == f.Limit {
				return
			}
		}
	}
}

// hinted shows the pause that a hint is about. If it is over, the error is one
// that isOver knows.
func (s *Store) hinted(ctx context.Context, h hint) (tool.Pause, error) {
	p, err := s.openPause(ctx, h.Session, h.pause)
	if err == nil && h.pauseEntry != (pauseEntry{p.Session, p.Tool, p.User, p.Await.Reason}) {
		err = fmt.Errorf("%w: %s does not go with its pause", ErrCorrupt, keyName(h.key))
		p = tool.Pause{}
	}
	return p, err
}

// isOver reports whether openPause has failed since the pause is over.
func isOver(err error) bool {
	return errors.Is(err, ErrNotPaused) || errors.Is(err, ErrUnknownSession) ||
		errors.Is(err, ErrUnknownCall)
}

// openPause shows a pause if it is open.
func (s *Store) openPause(ctx context.Context, session, id string) (tool.Pause, error) {
	st, err := s.Load(ctx, session)
	if err != nil {
		return tool.Pause{}, err
	}
	call, number := splitPause(id)
	c := st.Call(call)
	if c == nil || c.Status != Pending || c.Pauses != number || c.overdue(s.Now()) {
		return tool.Pause{}, fmt.Errorf("%w: %s", ErrNotPaused, id)
	}
	asked, err := s.Asked(ctx, st)
	if err != nil {
		return tool.Pause{}, err
	}
	return s.Pause(ctx, st, c, Arguments(asked, call))
}
