package session

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// A notification tells the outside what has happened in a session. The commit
// by which it happens writes it, so no crash loses it. All that a commit has to
// tell is one record beside the head, with one entry in an index of its own
// (shard, time, session). Packages that send need neither an agent nor a drive:
// they go by that index, see sending.go.
//
// Numbers come from the head, one for each notification, from 1. So each has an
// id that stays, and its place.
//
// A reminder is not written beforehand, since its pause may be over by then.
// Only its time is: an entry of the index that names the pause. The commit that
// ends the pause takes the entry away, if it has room; one that is left names a
// pause that is over, and comes to nothing. When its time has come, a commit of
// the head writes the notification.

// NotificationKind is what a notification tells.
type NotificationKind string

// The kinds.
const (
	NotePaused   NotificationKind = "paused"       // a call waits
	NotePerson   NotificationKind = "needs_person" // and a person, or an operator, ends that
	NoteReminder NotificationKind = "reminder"     // its deadline comes near
	NoteFinished NotificationKind = "finished"     // a run has ended well
	NoteFailed   NotificationKind = "failed"       // a run, or a call for good, has ended badly
)

// Notify is what the sessions of a Store tell the outside. Each process that
// commits to them needs the same, also one that only takes answers.
type Notify struct {
	// Kinds are what is told; empty: everything.
	Kinds []NotificationKind
	// Remind is how long before the deadline of a pause there is a reminder.
	// Zero: there is none. Nor is there one of a pause that is shorter, or of a
	// timer's.
	Remind time.Duration
}

// Notification is one that waits to be sent, as it is stored. What its pause
// shows is read when it is sent.
type Notification struct {
	Kind   NotificationKind `json:"kind"`
	At     time.Time        `json:"at"`
	Agent  string           `json:"agent,omitzero"`
	Call   string           `json:"call,omitzero"`
	Tool   string           `json:"tool,omitzero"`
	Pause  int              `json:"pause,omitzero"` // its number
	Reason tool.Reason      `json:"reason,omitzero"`
	Status event.Status     `json:"status,omitzero"` // of a call that has ended badly
	Finish event.Finish     `json:"finish,omitzero"` // of a run
	Why    string           `json:"why,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// notifications is the record of what one commit tells. Its key has the session
// and the number of the first.
type notifications struct {
	Version int            `json:"v"`
	User    string         `json:"user,omitzero"`
	Root    string         `json:"root,omitzero"` // of a child
	Place   time.Time      `json:"place"`         // in the index, when it was written
	List    []Notification `json:"list"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (n *notifications) newest() int { return Version }

func (n *notifications) check() error {
	if n.Version < 1 || len(n.List) == 0 || n.Place.IsZero() {
		return errIncomplete
	}
	for i := range n.List {
		if err := n.List[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (n *Notification) check() error {
	if n.Kind == "" || n.At.IsZero() || n.Pause < 0 || n.Pause > 0 && n.Call == "" {
		return errors.New("a notification is incomplete")
	}
	return nil
}

// NoticeShards is how many parts the index has. Processes begin with different
// ones, and so seldom go for the same session.
const NoticeShards = 4

func notificationsKey(session string, first int) []byte {
	return kvstore.Key("N", session, padded(first, 10))
}

func notifyKey(at time.Time, session string) []byte {
	return kvstore.Key("O", shardOf(session), millis(at), session)
}

func reminderKey(at time.Time, session, pause string) []byte {
	return kvstore.Key("O", shardOf(session), millis(at), session, pause)
}

// shardOf returns the part of the index that a session stands in.
func shardOf(session string) string {
	sum := uint32(2166136261) // FNV-1a, which must stay what it is
	for i := range len(session) {
		sum = (sum ^ uint32(session[i])) * 16777619
	}
	return shardName(int(sum % NoticeShards))
}

func shardName(n int) string { return padded(n, 2) }

// tells reports whether a kind is told.
func (n *Notify) tells(kind NotificationKind) bool {
	return n != nil && (len(n.Kinds) == 0 || slices.Contains(n.Kinds, kind))
}

// tell has the commit write a notification, if such are told.
func (tx *Tx) tell(n Notification) {
	if !tx.outside.tells(n.Kind) {
		return
	}
	n.At, n.Agent, n.Why = tx.Now, tx.Agent, brief(n.Why)
	tx.told = append(tx.told, n)
	tx.touch()
}

// tellPause tells that a call waits, and has it reminded of.
func (tx *Tx) tellPause(c *Call) {
	n := Notification{Call: c.ID, Tool: c.Tool, Pause: c.Pauses, Reason: c.Pause.Reason}
	n.Kind = NotePaused
	tx.tell(n)
	if ForPeople(n.Reason) {
		n.Kind = NotePerson
		tx.tell(n)
	}
	tx.remind(c)
}

// tellEnd tells that a call has ended badly, for good: it had waited, or what
// became of it isn't known. What any other call fails with is for the model.
func (tx *Tx) tellEnd(c *Call, o *Outcome) {
	switch {
	case o.Status == event.Unknown, o.Status == event.Expired:
	case o.Status == event.Failed && c.Pauses > 0:
	default:
		return
	}
	tx.tell(Notification{Kind: NoteFailed, Call: c.ID, Tool: c.Tool, Pause: c.Pauses,
		Status: o.Status, Why: o.Why})
}

// runEnds notes that what follows may end the run. What a child comes to, its
// parent hears of.
func (tx *Tx) runEnds() {
	if tx.Parent == nil && !tx.runOver() {
		tx.ends = true
	}
}

// tellRun is part of each commit: it tells of a run that is over by it.
func (tx *Tx) tellRun() {
	if !tx.ends || !tx.Deleted.IsZero() || !tx.runOver() {
		return
	}
	n := Notification{Kind: NoteFailed, Finish: tx.Finish, Why: tx.Why}
	if tx.Halt != nil {
		n.Finish, n.Why = tx.Halt.Finish, tx.Halt.Why
	}
	if n.Finish == event.FinishStop {
		n.Kind = NoteFinished
	}
	tx.tell(n)
}

// notifies is part of each commit: it writes what the commit tells, and reports
// whether that is anything.
func (tx *Tx) notifies() bool {
	tx.tellRun()
	if len(tx.told) == 0 {
		tx.unremindAll()
		return false
	}
	n := notifications{Version: Version, User: tx.User, Place: atOnce(tx.Now), List: tx.told}
	if tx.Parent != nil {
		n.Root = tx.Root()
	}
	tx.putJSON(notificationsKey(tx.ID, tx.Notified+1), &n)
	tx.put(notifyKey(n.Place, tx.ID), nil)
	tx.Notified += len(tx.told)
	tx.unremindAll()
	return true
}

// remind puts the reminder of an open pause into the index.
func (tx *Tx) remind(c *Call) {
	p := c.Pause
	if p.Remind = (time.Time{}); p.Deadline.IsZero() || p.Reason == tool.ReasonTimer ||
		p.isRetry() {
		return
	}
	if !tx.outside.tells(NoteReminder) || tx.outside.Remind <= 0 {
		return
	}
	at := p.Deadline.Add(-tx.outside.Remind).Truncate(time.Millisecond)
	if !at.After(tx.Now) {
		return
	}
	p.Remind = at
	tx.put(reminderKey(at, tx.ID, PauseID(c.ID, c.Pauses)), nil)
}

// unremind has the reminder of a pause taken away that is about to end, if the
// commit has room.
func (tx *Tx) unremind(c *Call) {
	if p := c.Pause; !p.Remind.IsZero() {
		tx.reminded = append(tx.reminded, reminderKey(p.Remind, tx.ID, PauseID(c.ID, c.Pauses)))
		tx.touch()
	}
}

// unremindAll is part of each commit: it takes as many reminders away as there
// is room for, beside the head.
func (tx *Tx) unremindAll() {
	const head = 2
	for _, key := range tx.reminded {
		again := slices.ContainsFunc(tx.puts,
			func(p kvstore.Put) bool { return bytes.Equal(p.Key, key) })
		full := len(tx.puts)+len(tx.deletes)+len(tx.only)+head >= kvstore.MaxOperations
		if !again && !full {
			tx.delete(key)
		}
	}
}

// Remind tells that the deadline of a pause comes near, if the pause is open and
// its time to be reminded of has come.
func (tx *Tx) Remind(pause string) error {
	call, number := splitPause(pause)
	c := tx.Call(call)
	if c == nil || c.Status != Pending || c.Pauses != number || c.overdue(tx.Now) {
		return fmt.Errorf("%w: %s", ErrNotPaused, pause)
	}
	if c.Pause.Remind.IsZero() || c.Pause.Remind.After(tx.Now) {
		return fmt.Errorf("%w: %s is not to be reminded of now", ErrStale, pause)
	}
	tx.delete(reminderKey(c.Pause.Remind, tx.ID, pause))
	p := *c.Pause // readers of the head see that one: it must not change
	p.Remind, c.Pause = time.Time{}, &p
	tx.tell(Notification{Kind: NoteReminder, Call: c.ID, Tool: c.Tool, Pause: number,
		Reason: p.Reason})
	return nil
}
