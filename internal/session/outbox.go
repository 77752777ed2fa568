package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
)

// Errand is something that a session owes to another one. It stands in the
// sender's head from the commit that made it due until the receiver has it, and
// the sender stays due that long, in the wake index: also one that was halted,
// cancelled or deleted. So no crash loses it. It may be carried out more than
// once, and the receiver takes it once.
//
// An errand needs no lease. Each process that finds one may carry it out.
type Errand struct {
	Kind ErrandKind `json:"kind"`
	To   string     `json:"to,omitzero"`   // the receiver
	Call string     `json:"call,omitzero"` // of the receiver
	// Of a cancellation.
	Actor string `json:"by,omitzero"`
	Why   string `json:"why,omitzero"`
	// At is when it is tried; zero: at once.
	At   time.Time `json:"at,omitzero"`
	Undo *Undo     `json:"undo,omitzero"` // of ErrandUndo, whose call is the session's own
	// Permit is of ErrandRelease, whose call is the session's own.
	Permit *HeldPermit `json:"permit,omitzero"`
	// Number tells errands of a kind apart: of ErrandAsks and ErrandRelease, the
	// pause. Upto is of ErrandAbort.
	Number int       `json:"n,omitzero"`
	Upto   int       `json:"upto,omitzero"`
	Event  *EndEvent `json:"event,omitzero"` // of ErrandEvent

	Rest strictjson.Rest `json:"-"` // of a later version
}

// ErrandKind is what an errand does.
type ErrandKind string

// The errands.
const (
	ErrandEnd    ErrandKind = "end"    // tells a parent that its child's run is over
	ErrandCancel ErrandKind = "cancel" // ends the run of a child
	ErrandDisown ErrandKind = "disown" // deletes the children of a deleted session
	ErrandAbort  ErrandKind = "abort"  // ends handles, see abort.go
	ErrandAsks   ErrandKind = "asks"   // tells a parent that a handle waits for an answer
	ErrandUndo   ErrandKind = "undo"   // has a tool call off what a call had begun, see undo.go
	ErrandEvent  ErrandKind = "event"  // tells a call of another session that a run is over
	// ErrandRelease gives a permit back that a call has held, see widewaits.go.
	ErrandRelease ErrandKind = "release"
)

// check returns what is wrong with an errand that was read.
func (e *Errand) check() error {
	switch e.Kind {
	case ErrandEnd, ErrandCancel:
		if e.To == "" || e.Kind == ErrandEnd && e.Call == "" {
			return fmt.Errorf("the errand %q has no receiver", e.Kind)
		}
	case ErrandAsks:
		if e.To == "" || e.Number < 1 {
			return fmt.Errorf("the errand %q is incomplete", e.Kind)
		}
	case ErrandAbort:
		if e.Number < 1 || e.Upto < 0 {
			return fmt.Errorf("the errand %q is incomplete", e.Kind)
		}
	case ErrandDisown:
	case ErrandEvent:
		if e.Event == nil || e.To == "" || e.To != e.Event.Session {
			return fmt.Errorf("the errand %q is incomplete", e.Kind)
		}
		return e.Event.Check()
	case ErrandUndo:
		if e.Call == "" {
			return errors.New("an undo is of no call")
		}
		return e.Undo.check()
	case ErrandRelease:
		if e.Call == "" || e.Permit == nil {
			return errors.New("a permit is given back by no call, or is none")
		}
		return e.Permit.check()
	default:
		return fmt.Errorf("unknown errand %q", e.Kind)
	}
	return nil
}

// Same reports whether two errands are one.
func (e *Errand) Same(o *Errand) bool {
	return e.Kind == o.Kind && e.To == o.To && e.Call == o.Call && e.Number == o.Number &&
		(e.Event == nil || o.Event == nil || e.Event.ID == o.Event.ID)
}

// owe puts an errand into the outbox, unless it is there.
func (tx *Tx) owe(e Errand) {
	tx.touch()
	for i := range tx.Outbox {
		if tx.Outbox[i].Same(&e) {
			return
		}
	}
	tx.Outbox = append(tx.Outbox, e)
	tx.owed = true
	tx.outdates()
}

// Tells reports whether the outbox has a child's end.
func (s *State) Tells() bool {
	return slices.ContainsFunc(s.Outbox, func(e Errand) bool { return e.Kind == ErrandEnd })
}

// carriedOut takes errands out of the outbox.
func (tx *Tx) carriedOut(all []Errand) {
	left := slices.DeleteFunc(tx.Outbox, func(e Errand) bool {
		return slices.ContainsFunc(all, func(o Errand) bool { return e.Same(&o) })
	})
	if len(left) < len(tx.Outbox) {
		tx.touch()
	}
	tx.Outbox = left
}

// Owes reports whether something is on its way to another session, and so
// whether callers wait for it. What a tool is to call off isn't: it may take
// days, and nothing waits for it. Nor does a caller wait for a permit that is
// given back.
func (s *State) Owes() bool {
	return slices.ContainsFunc(s.Outbox, func(e Errand) bool {
		return e.Kind != ErrandUndo && e.Kind != ErrandRelease
	})
}

// OwesAt returns when the first errand is due by itself, if one is; zero: at
// once. What was given up isn't due, and what waits for a tool that is gone.
func (s *State) OwesAt() (first time.Time, owes bool) {
	for i := range s.Outbox {
		at, due := s.Outbox[i].waits()
		if due && (!owes || at.Before(first)) {
			first, owes = at, true
		}
	}
	return first, owes
}

// OwesBy reports whether an errand is due at a time.
func (s *State) OwesBy(now time.Time) bool {
	at, owes := s.OwesAt()
	return owes && !at.After(now)
}

// HasErrands reports whether the outbox holds anything, due or not.
func (s *State) HasErrands() bool { return len(s.Outbox) > 0 }

// report is part of each commit. If by it a child's run is over, the parent is
// to be told. A run that was interrupted goes on.
func (tx *Tx) report() {
	tx.concludes()
	tx.oweEndEvents()
	if tx.Parent == nil || tx.Parent.Told || !tx.runOver() {
		return
	}
	own := *tx.Parent // readers of the head see that one: it must not change
	own.Told = true
	tx.Parent = &own
	step := own.step()
	tx.owe(Errand{Kind: ErrandEnd, To: step.Session, Call: step.Call})
}

// runOver reports whether nothing but a caller would carry the run on.
func (s *State) runOver() bool {
	switch {
	case !s.Deleted.IsZero():
		return true
	case s.Halt != nil:
		return s.Ending == nil && s.Halt.Finish != event.FinishInterrupted
	case s.isHandle():
		return !s.Ended.IsZero()
	}
	return len(s.Calls) == 0 && !s.Due && s.Linger == nil && s.Finish != ""
}

// CancelChild ends the run of a child whose parent goes on without it.
func (tx *Tx) CancelChild(by, why string) {
	if !tx.runOver() && tx.Ending == nil {
		tx.End(event.FinishCancelled, by, why)
	}
}

// Owing is what couriers are told of a session.
type Owing struct {
	Session string
	// Root is the tree whose callers wait for what is owed; empty: none does.
	Root  string
	Over  bool // it is a child whose end its parent is to be told
	Fresh bool // the commit has put something into the outbox, or changed it there
}

// Owing is what couriers are told of the session, as it is.
func (s *State) Owing() Owing {
	o := Owing{Session: s.ID}
	if s.Owes() {
		o.Root = s.Root()
	}
	return o
}

// owing is what couriers are told of a commit, and whether they are: it leaves
// something that is due, or has changed when that will be.
func (tx *Tx) owing() (o Owing, calls bool) {
	at, owes := tx.OwesAt()
	if !owes || !tx.owed && at.After(tx.Now) {
		return o, false
	}
	o = tx.Owing()
	o.Over, o.Fresh = tx.Tells(), tx.owed
	return o, true
}

// OnErrands has f called after each commit of this Store that changes a
// session's outbox, or leaves something in it that is due. F must not wait.
func (s *Store) OnErrands(f func(Owing)) (stop func()) { return s.couriers.Add(f) }

// CallCouriers has what a session owes looked at, as a commit of this Store
// does. A test of a whole process calls it in place of a worker.
func (s *Store) CallCouriers(st *State) { s.couriers.Tell(st.Owing()) }

// Deliver carries out what a session owes to others. It returns the sessions
// that it told something, which may have work now. An errand that fails stays
// in the outbox, and [Undelivered] tells why.
func (s *Store) Deliver(ctx context.Context, id string) (told []string, err error) {
	h, err := s.head(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	st := h.lend()
	var done []Errand
	var errs []error
	for _, e := range st.Outbox {
		if e.Kind == ErrandUndo { // that needs the tool
			continue
		}
		also, err := s.carryOut(ctx, st, &e)
		told = append(told, also...)
		if err != nil {
			errs = append(errs, &UndeliveredError{Session: id, Errand: e, Err: err})
			continue
		}
		done = append(done, e)
		if e.To != "" {
			told = append(told, e.To)
		}
	}
	if len(done) > 0 {
		errs = append(errs, s.Update(ctx, id, func(tx *Tx) error {
			tx.carriedOut(done)
			return nil
		}))
	}
	return told, errors.Join(errs...)
}

// carryOut carries one errand out. It returns the sessions that it told
// something, beside the receiver.
func (s *Store) carryOut(ctx context.Context, st *State, e *Errand) (told []string, err error) {
	switch e.Kind {
	case ErrandEnd:
		var end *ChildEnd
		if end, err = s.childEnd(ctx, st, e); err == nil {
			err = s.tell(ctx, e.To, func(tx *Tx) error { return tx.ChildEnded(end, s.Fits(ctx)) })
		}
	case ErrandCancel:
		err = s.tell(ctx, e.To, func(tx *Tx) error { tx.CancelChild(e.Actor, e.Why); return nil })
	case ErrandAsks:
		err = s.asks(ctx, st, e)
	case ErrandAbort:
		told, err = s.abort(ctx, st, e)
	case ErrandDisown:
		err = s.disown(ctx, st.ID)
	case ErrandEvent:
		err = s.tellEndEvent(ctx, st, e)
	case ErrandRelease:
		err = s.giveBack(ctx, st.ID, e.Permit)
	}
	if errors.Is(err, ErrUnknownSession) { // it is gone, and so is what it was to be told
		err = nil
	}
	return told, err
}

// byParent is the actor where a session goes with the one above it.
const byParent = "parent"

// disown deletes the children of a session, some at a time. One that can't be
// deleted keeps no other: it stays in the index, and is tried again with the
// errand.
func (s *Store) disown(ctx context.Context, parent string) error {
	var errs []error
	r := kvstore.Range{Prefix: kvstore.Key("f", parent), Limit: 40}
	for {
		page, err := s.kv.Scan(ctx, r)
		if err != nil {
			return err
		}
		var gone kvstore.Batch
		for _, e := range page.Entries {
			r.After = e.Key
			if err := s.disownOne(ctx, lastPart(e.Key)); err != nil {
				if ctx.Err() != nil {
					return err
				}
				errs = append(errs[:min(len(errs), maxSweepErrors)], err)
				continue
			}
			gone.Deletes = append(gone.Deletes, e.Key)
		}
		if len(gone.Deletes) > 0 {
			if err := s.repeat(ctx, gone); err != nil {
				return err
			}
		}
		if !page.More {
			return errors.Join(errs...)
		}
	}
}

// disownOne deletes one child, and those below it.
func (s *Store) disownOne(ctx context.Context, child string) error {
	err := s.Delete(ctx, child, byParent)
	if err == nil {
		_, err = s.Deliver(ctx, child)
	}
	if errors.Is(err, ErrUnknownSession) {
		return nil
	}
	return err
}
