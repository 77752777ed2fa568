package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// ErrInvalidRef refuses a Ref that names nothing.
var ErrInvalidRef = errors.New("runner: Ref")

// Ref names a pause in one of three ways: by a callback token; by the key that
// a tool gave for its outside job; by its id.
type Ref struct {
	Token     string
	Tool, Key string
	Pause     string

	// User and Session, if set, are the pause's user and session: pauses of
	// others are not found. Without them a key is looked for in all sessions,
	// and two calls that wait under one key make it ambiguous for both. So a
	// key comes from the outside system, or is made by the tool. If a model
	// could choose keys, one user could get in the way of another.
	User, Session string
	// At, with Key, is the time of the event, by the outside system. See Find.
	At time.Time
}

// keyYouth is how old an event may be if no call has its key yet. A tool that
// starts a job, and works on for longer than that before it pauses, needs a
// token instead of a key.
const keyYouth = time.Hour

// Find shows a pause. By token it also finds the pause that the running body is
// about to ask for. If no pause has the key yet, the error is
// session.ErrNotYetKnown, since the outside system may be faster than the
// commit: try again. If by Ref.At the event is older than an hour, the error is
// session.ErrUnknownPause, for good. If several open pauses have the key, it is
// session.ErrAmbiguousKey. A pause that is over has no Await.
func (rn *Runner) Find(ctx context.Context, ref Ref, actor Actor) (tool.Pause, error) {
	p, err := rn.find(ctx, ref)
	// Authorized after the search: an actor who may not look isn't told that
	// there is no such pause, either.
	refused := rn.authorize(ctx, Operation{
		Kind: OpFind, Actor: actor, Session: p.Session, User: p.User,
		Call: p.Call, Tool: p.Tool, Pause: p.ID,
	})
	if refused != nil {
		err = refused
	}
	if err != nil {
		return tool.Pause{}, err
	}
	return p, nil
}

// find looks the pause up, in the order of Ref's ways.
func (rn *Runner) find(ctx context.Context, ref Ref) (p tool.Pause, err error) {
	name := ref.Pause
	switch {
	case ref.Token != "":
		tok, err := rn.ReadToken(ctx, ref.Token)
		if err != nil {
			return p, err
		}
		id := tok.PauseID()
		if tok.Pause == 0 {
			id = tok.Call
		}
		p, err = rn.store.Find(ctx, tok.Session, id)
		if gate := p.Await.Gate; err == nil && tok.Gate != "" && gate != "" && gate != tok.Gate {
			err = &session.GateError{Pause: p.ID, Gate: gate, For: tok.Gate}
		}
		if err != nil {
			return p, err
		}
		name = "the token's"
	case ref.Pause != "":
		id, err := rn.store.PauseSession(ctx, ref.Pause)
		if err != nil {
			return p, err
		}
		if p, err = rn.store.Find(ctx, id, ref.Pause); err != nil {
			return p, err
		}
	case ref.Key != "" && ref.Tool != "":
		p, err = rn.store.FindKey(ctx, session.OutsideKey{
			Tool: ref.Tool, Key: ref.Key, User: ref.User, Session: ref.Session,
		})
		old := !ref.At.IsZero() && rn.store.Now().Sub(ref.At) > keyYouth
		if old && errors.Is(err, session.ErrNotYetKnown) {
			err = fmt.Errorf("%w: no call has the key %q of tool %q, and the event is of %s",
				session.ErrUnknownPause, ref.Key, ref.Tool, ref.At.Format(time.RFC3339))
		}
		return p, err
	case ref.Key != "" || ref.Tool != "":
		return p, fmt.Errorf("%w: Key and Tool go together: a key is a tool's own name for its job",
			ErrInvalidRef)
	default:
		return p, fmt.Errorf("%w: it is empty; it takes a Token, a Pause, or a Tool and a Key",
			ErrInvalidRef)
	}
	if ref.User != "" && ref.User != p.User || ref.Session != "" && ref.Session != p.Session {
		return tool.Pause{}, fmt.Errorf("%w: %s, of that user and session",
			session.ErrUnknownPause, name)
	}
	return p, nil
}

// Pending lists the open pauses of all sessions, the oldest first. With
// session.PauseFilter.People it is an inbox of people, and reads nothing of
// calls that wait for machines.
func (rn *Runner) Pending(
	ctx context.Context, f session.PauseFilter, actor Actor,
) iter.Seq2[tool.Pause, error] {
	return func(yield func(tool.Pause, error) bool) {
		op := Operation{
			Kind: OpPending, Actor: actor, Session: f.Session, User: f.User, Tool: f.Tool,
			Pauses: f,
		}
		if err := rn.authorize(ctx, op); err != nil {
			yield(tool.Pause{}, err)
			return
		}
		rn.store.Inbox(ctx, f)(yield)
	}
}
