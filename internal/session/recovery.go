package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// Where one process has the engine, a session that a drive holds doesn't stand
// among what is due: that drive looks after it, and workers would look at it
// again and again for nothing. It stands in the recovery index, under the
// engine's incarnation. The entry is written when a drive takes the session,
// and goes when one gives it up. What it is for is a crash. Entries of earlier
// incarnations are of drives that died, and workers read them once.
//
// Within an incarnation a drive may end without a commit that gives its session
// up: the engine has failed, or Close has taken the lease away. Nothing that is
// read later tells of that. So such sessions stand on a list in the engine's
// value, where those of dead drives are put, too. All who share the value work
// through that one list.
//
// A session stays on the list until a drive has committed that it gives the
// session up. That commit also keeps out what the earlier drive may have left
// on its way to the engine.

// recovery is an entry of that index.
type recovery struct {
	Since time.Time `json:"since"` // when the drive took the session
}

func (r *recovery) check() error {
	if r.Since.IsZero() {
		return errIncomplete
	}
	return nil
}

// indexHeld keeps a session that a drive holds in the recovery index, where one
// process has the engine, and reports whether it stands there. Only the driver
// puts it there, since no other commit can tell whether a drive still holds it.
func (tx *Tx) indexHeld(s *Store) (stands bool) {
	var want uint64
	switch {
	case !s.exclusive || !tx.Held:
	case tx.beside:
		want = tx.Recovery
	default:
		want = s.incarnation
	}
	if want != tx.Recovery {
		if tx.Recovery != 0 {
			tx.delete(recoveryKey(tx.Agent, tx.Recovery, tx.ID))
		}
		if want != 0 {
			tx.putJSON(recoveryKey(tx.Agent, want, tx.ID), &recovery{tx.Now})
		}
		tx.Recovery = want
	}
	return want != 0
}

// leftList is the list of an agent's sessions whose drives have ended, or died,
// and have not given them up.
func leftList(agent string) string { return "left " + agent }

// readList is the list of the agents whose recovery index was read.
const readList = "recovery"

// Left lists sessions of an agent whose drives died, or have ended without
// giving them up, after a session in the order of ids. It returns a page at
// most, and whether there are more. The store is asked once in the life of the
// engine's value.
func (s *Store) Left(ctx context.Context, agent, after string) (due []Due, more bool, err error) {
	if err := s.readRecovery(ctx, agent); err != nil {
		return nil, false, err
	}
	ids := s.local.Listed(leftList(agent), after, kvstore.MaxPage)
	for _, id := range ids {
		due = append(due, Due{Session: id, list: leftList(agent)})
	}
	return due, len(ids) == kvstore.MaxPage, nil
}

// IsLeft reports whether it is of the list of what drives have left.
func (d Due) IsLeft() bool { return d.list != "" }

// Forget takes a session that is gone off the list.
func (s *Store) Forget(due Due) {
	if due.IsLeft() {
		s.local.Strike(due.list, due.Session)
	}
}

// readRecovery puts the sessions of drives that died in earlier incarnations on
// the list, unless that was done. If another goroutine is at it, that one wakes
// the workers.
func (s *Store) readRecovery(ctx context.Context, agent string) error {
	id := newCommitID()
	name, holder := "recovery "+agent, string(id[:])
	if s.local.IsListed(readList, agent) || !s.local.Acquire(name, holder) {
		return nil
	}
	defer s.local.Release(name, holder)
	for e, err := range s.scan(ctx, kvstore.Key("l", agent)) {
		if err != nil {
			return err
		}
		_, incarnation, session, err := recoveryParts(e.Key)
		if err == nil && (!s.exclusive || incarnation != s.incarnation) {
			s.local.Enlist(leftList(agent), session)
		}
	}
	s.local.Enlist(readList, agent)
	s.local.Signal(workTopic)
	return nil
}

// HeldHere reports whether a drive of this process holds a session, where one
// process has the engine. If so, the workers are told when it ends: what was
// committed before that, by this drive or others, has told them too early.
func (s *Store) HeldHere(session string) bool {
	held := func() bool { return s.exclusive && s.local.Holder(leaseName(session)) != "" }
	if !held() {
		return false
	}
	s.local.Enlist(passedList, session)
	return held() // or else the drive has ended without a look at the list
}

// passedList is the list of the sessions that were asked for while a drive held
// them.
const passedList = "passed"

// leave notes how a drive leaves its session, and reports whether a worker is
// to look at it. The lease is still the drive's.
func (l *Lease) leave() (look bool) {
	s := l.store
	if l.head == nil {
		return false
	}
	var list string
	var due bool
	l.View(func(st *State) {
		list = leftList(st.Agent)
		due = !st.Wake.IsZero() && !st.Wake.After(s.Now())
	})
	now := l.now()
	switch {
	case s.exclusive && l.head.mayBeHeld():
		s.local.Enlist(list, l.id)
		return true
	case now.taken:
		s.local.Strike(list, l.id)
		return false
	}
	return s.exclusive && (due || now.left) // it stands where it stood
}

// recoveries removes entries of earlier incarnations at whose place no session
// stands: programs from before there was this index leave such. No session ever
// takes such a place again.
func (sw *sweep) recoveries(ctx context.Context) error {
	s := sw.store
	for e, err := range s.scan(ctx, kvstore.Key("l")) {
		if err != nil {
			return err
		}
		_, incarnation, session, err := recoveryParts(e.Key)
		if err != nil {
			return err
		}
		if s.exclusive && incarnation == s.incarnation {
			continue
		}
		st, err := s.Load(ctx, session)
		if err != nil && !errors.Is(err, ErrUnknownSession) {
			continue // the sweep of that session returns the error
		}
		if err == nil && st.Recovery == incarnation {
			continue
		}
		if err := s.repeat(ctx, kvstore.Batch{Deletes: [][]byte{e.Key}}); err != nil {
			return err
		}
		sw.swept.Entries++
	}
	return nil
}

// recoveryParts takes the key of an entry apart.
func recoveryParts(key []byte) (agent string, incarnation uint64, session string, err error) {
	parts, err := kvstore.Parts(key)
	if err == nil && len(parts) == 4 {
		if incarnation, err = strconv.ParseUint(parts[2], 10, 64); err == nil {
			return parts[1], incarnation, parts[3], nil
		}
	}
	return "", 0, "", fmt.Errorf("%w: %s", ErrCorrupt, keyName(key))
}
