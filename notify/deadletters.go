package notify

import (
	"context"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/session"
)

// DeadLetter is a notification that was tried often enough. It is kept, with its
// session, until it is sent again or dropped.
type DeadLetter struct {
	ID      string    `json:"id"` // of the notification
	Kind    Kind      `json:"kind"`
	Session string    `json:"session"`
	Number  int       `json:"number"`
	User    string    `json:"user,omitempty"`
	Tool    string    `json:"tool,omitempty"`
	Call    string    `json:"call,omitempty"`
	At      time.Time `json:"at"` // when it happened
	Tries   int       `json:"tries"`
	Failed  string    `json:"failed"` // what the last try came to
	Died    time.Time `json:"died"`   // when that was
}

// DeadLetters lists those of a session, or with an empty id those of all, in the
// order of sessions and numbers. One that can't be read is an error in its
// place, with its session and number.
func DeadLetters(
	ctx context.Context, store *session.Store, id string,
) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for d, err := range hold.Of(store).DeadLetters(ctx, id) {
			if !yield(deadOf(d), err) {
				return
			}
		}
	}
}

func deadOf(d core.DeadLetter) DeadLetter {
	return DeadLetter{
		ID: idOf(d.Session, d.Number), Kind: d.Kind, Session: d.Session, Number: d.Number,
		User: d.User, Tool: d.Tool, Call: d.Call, At: d.At,
		Tries: d.Tries, Failed: d.Failed, Died: d.Died,
	}
}

// SendAgain has a dead letter sent, before what its session has told since. If
// there is none of that number, it is session.ErrNoDeadLetter.
func SendAgain(ctx context.Context, store *session.Store, id string, number int) error {
	return hold.Of(store).SendAgain(ctx, id, number)
}

// Drop forgets a dead letter. If there is none of that number, it is
// session.ErrNoDeadLetter.
func Drop(ctx context.Context, store *session.Store, id string, number int) error {
	return hold.Of(store).DropDead(ctx, id, number)
}
