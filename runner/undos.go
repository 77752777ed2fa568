package runner

import (
	"context"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// Undo is what is to be called off outside of a call that ended while it
// waited: what its tool's Cancel is owed. It is there until that has succeeded,
// or is dismissed, whatever becomes of the session.
type Undo struct {
	Session string     `json:"session"`
	User    string     `json:"user"`
	Agent   string     `json:"agent"` // whose tool it is
	Call    string     `json:"call"`
	Tool    string     `json:"tool"`
	Pause   string     `json:"pause"`         // that the call waited in
	Key     string     `json:"key,omitempty"` // the outside system's own
	Cause   tool.Cause `json:"cause"`         // how the call ended, by whom, and why
	Actor   string     `json:"by,omitempty"`
	Why     string     `json:"why,omitempty"`
	Ended   time.Time  `json:"ended"`

	Tries  int       `json:"tries,omitempty"`  // that were taken
	Failed string    `json:"failed,omitempty"` // what the last one came to that failed
	Next   time.Time `json:"next,omitzero"`    // when it is tried next; zero: at once
	GaveUp time.Time `json:"gave_up,omitzero"` // since when it is not tried by itself
	// Parked: the agent's tool is gone, or has no Cancel any more. It goes on
	// when the tool is back.
	Parked bool `json:"parked,omitempty"`
}

func undoOf(u session.Undone) Undo {
	e, o := u.Errand, u.Errand.Undo
	return Undo{
		Session: u.Session, User: u.User, Agent: o.Agent, Call: e.Call, Tool: o.Tool,
		Pause: session.PauseID(e.Call, o.Number), Key: o.Pause.Key,
		Cause: o.Cause, Actor: e.Actor, Why: e.Why, Ended: o.Ended,
		Tries: o.Tries.Count, Failed: o.Tries.Failed, Next: e.At, GaveUp: o.Tries.GaveUp,
		Parked: o.Tries.Parked,
	}
}

// Undos lists what is to be called off and did not come off at the first try,
// or can't be tried just now, over all sessions, deleted ones too. With
// session.UndoFilter.Session it lists all that is to be called off of that
// session.
func (rn *Runner) Undos(
	ctx context.Context, f session.UndoFilter, actor Actor,
) iter.Seq2[Undo, error] {
	return func(yield func(Undo, error) bool) {
		op := Operation{Kind: OpUndos, Actor: actor, Session: f.Session, User: f.User, Tool: f.Tool}
		if err := rn.authorize(ctx, op); err != nil {
			yield(Undo{}, err)
			return
		}
		for u, err := range rn.store.Undos(ctx, f) {
			out := Undo{Session: u.Session}
			if err == nil {
				out = undoOf(u)
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

// RetryUndo has what is to be called off of a call tried from the beginning, at
// once, whatever became of it so far. Without any, it is session.ErrNoUndo.
func (rn *Runner) RetryUndo(
	ctx context.Context, sessionID, callOrPause string, actor Actor,
) error {
	return rn.changeUndo(ctx, about(OpRetryUndo, sessionID, callOrPause, actor),
		(*session.Tx).RetryUndo)
}

// DismissUndo has what is to be called off of a call tried no more, and not
// listed: an actor has seen to it by other means, or it doesn't matter any
// more. A try that is under way goes on. Without any, it is session.ErrNoUndo.
func (rn *Runner) DismissUndo(
	ctx context.Context, sessionID, callOrPause string, actor Actor,
) error {
	return rn.changeUndo(ctx, about(OpDismissUndo, sessionID, callOrPause, actor),
		(*session.Tx).UndoDone)
}

func (rn *Runner) changeUndo(
	ctx context.Context, op Operation, change func(*session.Tx, string) error,
) error {
	if err := rn.authorize(ctx, op); err != nil {
		return err
	}
	return rn.store.Update(ctx, op.Session, func(tx *session.Tx) error {
		return change(tx, op.Call)
	})
}
