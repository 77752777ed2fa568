package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// A handle is a child of one call and no model: what a model, or a program, has
// begun and goes on beside. Its parent keeps a record of it under a name. The
// name points to the newest child that has it, and may be used again once that
// one has stopped.
//
// The record is the parent's own, and is only written together with the
// parent's head. So it tells the truth about what the parent has been told: an
// end is on its way as an errand of the child until it stands here.

// Handle is what a parent keeps of a child that has a name.
type Handle struct {
	Name  string    `json:"name"`
	Tool  string    `json:"tool"`
	Child string    `json:"child"` // its session
	Call  string    `json:"call"`  // that session's one call
	Since time.Time `json:"since"`
	// How it ended, once that has come; zero: it is open.
	Ended  time.Time    `json:"ended,omitzero"`
	Status event.Status `json:"status,omitzero"`
	// Told: a result, or a notice, has shown the end.
	Told bool `json:"told,omitzero"`
	// Shown is how much of its content the last reply had come to, in bytes.
	Shown int `json:"shown,omitzero"`
	// Noticed is how much of it the last notice had come to, if that was cut.
	Noticed int         `json:"noticed,omitzero"`
	Awaits  []awaitedBy `json:"awaits,omitempty"`

	// Number tells which of the session's children it is.
	Number int               `json:"n,omitzero"`
	Policy tool.HandlePolicy `json:"policy,omitzero"`
	Limit  int               `json:"limit,omitzero"` // the policy's, in milliseconds
	// Kept: the end of a run doesn't wait for it. With Abort it is being ended.
	Kept  bool `json:"kept,omitzero"`
	Abort bool `json:"abort,omitzero"`
	// Linger is the last time that a run lingered for it, by Linger.Turn, and
	// Until how long.
	Linger int       `json:"linger,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	// Asked is the last pause of its call of which the model was to be told.
	Asked int `json:"asked,omitzero"`
	// Asks is how often it has asked the model. An await that has seen fewer
	// questions ends.
	Asks int `json:"asks,omitzero"`
	// Notice is the number of the last notice of it.
	Notice int `json:"notice,omitzero"`
	// Wait is there of a wait handle, see waits.go.
	Wait *Wait `json:"wait,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Open reports whether the handle has not stopped, as far as its parent knows.
func (h *Handle) Open() bool { return h.Ended.IsZero() }

// endedWell reports whether the handle has stopped with a result.
func (h *Handle) endedWell() bool { return h.Status == event.Done }

// check returns what is wrong with a record.
func (h *Handle) check() error {
	switch {
	case h.Name == "" || h.Tool == "" || h.Child == "" || h.Call == "" || h.Since.IsZero():
		return errIncomplete
	case h.Ended.IsZero() != (h.Status == ""):
		return fmt.Errorf("its end is incomplete")
	case h.Shown < 0 || h.Noticed < 0 || h.Number < 0 || h.Linger < 0 || h.Asked < 0 || h.Limit < 0,
		h.Notice < 0, h.Asks < 0:
		return fmt.Errorf("a negative amount of its content was shown, or another count is negative")
	case !h.Open() && len(h.Awaits) > 0:
		return fmt.Errorf("it has ended, and is awaited")
	case h.Abort && !h.Kept:
		return fmt.Errorf("it is aborted, and yet a run waits for it")
	}
	if err := h.Policy.Check(); err != nil {
		return err
	}
	if err := h.Wait.check(); err != nil {
		return err
	}
	return checkSettled(h.Status)
}

func (h *Handle) liesAt(key []byte) bool { return endsWith(key, h.Name) }

func handleKey(session, name string) []byte { return kvstore.Key("z", session, name) }

// handle reads the record of a name.
func (tx *Tx) handle(name string) (h *Handle, found bool, err error) {
	h = new(Handle)
	found, err = tx.read(handleKey(tx.ID, name), h)
	return h, found, err
}

func (tx *Tx) putHandle(h *Handle) { tx.putJSON(handleKey(tx.ID, h.Name), h) }

// NewHandle is a handle in the making.
type NewHandle struct {
	Name    string
	Policy  tool.HandlePolicy
	Call    Call   // the child's, as it is asked for
	Message *Entry // that asks for it
	Limits  Left   // of the parent's agent
	// TokenKey signs the tokens of the call; 0: the key of the open turn.
	TokenKey int
	Wait     *Wait // of a wait handle
}

// BeginOnce is Begin for a program, which names the call by an id of its own
// making. Under the same id again nothing is begun.
func (tx *Tx) BeginOnce(call string, n *NewHandle) (begun bool, err error) {
	if err := tx.notDeleted(call); err != nil {
		return false, err
	}
	if found, err := tx.read(headKey(HandleID(call)), new(State)); err != nil || found {
		return false, err
	}
	if tx.Ending != nil {
		return false, fmt.Errorf("%w: the run of session %q", ErrCancelled, tx.ID)
	}
	return true, tx.Begin(call, n)
}

// Begin makes a handle for a call of this session: one of the open turn, or one
// that only names what a program has begun. The head of its child is written in
// this commit, and must not be there before.
func (tx *Tx) Begin(call string, n *NewHandle) error {
	if err := tx.freeName(n.Name); err != nil {
		return err
	}
	c := Call{ID: call, Tool: n.Call.Tool}
	id := HandleID(call)
	child, err := tx.newChild(id, &c, tx.Within(n.Limits))
	if err != nil {
		return err
	}
	child.Agent, child.Parent.Handle = tx.Agent, n.Name
	child.Turn, child.Calls = 1, []Call{n.Call}
	child.Asked, child.TokenKey = tx.Now, cmp.Or(n.TokenKey, tx.TokenKey)
	tx.writeChild(child, n.Message)
	h := &Handle{Name: n.Name, Tool: n.Call.Tool, Child: id, Call: n.Call.ID, Since: tx.Now,
		Number: tx.Children, Policy: n.Policy, Limit: int(n.Policy.Limit.Milliseconds()), Wait: n.Wait}
	tx.Handles++
	if h.Policy.AtEnd == tool.KeepAtEnd {
		tx.keep(h)
	}
	if h.Policy.NewContent {
		tx.Telling++
	}
	tx.listWait(h)
	tx.putHandle(h)
	return nil
}

// HandleID returns the id of the child that a call begins as a handle.
func HandleID(call string) string { return ChildPrefix + call }

// IsHandle reports whether an id is that of a handle's child, if it is a
// child's at all.
func IsHandle(id string) bool { return IsChild(id) && !strings.Contains(id, ".") }

// ActionSpawn is the action of a call that begins a handle. Other actions are
// the business of their tools.
const ActionSpawn = "spawn"

// ActionAwait is the action of a call of the tool that awaits handles.
const ActionAwait = "await"

// HandleShown is what a reply has told of a handle: its content up to some byte,
// and perhaps its end.
type HandleShown struct {
	Name, Child string
	Shown       int // bytes
	Noticed     int // bytes, by a notice that was cut
	Told        bool
	// Progress, of a wait handle, is what the call tells of it; empty: nothing.
	Progress []byte
}

// handleActs makes the changes at handles that go with a call's end, or pause.
func (tx *Tx) handleActs(c *Call, begins *NewHandle, shown []HandleShown) error {
	if begins != nil {
		if err := tx.Begin(c.ID, begins); err != nil {
			return err
		}
	}
	for i := range shown {
		if err := tx.shown(&shown[i]); err != nil {
			return err
		}
	}
	return nil
}

// shown notes what was told of a handle.
func (tx *Tx) shown(s *HandleShown) error {
	h, found, err := tx.handle(s.Name)
	switch {
	case err != nil || !found:
		return err
	case h.Child != s.Child:
		return tx.shownOfOld(s)
	}
	h.Shown, h.Told = max(h.Shown, s.Shown), h.Told || s.Told
	h.Noticed = max(h.Noticed, s.Noticed)
	if len(s.Progress) > 0 && h.Wait != nil {
		h.Wait.Progress, h.Wait.ProgressAt = s.Progress, tx.Now
	}
	tx.putHandle(h)
	return nil
}

// handleEnded takes the end of a handle, once. Awaits that wait for it count
// down. If none of them comes to a result, the model is told by a notice.
func (tx *Tx) handleEnded(e *ChildEnd) error {
	h, found, err := tx.handle(e.Handle)
	if err != nil || !found || h.Child != e.Child || !h.Open() {
		return err
	}
	tx.unlistWait(h)
	h.Ended, h.Status = tx.Now, e.Outcome.Status
	if h.Wait != nil {
		h.Wait.End = e.Came
	}
	tx.listWait(h)
	waiting := h.Awaits
	h.Awaits = nil
	tx.Handles = max(0, tx.Handles-1)
	tx.Run.Usage = tx.Run.Usage.Add(e.Usage)
	tx.Run.Turns, tx.Run.Calls = tx.Run.Turns+e.Turns, tx.Run.Calls+e.Calls
	lingered := tx.lingersFor(h)
	var awaits []string
	for _, w := range waiting {
		counted, err := tx.countDown(w, h.endedWell())
		if err != nil {
			return err
		}
		if counted {
			awaits = append(awaits, w.Call)
		}
	}
	if !h.Told && (lingered || h.tellsEnd()) {
		tx.notify(h, !h.Kept, awaits...)
	}
	tx.putHandle(h)
	tx.handleLeft(h, lingered)
	return nil
}

// tellsEnd reports whether the model is told of the handle's end by a notice.
func (h *Handle) tellsEnd() bool {
	if h.Status == event.Done {
		return !h.Policy.NoSuccess
	}
	return !h.Policy.NoFailure
}

// isHandle reports whether the session is of one call and no model.
func (s *State) isHandle() bool { return s.Parent != nil && s.Parent.Handle != "" }

// WasHandle reports whether the session is that of a handle which another session
// has, or had, under a name.
func (s *State) WasHandle(of, name string) bool {
	return s.isHandle() && s.Parent.Handle == name && s.Parent.step().Session == of &&
		len(s.Calls) == 1
}

// concludes is part of each commit. The call of a handle is its whole run: what
// settles it ends the run, and closes nothing.
func (tx *Tx) concludes() {
	if !tx.isHandle() || !tx.Ended.IsZero() || !tx.settledAll() {
		return
	}
	tx.Finish, tx.Ended = event.FinishStop, tx.Now
	if tx.Ending != nil {
		tx.Halt, tx.Ending = tx.Ending, nil
		tx.Finish = tx.Halt.Finish
	}
}

// settledAll reports whether a turn is open, all of whose calls are settled.
func (s *State) settledAll() bool {
	return len(s.Calls) > 0 &&
		!slices.ContainsFunc(s.Calls, func(c Call) bool { return c.Status != Settled })
}
