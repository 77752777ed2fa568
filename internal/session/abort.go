package session

import (
	"context"
	"errors"
	"slices"

	"github.com/fermata-ai/fermata/tool"
)

// Handles that are ended by their session, and what handles ask.

// abortAll has all handles ended that are open, and not kept by their policy.
func (tx *Tx) abortAll(by, why string) {
	if tx.Handles > 0 {
		tx.oweAbort(by, why, tx.Children)
	}
}

// oweAbort has those handles ended whose record says so, and of the others
// those up to a number. However many they are, that is one errand. It goes
// through the records, which lie beside the head, and the session stays due
// until each child is told.
func (tx *Tx) oweAbort(by, why string, upto int) {
	tx.Aborts++
	e := Errand{Kind: ErrandAbort, Number: tx.Aborts, Actor: by, Why: brief(why), Upto: upto}
	tx.Outbox = slices.DeleteFunc(slices.Clone(tx.Outbox), func(o Errand) bool {
		return o.Kind == e.Kind && o.Actor == e.Actor && o.Why == e.Why && o.Upto <= e.Upto
	})
	tx.owe(e)
}

// ends reports whether an errand ends the handle.
func (e *Errand) ends(h *Handle) bool {
	return h.Open() && (h.Abort || h.Number <= e.Upto && h.Policy.AtEnd != tool.KeepAtEnd)
}

// abort tells children that they are to end, some at a time. One that can't be
// told keeps no other.
func (s *Store) abort(ctx context.Context, st *State, e *Errand) (told []string, err error) {
	var errs []error
	for h, err := range s.AllHandles(ctx, st.ID) {
		if err != nil {
			return told, errors.Join(append(errs, err)...)
		}
		if !e.ends(&h) {
			continue
		}
		err := s.tell(ctx, h.Child, func(tx *Tx) error { tx.CancelChild(e.Actor, e.Why); return nil })
		switch {
		case err == nil:
			told = append(told, h.Child)
		case errors.Is(err, ErrUnknownSession):
		case ctx.Err() != nil:
			return told, err
		default:
			errs = append(errs[:min(len(errs), maxSweepErrors)], err)
		}
	}
	return told, errors.Join(errs...)
}

// oweAsks has the parent of a handle told that its call waits for an answer.
func (tx *Tx) oweAsks(c *Call) {
	if !tx.isHandle() || c.Status != Pending || !WaitsForWord(c.Pause.Reason) {
		return
	}
	step := tx.Parent.step()
	tx.owe(Errand{Kind: ErrandAsks, To: step.Session, Call: step.Call, Number: c.Pauses})
}

// WaitsForWord reports whether a pause of that reason waits for what someone
// says, and not for something that is under way.
func WaitsForWord(r tool.Reason) bool {
	return r.Person() || r == tool.ReasonUnknown || r == tool.ReasonAssistant
}

// asks tells a parent that a handle waits, if it still does.
func (s *Store) asks(ctx context.Context, st *State, e *Errand) error {
	if len(st.Calls) != 1 {
		return nil
	}
	c := &st.Calls[0]
	if c.Status != Pending || c.Pauses != e.Number {
		return nil
	}
	asks := Asking{Name: st.Parent.Handle, Child: st.ID, Pause: e.Number,
		Assistant: c.Pause.Reason == tool.ReasonAssistant}
	return s.tell(ctx, e.To, func(tx *Tx) error { return tx.HandleAsks(asks) })
}

// AsksLive tells the parent of a handle that its body asks while it runs. It
// returns the parent. The caller tells of each question once: a body lives in
// one process, and with it goes what it asked.
func (s *Store) AsksLive(ctx context.Context, child string, assistant bool) (string, error) {
	st, err := s.Load(ctx, child)
	if err != nil || !st.isHandle() {
		return "", err
	}
	parent, asks := st.Parent.step().Session, Asking{st.Parent.Handle, child, 0, assistant}
	return parent, s.tell(ctx, parent, func(tx *Tx) error { return tx.HandleAsks(asks) })
}

// Asking is that a handle waits for an answer.
type Asking struct {
	Name, Child string
	Pause       int  // of its call; zero: its body runs
	Assistant   bool // the answer is the model's to give
}

// HandleAsks has the model told, once for each pause, that a handle waits for an
// answer, unless a call awaits the handle. If the answer is the model's to give,
// what awaits the handle ends, and tells of it, and a run that waits for the
// handle goes on for it.
func (tx *Tx) HandleAsks(a Asking) error {
	h, found, err := tx.handle(a.Name)
	if err != nil || !found || h.Child != a.Child || !h.Open() ||
		a.Pause > 0 && h.Asked >= a.Pause {
		return err
	}
	awaits, err := tx.awaitsAsked(h, a.Assistant)
	if err != nil || !a.Assistant && (h.Policy.NoWaiting || len(awaits) > 0) {
		return err
	}
	h.Asked = max(h.Asked, a.Pause)
	if !h.Policy.NoWaiting {
		tx.notify(h, a.Assistant && !h.Kept, awaits...)
	}
	tx.putHandle(h)
	if a.Assistant && !h.Policy.NoWaiting && tx.Lingering() && tx.lingersFor(h) {
		tx.speakAgain()
	}
	return nil
}

// awaitsAsked returns the calls that await a handle which asks. If it asks the
// model, they end: their replies tell of the question, as a notice does if none
// of them comes to a reply.
func (tx *Tx) awaitsAsked(h *Handle, assistant bool) (calls []string, err error) {
	if assistant {
		h.Asks++
	}
	for _, by := range h.Awaits {
		open := tx.awaiting(by) != nil
		if open && assistant {
			if open, err = tx.askedMeanwhile(by); err != nil {
				return nil, err
			}
		}
		if open {
			calls = append(calls, by.Call)
		}
	}
	return calls, nil
}
