// Package notify tells people and systems outside what has happened in sessions:
// that a call waits, and for a person; that a deadline comes near; that a run
// has finished or failed. It loses none of that, whenever a process dies.
//
// A store tells the outside what session.Options.Notify has it tell. Then the
// commit by which something happens writes a notification beside it, and [Work]
// sends it, in this process or another one. Work needs neither an agent nor a
// runner.
//
//	store := session.NewStore(db, &session.Options{
//		Notify: &session.Notify{Remind: 24 * time.Hour},
//	})
//	err := notify.Work(ctx, store, sender, nil)
//
// # What is promised
//
// Each notification is sent at least once, and those of a session one after
// another, in their order. Twice is possible: a process may die between the
// sending and the note of it. Such a notification has the same ID both times.
// What can't be sent is tried again, later and later, and those after it wait.
// After a number of tries it becomes a dead letter: the next ones go on, and
// [DeadLetters] lists it until [SendAgain] or [Drop].
//
// A pause is read when its notification is sent. If it is over by then, the
// notification says so, and has no links.
//
// # What is not here
//
// There is no address in a session: where notifications go is for the program
// that makes the [Sender]. Nothing is sent by a commit itself, so no run waits
// for a sender.
package notify

import (
	"context"
	"encoding/base64"
	"strconv"
	"time"

	"github.com/fermata-ai/fermata/event"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// Kind is what a notification tells.
type Kind = core.NotificationKind

// The kinds.
const (
	// Paused: a call waits, for whatever it may be.
	Paused = core.NotePaused
	// NeedsPerson: a call waits for what only a person, or an operator, can give
	// it. Paused comes before it, unless session.Notify.Kinds leaves that out.
	NeedsPerson = core.NotePerson
	// Reminder: the deadline of a pause comes near; session.Notify.Remind says
	// how near.
	Reminder = core.NoteReminder
	// Finished: a run has ended well.
	Finished = core.NoteFinished
	// Failed: a run has ended otherwise, by a limit or a cancellation, say. Or a
	// call has failed for good: it had waited, and has failed or expired, or
	// what became of it isn't known.
	Failed = core.NoteFailed
)

// Sender sends notifications. Send returns nil once what it sends to has taken
// the notification; it is called again for the same one after any other return.
// It must end when ctx does. A Sender is used from several goroutines at once,
// though never for the same session.
type Sender interface {
	Send(ctx context.Context, n Notification) error
}

// Func is a function as a [Sender].
type Func func(ctx context.Context, n Notification) error

// Send calls f.
func (f Func) Send(ctx context.Context, n Notification) error { return f(ctx, n) }

// Notification is what a [Sender] sends.
type Notification struct {
	// ID is the same each time that this one is sent. It is ASCII, without
	// spaces and full stops.
	ID      string    `json:"id"`
	Kind    Kind      `json:"kind"`
	Number  int       `json:"number"` // of the session's notifications, from 1
	At      time.Time `json:"at"`     // when it happened
	Session string    `json:"session"`
	Root    string    `json:"root,omitempty"` // of a session below another: the topmost
	User    string    `json:"user,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	Text    string    `json:"text"` // all of this as a sentence, in English

	// Of a call.
	Call   string       `json:"call,omitempty"`
	Tool   string       `json:"tool,omitempty"`
	Status event.Status `json:"status,omitempty"` // with Failed
	// Pause is what Paused, NeedsPerson and Reminder are about. One that is over
	// has no more than its id, and whose it is.
	Pause *tool.Pause `json:"pause,omitempty"`
	Over  bool        `json:"over,omitempty"` // the pause, when this was sent
	Links []Link      `json:"links,omitempty"`

	// Of a run that has ended.
	Finish event.Finish `json:"finish,omitempty"`

	Why string `json:"why,omitempty"` // with Failed, if that is known
	// Deleted: the session was, when this was sent.
	Deleted bool `json:"deleted,omitempty"`
}

// Link is an address at which a person can do something about a pause.
type Link struct {
	Label string `json:"label"` // a word or two: "Approve"
	URL   string `json:"url"`
}

// idOf returns the id of a session's notification. Other bytes than those of
// base64 may mean something to whom it is sent.
func idOf(session string, number int) string {
	for i := range len(session) {
		c := session[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '_' || c == '-') {
			session = "~" + base64.RawURLEncoding.EncodeToString([]byte(session))
			break
		}
	}
	return "n" + strconv.Itoa(number) + "_" + session
}
