package session

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// An await is a pause that ends when handles have stopped. It is committed
// first, as registering. Then, some at a time, each handle's record is given
// the await, or is found to have stopped. From then on each end counts once. No
// child is read, and none is changed.

// Awaiting is what a pause keeps of the handles that it waits for.
type Awaiting struct {
	List *Blob `json:"list"` // []Awaited, in the order in which they are registered
	Size int   `json:"size"` // of it
	// Registered counts those of the list that know of the pause, or had
	// stopped.
	Registered int `json:"registered,omitzero"`
	// All counts those that all have to stop, and have not. One of Any has to
	// stop, if there are any.
	All     int  `json:"all,omitzero"`
	Any     bool `json:"any,omitzero"`
	AnyDone bool `json:"any_done,omitzero"`
	// With Success, only one that ended well counts as done. AnyLeft then counts
	// those of Any that have not stopped: without any, the await is over as well.
	Success bool `json:"success,omitzero"`
	AnyLeft int  `json:"any_left,omitzero"`
	// Asked: one of them asks the model, which can't answer while it waits. So
	// the await ends as soon as all are registered.
	Asked bool `json:"asked,omitzero"`
	// Of wait handles of a wider scope: which that is; see widewaits.go. With Permit
	// it waits for a permit of its one handle.
	Scope  string      `json:"scope,omitzero"`
	Permit *PermitWish `json:"permit,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Awaited is one handle that a pause waits for.
type Awaited struct {
	Name  string `json:"name"`
	Child string `json:"child"`
	All   bool   `json:"all,omitzero"`
	Any   bool   `json:"any,omitzero"`
	// Asks is how often it had asked the model when the call looked at it.
	Asks int `json:"asks,omitzero"`
}

// awaitedBy is, in a handle's record, a pause that waits for it.
type awaitedBy struct {
	Call  string `json:"call"`
	Pause int    `json:"pause"`
	All   bool   `json:"all,omitzero"`
	Any   bool   `json:"any,omitzero"`
}

// MaxRegistered is how many handles an await registers in a commit.
const MaxRegistered = 40

// Registering reports whether an await has handles that don't know of it yet.
func (c *Call) Registering() bool {
	return c.Status == Pending && c.Pause.Await != nil && c.Pause.Await.Registered < c.Pause.Await.Size
}

// over reports whether all that an await waits for has come, or the model is
// asked meanwhile.
func (a *Awaiting) over() bool {
	return a.Registered == a.Size &&
		(a.Asked || a.All == 0 && (!a.Any || a.AnyDone || a.noneLeft()))
}

// noneLeft reports whether all of Any have stopped, where that is enough.
func (a *Awaiting) noneLeft() bool { return a.Success && a.AnyLeft == 0 }

// count notes that one of the handles has stopped, and whether it ended well.
func (a *Awaiting) count(all, any, well bool) {
	if all {
		a.All--
	}
	if any && a.Success {
		a.AnyLeft--
	}
	a.AnyDone = a.AnyDone || any && (well || !a.Success)
}

func (a *Awaiting) check() error {
	if a != nil && a.Permit != nil && (a.Scope == "" || a.Permit.Name == "" || a.Permit.Most < 1 || a.Size != 1) {
		return errors.New("it waits for a permit that is incomplete")
	}
	if a != nil && (a.List == nil || a.Size < 1 || a.Registered < 0 || a.Registered > a.Size ||
		a.All < 0 || a.All > a.Size ||
		a.AnyLeft < 0 || a.AnyLeft > a.Size || a.AnyLeft > 0 && !a.Success) {
		return errors.New("what its await has counted doesn't go together")
	}
	return nil
}

// ownAwait returns the await of a call's pause, for a transition to change.
// Readers of the head see the one before.
func (c *Call) ownAwait() *Awaiting {
	p, own := *c.Pause, *c.Pause.Await
	p.Await, c.Pause = &own, &p
	return &own
}

// Register has the next handles of an await know of it. They are those of its
// list from number from on.
func (tx *Tx) Register(call string, pause, from int, next []Awaited) error {
	c, err := tx.live(call)
	if err != nil {
		return err
	}
	if !c.Registering() || c.Pauses != pause || c.Pause.Await.Registered != from ||
		from+len(next) > c.Pause.Await.Size {
		return fmt.Errorf("%w: call %s registers at another place", ErrStale, call)
	}
	tx.touch()
	own := c.ownAwait()
	own.Registered += len(next)
	for _, w := range next {
		h, found, err := tx.handle(w.Name)
		if err != nil {
			return err
		}
		if !found || h.Child != w.Child || !h.Open() {
			own.count(w.All, w.Any, found && h.Child == w.Child && h.endedWell())
			if found && h.Child == w.Child {
				err = tx.countedBy(h, call)
			}
			if err != nil {
				return err
			}
			continue
		}
		own.Asked = own.Asked || h.Asks > w.Asks
		h.Awaits = slices.DeleteFunc(h.Awaits, func(by awaitedBy) bool { return tx.awaiting(by) == nil })
		h.Awaits = append(h.Awaits, awaitedBy{Call: call, Pause: pause, All: w.All, Any: w.Any})
		tx.putHandle(h)
	}
	tx.endAwait(c)
	return nil
}

// awaiting returns the call that waits for a handle, or nil, if it does so no
// more.
func (tx *Tx) awaiting(by awaitedBy) *Call {
	c := tx.Call(by.Call)
	if c == nil || c.Status != Pending || c.Pauses != by.Pause || c.Pause.Await == nil {
		return nil
	}
	return c
}

// countDown tells an await that a handle has stopped, and whether it ended well.
// It reports whether there was one to tell.
func (tx *Tx) countDown(by awaitedBy, well bool) (counted bool, err error) {
	return tx.atAwait(by, func(a *Awaiting) { a.count(by.All, by.Any, well) })
}

// askedMeanwhile tells an await that one of its handles asks the model, and
// reports whether there was one to tell.
func (tx *Tx) askedMeanwhile(by awaitedBy) (told bool, err error) {
	return tx.atAwait(by, func(a *Awaiting) { a.Asked = true })
}

// atAwait changes what a pause keeps of its handles, and ends it if it is over
// then. It reports whether the pause is open.
func (tx *Tx) atAwait(by awaitedBy, change func(*Awaiting)) (open bool, err error) {
	c, err := tx.openAwait(by)
	if c == nil {
		return false, err
	}
	change(c.ownAwait())
	tx.touch()
	tx.endAwait(c)
	return true, nil
}

// openAwait is awaiting, after the expiry of what is overdue.
func (tx *Tx) openAwait(by awaitedBy) (*Call, error) {
	c := tx.awaiting(by)
	if c != nil && c.overdue(tx.Now) {
		if err := tx.expire(c); err != nil {
			return nil, err
		}
		c = tx.awaiting(by)
	}
	return c, nil
}

// endAwait ends an await, if it is over.
func (tx *Tx) endAwait(c *Call) {
	if c.Pause.Await.over() {
		tx.goOnFrom(c, &Answer{})
	}
}

// Interrupt ends an await before its time: the tool is entered again, and its
// handles go on.
func (tx *Tx) Interrupt(call, by string) error {
	c, err := tx.live(call)
	switch {
	case err != nil:
		return err
	case c.Status != Pending || c.Pause.Await == nil:
		return fmt.Errorf("%w: call %s awaits nothing", ErrStale, call)
	}
	tx.goOnFrom(c, &Answer{Actor: by, Interrupted: true})
	return nil
}

// goOnFrom has the tool of an await entered again.
func (tx *Tx) goOnFrom(c *Call, a *Answer) {
	a.Pause, a.Kind, a.At = c.Pauses, KindEvent, tx.Now
	a.Payload = &Blob{Inline: []byte("null")}
	tx.unlist(c)
	tx.accept(c, a)
	tx.gotOn()
}

// awaitOf returns what a pause keeps of the handles that it waits for.
func (tx *Tx) awaitOf(c *Call, h *Hold) *Awaiting {
	if len(h.Awaited) == 0 {
		return nil
	}
	a := &Awaiting{List: tx.place(h.AwaitedList), Size: len(h.Awaited),
		Success: h.Await.Handles != nil && h.Await.Handles.Success, Scope: h.Scope}
	if h.Await.Handles != nil && h.Await.Handles.Permit != nil {
		p := h.Await.Handles.Permit
		a.Permit = &PermitWish{Name: h.Awaited[0].Name, Most: p.Most, Priority: p.Priority,
			Before: p.Before, Unbegun: p.Before && c.notEntered()}
	}
	for _, w := range h.Awaited {
		if w.All {
			a.All++
		}
		if w.Any && a.Success {
			a.AnyLeft++
		}
		a.Any = a.Any || w.Any
	}
	tx.outdates()
	return a
}

// Awaiting returns the calls of the open turn that await handles, but for those
// that wait for a permit: such a wait isn't interrupted.
func (s *State) Awaiting() (calls []string) {
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Status == Pending && c.Pause.Await != nil && c.Pause.Await.Permit == nil {
			calls = append(calls, c.ID)
		}
	}
	return calls
}

// OnlyAwaits returns the calls of the open turn that await handles, if no other
// is open.
func (s *State) OnlyAwaits() []string {
	calls, open := s.Awaiting(), 0
	for i := range s.Calls {
		if s.Calls[i].Status != Settled {
			open++
		}
	}
	if open > len(calls) {
		return nil
	}
	return calls
}
