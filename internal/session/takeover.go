package session

import (
	"hash/fnv"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// What a drive concludes from a drive that died before it. A session that kills
// its drivers must not do so for ever. A session that was beside it when the
// process died must not suffer for that.
//
// Each takeover counts until the session gets on, and each makes workers wait
// longer before the next one. Takeovers in a row that found something in flight
// count as deadly; the runner fails a session after some of them. A drive that
// ended in order, by Close or because its worker was stopped, has given the
// session up. The next drive follows it, and that is no takeover.

// takeOver notes what came before this drive.
func (l *Lease) takeOver(tx *Tx) {
	s := l.store
	// Here: a drive of this process ended badly. The process lives, so it is no
	// death.
	here := s.exclusive && tx.Incarnation == s.incarnation
	died := tx.Held && !here && !tx.EndedInOrder
	// On an engine of one process a drive may have begun and died before its
	// first commit. Nothing counted that. This drive commits before anything
	// runs, so that it is counted if it dies.
	unknown := s.exclusive && !here && tx.Incarnation != 0 && s.Next(tx.State).Working()
	notUntil := s.TriedAgain(tx.State)
	left := s.local.IsListed(leftList(tx.Agent), tx.ID)
	l.note(func(c *course) {
		c.heir, c.left, c.notUntil = tx.Held, left, notUntil
		c.marked = died || unknown || tx.Takeovers > 0
	})
	tx.EndedInOrder = false
	switch {
	case !died:
		return
	case tx.inFlight(tx.Now):
		tx.Deadly++
	default:
		tx.Deadly = 0
	}
	tx.Takeovers++
	tx.TakenOver = tx.Now
}

// EndInOrder notes that the drive which holds the session was told to end, and
// has ended, except for bodies that don't end. If its process ends next, that
// is no death.
func (tx *Tx) EndInOrder() {
	if tx.Held && !tx.EndedInOrder {
		tx.EndedInOrder = true
		tx.touch()
	}
}

// gotOn forgets the drives that died: the session has got on.
func (tx *Tx) gotOn() { tx.Takeovers, tx.Deadly, tx.TakenOver = 0, 0, time.Time{} }

// inFlight reports whether a drive that died may have died of the session: of a
// body that it may have entered, or of a commit without which the session can't
// go on. An accepted answer that waits is neither, and nor is a model that was
// asked: what follows from the answer rides with the model's message.
func (s *State) inFlight(now time.Time) bool {
	for i := range s.Calls {
		c := &s.Calls[i]
		switch {
		case c.Status == Settled, c.Parked != nil:
		case c.mayRun(), c.Cancel != nil, s.Ending != nil:
			return true
		}
	}
	switch Next(s, now).Kind {
	case StepExpire:
		return true
	case StepClose:
		return s.Ending != nil
	}
	return false
}

// mayRun reports whether the call's body may be running, or have been cut off,
// as far as the head tells.
func (c *Call) mayRun() bool {
	switch {
	case c.Status == Running:
		return true
	case c.Effect.NeedsClaim(): // it would be running
		return false
	}
	return c.Status == Requested || c.Status == Answered &&
		(c.Answer == nil || c.Answer.Mode == tool.ModeReenter)
}

// How long workers wait before they take a session over once more: firstWait
// after the first takeover without progress, and twice as long after each
// further one.
const (
	firstWait = time.Second
	maxWait   = 10 * time.Minute
)

// TriedAgain returns when workers carry on a session whose drives died one
// after the other; zero: at once. Continue and Run need not wait. The time is
// the same in every process. It differs between sessions whose drives died
// together, so that those which did nothing get on while the one that kills
// waits.
func (s *Store) TriedAgain(st *State) time.Time {
	if st.Takeovers == 0 || st.TakenOver.IsZero() {
		return time.Time{}
	}
	wait := maxWait
	if n := st.Takeovers - 1; n < 10 {
		wait = min(wait, firstWait<<n)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(st.ID))
	wait = wait/2 + time.Duration(h.Sum32()%1024)*wait/1024 // half of it to one and a half
	this := mark{count: st.Takeovers, end: st.TakenOver.UnixMilli()}
	return s.soonest(subject{st.ID, sawDeath}, this, st.TakenOver.Add(wait), wait)
}

// NotUntil returns when a worker is to carry on with this drive; zero: at once.
func (l *Lease) NotUntil() time.Time { return l.began().notUntil }
