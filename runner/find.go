package runner

import (
	"context"
	"errors"
	"iter"

	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// Ref names a pause in one of three ways: by a callback token; by the key that a tool gave for its outside job; by its id.
type Ref struct {
	Token     string
	Tool, Key string
	Pause     string
}

// Filter selects open pauses; empty fields select all.
type Filter = session.PauseFilter

// Find shows a pause. By token it also finds the one that the running body is about to ask for; by key one that isn't stored
// yet is session.ErrNotYetKnown, since the outside system may be faster than the commit, and one that several open pauses have is
// session.ErrAmbiguousKey. A pause that is over has no Await.
func (rn *Runner) Find(ctx context.Context, ref Ref) (tool.Pause, error) {
	p, err := rn.find(ctx, ref)
	// Whoever may not look isn't told that there is nothing, either.
	if refused := rn.authorize(ctx, Operation{Kind: OpFind, Session: p.Session, Call: p.Call}); refused != nil {
		err = refused
	}
	if err != nil {
		return tool.Pause{}, err
	}
	return p, nil
}

func (rn *Runner) find(ctx context.Context, ref Ref) (tool.Pause, error) {
	switch {
	case ref.Token != "":
		tok, err := rn.tokens.read(ctx, ref.Token)
		if err != nil {
			return tool.Pause{}, err
		}
		return rn.store.Find(ctx, tok.Session, tool.PauseID(tok.Call, tok.Pause))
	case ref.Pause != "":
		id, err := rn.store.PauseSession(ctx, ref.Pause)
		if err != nil {
			return tool.Pause{}, err
		}
		return rn.store.Find(ctx, id, ref.Pause)
	case ref.Key != "" && ref.Tool != "":
		return rn.store.FindKey(ctx, ref.Tool, ref.Key)
	}
	return tool.Pause{}, errors.New("runner: Ref is empty; it takes a Token, a Pause, or a Tool and a Key")
}

// ReadToken checks a callback token and says what it permits.
func (rn *Runner) ReadToken(ctx context.Context, token string) (Token, error) {
	return rn.tokens.read(ctx, token)
}

// RotateTokenKeys adds a key to the ring that tokens are signed with. Calls asked for from now on use it; earlier tokens stay
// good.
func (rn *Runner) RotateTokenKeys(ctx context.Context) error {
	if err := rn.authorize(ctx, Operation{Kind: OpRotate}); err != nil {
		return err
	}
	return rn.store.RotateTokenKeys(ctx)
}

// Pending lists the open pauses of all sessions, the oldest first: an inbox.
func (rn *Runner) Pending(ctx context.Context, f Filter) iter.Seq2[tool.Pause, error] {
	return func(yield func(tool.Pause, error) bool) {
		if err := rn.authorize(ctx, Operation{Kind: OpPending, Session: f.Session}); err != nil {
			yield(tool.Pause{}, err)
			return
		}
		rn.store.Inbox(ctx, f)(yield)
	}
}
