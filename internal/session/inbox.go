package session

import (
	"context"
	"errors"
	"fmt"
	"iter"

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

// forPeople reports whether a person or an operator answers a pause of that
// reason.
func forPeople(r tool.Reason) bool { return r.Person() || r == tool.ReasonUnknown }

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
	c.Pause.Machine = !forPeople(c.Pause.Reason)
	tx.putJSON(listKey(c), tx.entry(c))
}

// unlist removes the entry of a call's pause, which is about to end.
func (tx *Tx) unlist(c *Call) { tx.delete(listKey(c)) }

// unlistAll removes the entries of all open pauses, as many as a commit has room
// for. The rest names a session without calls then: no list shows it, and the
// next sweep removes it.
func (tx *Tx) unlistAll() {
	for i := range tx.Calls {
		if c := &tx.Calls[i]; c.Status == Pending && len(tx.puts)+len(tx.deletes) < deleteAtOnce {
			tx.unlist(c)
		}
	}
}

// deleteAtOnce is how much one commit removes with a session; it leaves room
// for the head and its place among what is due.
const deleteAtOnce = kvstore.MaxOperations - 10

// PauseFilter selects open pauses; empty fields select all.
type PauseFilter struct {
	Reason tool.Reason
	// People leaves out what machines and timers end. Such waits aren't read
	// then, however many there are, nor if Reason is one for people.
	People  bool
	User    string
	Session string
	Tool    string
	Limit   int // 0: no limit
}

func (f PauseFilter) match(e pauseEntry) bool {
	return (f.Reason == "" || f.Reason == e.Reason) && (f.User == "" || f.User == e.User) &&
		(f.Session == "" || f.Session == e.Session) && (f.Tool == "" || f.Tool == e.Tool) &&
		(!f.People || forPeople(e.Reason))
}

// listed goes through the entries that the filter may select, the oldest first.
func (s *Store) listed(ctx context.Context, f PauseFilter) iter.Seq2[kvstore.Entry, error] {
	people := s.scan(ctx, kvstore.Key(inboxKind))
	if f.People || f.Reason != "" && forPeople(f.Reason) {
		return people
	}
	return merged(people, s.scan(ctx, kvstore.Key(machineKind)))
}

// merged goes through two scans in the order of what follows the kind in their
// keys. An error ends it.
func merged(a, b iter.Seq2[kvstore.Entry, error]) iter.Seq2[kvstore.Entry, error] {
	return func(yield func(kvstore.Entry, error) bool) {
		next, stop := iter.Pull2(b)
		defer stop()
		second, err, more := next()
		for first, firstErr := range a {
			for more && err == nil && firstErr == nil && earlier(second.Key, first.Key) {
				if !yield(second, nil) {
					return
				}
				second, err, more = next()
			}
			if firstErr == nil {
				firstErr = err
			}
			if !yield(first, firstErr) || firstErr != nil {
				return
			}
		}
		for ; more; second, err, more = next() {
			if !yield(second, err) || err != nil {
				return
			}
		}
	}
}

// earlier compares the keys of two entries, of whatever kinds.
func earlier(a, b []byte) bool { return string(a[len(inboxKind):]) < string(b[len(inboxKind):]) }

// Inbox lists open pauses, the oldest first. A session that can't be read is an
// error in its place; the list goes on after it.
func (s *Store) Inbox(ctx context.Context, f PauseFilter) iter.Seq2[tool.Pause, error] {
	return func(yield func(tool.Pause, error) bool) {
		n := 0
		for e, err := range s.listed(ctx, f) {
			if err != nil {
				yield(tool.Pause{}, err)
				return
			}
			var entry pauseEntry
			if err := decode(e.Key, e.Value, &entry); err != nil {
				if !yield(tool.Pause{}, err) {
					return
				}
				continue
			}
			if !f.match(entry) {
				continue
			}
			parts, err := kvstore.Parts(e.Key)
			if err != nil || len(parts) != 3 {
				continue
			}
			p, err := s.openPause(ctx, entry.Session, parts[2])
			if isOver(err) {
				continue // the entry is only a hint
			}
			if err == nil && entry != (pauseEntry{p.Session, p.Tool, p.User, p.Await.Reason}) {
				err = fmt.Errorf("%w: %s does not go with its pause", ErrCorrupt, keyName(e.Key))
				p = tool.Pause{}
			}
			if n++; !yield(p, err) || n == f.Limit {
				return
			}
		}
	}
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

// unlisted removes the entries of pauses that are over: of sessions that were
// deleted with more than a commit has room for, and of what an older version
// has ended.
func (sw *sweep) unlisted(ctx context.Context, kind string) error {
	for e, err := range sw.store.scan(ctx, kvstore.Key(kind)) {
		if err != nil {
			return err
		}
		var entry pauseEntry
		parts, err := kvstore.Parts(e.Key)
		if err == nil {
			err = decode(e.Key, e.Value, &entry)
		}
		if err != nil || len(parts) != 3 {
			return fmt.Errorf("%w: %s", ErrCorrupt, keyName(e.Key))
		}
		st, err := sw.store.Load(ctx, entry.Session)
		if err != nil && !errors.Is(err, ErrUnknownSession) {
			continue // the sweep of that session returns the error
		}
		// The head is read after the entry, and a pause that is over is never
		// opened again.
		call, number := splitPause(parts[2])
		if err == nil {
			c := st.Call(call)
			if c != nil && c.Status == Pending && c.Pauses == number &&
				string(listKey(c)) == string(e.Key) {
				continue
			}
		}
		if err := sw.store.repeat(ctx, kvstore.Batch{Deletes: [][]byte{e.Key}}); err != nil {
			return err
		}
		sw.swept.Entries++
	}
	return nil
}
