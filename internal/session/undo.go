package session

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// A call that ends while it waits may have begun something outside. If its tool
// can call that off, the commit that ends the call puts an errand into the
// outbox. The errand has all that the tool needs, so it outlives the turn and
// the session. A process that has the tool takes a try of it by a commit, has
// the tool do it, and takes it out, or notes the failure, by another commit.
//
// A try is taken until a time at which it is over in any case. So of several
// processes one has it, and one that dies leaves it to the next.

// Undo is what an errand of kind ErrandUndo is about.
type Undo struct {
	Agent   string      `json:"agent,omitzero"` // whose tool it is: the session may be handed over
	Tool    string      `json:"tool"`
	Turn    int         `json:"turn"`
	Attempt int         `json:"attempt,omitzero"`
	Effect  tool.Effect `json:"effect,omitzero"`
	Number  int         `json:"number"`          // of the pause
	Pause   *Pause      `json:"pause"`           // that ended
	Answer  *Answer     `json:"answer,omitzero"` // that the entry had brought
	Cause   tool.Cause  `json:"cause"`
	Ended   time.Time   `json:"ended"`
	Tries   Tries       `json:"tries,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Tries is how far an undo has come.
type Tries struct {
	Count  int       `json:"n,omitzero"`       // that were taken since it was last asked for
	Number int       `json:"number,omitzero"`  // of the last that was taken
	Runs   bool      `json:"runs,omitzero"`    // that one isn't over, or its process died
	Failed string    `json:"failed,omitzero"`  // what the last one came to that failed
	GaveUp time.Time `json:"gave_up,omitzero"` // no more is made by itself
	Parked bool      `json:"parked,omitzero"`  // its agent has no tool that could do it

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (u *Undo) check() error {
	switch {
	case u == nil || u.Tool == "" || u.Number < 1 || u.Cause == "" || u.Ended.IsZero():
		return errors.New("an undo is incomplete")
	case u.Pause == nil || u.Pause.Undo == nil || min(u.Tries.Count, u.Tries.Number) < 0:
		return errors.New("an undo has no pause")
	case u.Answer != nil && (u.Answer.Pause < 1 || u.Answer.Payload == nil):
		return errors.New("the answer in an undo is incomplete")
	}
	return u.Pause.check()
}

// oweUndo has the tool called on whose call ends while it waits, if that tool
// can call off what it has begun.
func (tx *Tx) oweUndo(c *Call, number int, p *Pause, cause tool.Cause, by, why string) {
	if p == nil || p.Undo == nil || cause == "" {
		return
	}
	cause, why = tx.causeOf(c, cause, why)
	tx.owe(Errand{Kind: ErrandUndo, Call: c.ID, Actor: by, Why: brief(why), Undo: &Undo{
		Agent: tx.Agent, Tool: c.Tool, Turn: tx.Turn, Attempt: c.Attempt, Effect: c.Effect,
		Number: number, Pause: p,
		Answer: c.Answer, Cause: cause, Ended: tx.Now,
	}})
}

// causeOf returns why a call ends that is said to end so. If its run does, it is
// why the actor said who ended that.
func (tx *Tx) causeOf(c *Call, cause tool.Cause, why string) (tool.Cause, string) {
	if cause != tool.CauseCancelled || c.Cancel != nil || tx.Ending == nil {
		return cause, why
	}
	if tx.Ending.Finish == event.FinishCancelled {
		why = tx.Ending.Why
	}
	return tool.CauseRunEnded, why
}

// Abandon settles a call whose body has asked for a pause while the call, or
// its run, was being cancelled. What the body began is called off, as if it had
// paused.
func (tx *Tx) Abandon(call string, h *Hold, o *Outcome) error {
	c, err := tx.live(call)
	if err != nil {
		return err
	}
	was := *c
	if err := tx.settle(c, o); err != nil {
		return err
	}
	tx.oweUndo(&was, was.Pauses+1, tx.pauseOf(&was, h), o.Cause, o.Actor, o.Why)
	return nil
}

// Undo returns what is owed of a call that ended while it waited.
func (s *State) Undo(call string) (Errand, bool) {
	for _, e := range s.Outbox {
		if e.Kind == ErrandUndo && e.Call == call {
			return e, true
		}
	}
	return Errand{}, false
}

// waits returns when an errand is tried next, and whether it is by itself.
func (e *Errand) waits() (at time.Time, due bool) {
	if u := e.Undo; u != nil && (u.Tries.Parked || !u.Tries.GaveUp.IsZero()) {
		return time.Time{}, false
	}
	return e.At, true
}

// changeUndo changes what is owed of a call. Readers of the head see the old
// one. If nothing is owed, it is ErrNoUndo.
func (tx *Tx) changeUndo(call string, f func(e *Errand, t *Tries) error) error {
	for i := range tx.Outbox {
		e := &tx.Outbox[i]
		if e.Kind != ErrandUndo || e.Call != call {
			continue
		}
		was, own := *e, *e.Undo
		e.Undo = &own
		if err := f(e, &own.Tries); err != nil {
			*e = was
			return err
		}
		tx.listUndo(e)
		tx.touch()
		tx.owed = true
		return nil
	}
	return fmt.Errorf("%w of call %s", ErrNoUndo, call)
}

// listed reports whether what they are of is in the list of what didn't come off
// at once.
func (t *Tries) listed() bool { return t.Failed != "" || t.Parked || !t.GaveUp.IsZero() }

// listUndo keeps what didn't come off at once in the list of those.
func (tx *Tx) listUndo(e *Errand) {
	if e.Undo.Tries.listed() {
		tx.putJSON(undoKey(tx.ID, e.Call), listedUndo{})
	}
}

// listedUndo is what the list of what didn't come off knows of an undo: nothing
// but that it is there.
type listedUndo struct{}

// TakeUndo takes the next try of an undo, if it is due. Until then no other
// process takes one.
func (tx *Tx) TakeUndo(call string, until time.Time) (taken Errand, err error) {
	err = tx.changeUndo(call, func(e *Errand, t *Tries) error {
		if at, due := e.waits(); !due || at.After(tx.Now) {
			return fmt.Errorf("%w: calling off call %s is not due", ErrStale, call)
		}
		t.Count++
		t.Number, t.Runs = t.Number+1, true
		e.At = until
		taken = *e
		return nil
	})
	return taken, err
}

// ended changes an undo after a try, unless a later try was taken meanwhile.
func (tx *Tx) ended(call string, try int, f func(e *Errand, t *Tries)) error {
	return tx.changeUndo(call, func(e *Errand, t *Tries) error {
		if t.Number != try {
			return fmt.Errorf("%w: try %d to call off call %s is over", ErrStale, try, call)
		}
		t.Runs = false
		f(e, t)
		return nil
	})
}

// UndoFailed notes that a try failed, and when the next one is made; zero: none
// is. If the undo was asked for anew meanwhile, the next one is made at once.
func (tx *Tx) UndoFailed(call string, try int, why string, next time.Time) error {
	return tx.ended(call, try, func(e *Errand, t *Tries) {
		t.Failed = brief(why)
		switch e.At = next; {
		case t.Count == 0:
			e.At = time.Time{}
		case next.IsZero():
			t.GaveUp = tx.Now
		}
	})
}

// UndoInterrupted gives a try back that was cut off in order.
func (tx *Tx) UndoInterrupted(call string, try int) error {
	return tx.ended(call, try, func(e *Errand, t *Tries) {
		t.Count = max(t.Count-1, 0)
		e.At = time.Time{}
	})
}

// ParkUndo notes that the agent has no tool that could call off what the call
// began, or that it has one again.
func (tx *Tx) ParkUndo(call string, parked bool) error {
	return tx.changeUndo(call, func(e *Errand, t *Tries) error {
		t.Parked = parked
		return nil
	})
}

// RetryUndo has an undo tried from the beginning, whatever became of it so far.
// A try that is under way goes on: the next one follows if it fails, or once its
// time is over.
func (tx *Tx) RetryUndo(call string) error {
	return tx.changeUndo(call, func(e *Errand, t *Tries) error {
		t.Count, t.GaveUp, t.Parked = 0, time.Time{}, false
		if !t.Runs {
			e.At = time.Time{}
		}
		return nil
	})
}

// UndoDone takes an undo out of the outbox: it was carried out, or is to be
// left. If it is not there, it is ErrNoUndo.
func (tx *Tx) UndoDone(call string) error {
	e, found := tx.Undo(call)
	if !found {
		return fmt.Errorf("%w of call %s", ErrNoUndo, call)
	}
	tx.carriedOut([]Errand{e})
	if e.Undo.Tries.listed() {
		tx.delete(undoKey(tx.ID, call))
	}
	return nil
}

// undoTool is the name under which a session is in the index of what is parked,
// if what it waits for is a tool that can call off a call. No tool has such a
// name.
func undoTool(u *Undo) string { return undoMark + u.Tool + " " + u.Agent }

// UndoTool returns the tool that such a name is about, and its agent.
func UndoTool(name string) (tool, agent string, ok bool) {
	if name, ok = strings.CutPrefix(name, undoMark); ok {
		tool, agent, ok = strings.Cut(name, " ") // a tool's name has no space
	}
	return tool, agent, ok
}

const undoMark = "cancel of "
