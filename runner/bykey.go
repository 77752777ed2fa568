package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// Keep has answers kept that come under an outside key before any call has the
// key, for senders that never deliver again. The zero values are the defaults.
type Keep struct {
	// For is how long an answer is kept; default 10 minutes. It bounds how long
	// a tool may take from when its outside job has a key until it pauses.
	For time.Duration
	// Keys is how many keys may have answers kept, in the whole store; default
	// 1000. Of one key, eight answers are kept, of 240 KiB together.
	Keys int
}

func (k Keep) keeping() session.Keeping {
	if k.For <= 0 {
		k.For = 10 * time.Minute
	}
	if k.Keys <= 0 {
		k.Keys = 1000
	}
	return session.Keeping{For: k.For, Keys: k.Keys}
}

// ResumeByKey delivers an answer to the pause that has an outside key: Ref.Tool
// and Ref.Key, and what else of Ref narrows the search. R names no pause. It is
// safe to repeat, as Resume is.
//
// If no call has the key yet, the error is session.ErrNotYetKnown, unless keep
// is set. Then a completion or a failure is kept, the receipt has the fate
// session.FateKept, and the commit of the pause that has the key judges it, as
// if it came then. Until that it is bounded: what doesn't fit the bounds is
// session.ErrNotKept. An answer for a key that a call had is never kept, nor is
// one where Ref names a user or a session. Keep only what comes from a sender
// that is known.
func (rn *Runner) ResumeByKey(
	ctx context.Context, ref Ref, r Resumption, keep *Keep,
) (*Resumed, error) {
	op := Operation{Kind: OpResume, Actor: r.Actor, Tool: ref.Tool, Session: ref.Session,
		User: ref.User, Answer: r.answer()}
	if err := checkKeyRef(ref, r); err != nil {
		return nil, cmp.Or(rn.authorize(ctx, op), err)
	}
	for range maxMoves {
		p, err := rn.find(ctx, ref)
		if err == nil {
			r.Pause = p.ID
			return rn.Resume(ctx, p.Session, r)
		}
		if refused := rn.authorize(ctx, op); refused != nil {
			return nil, refused // and is not told whether there is such a key
		}
		if keep == nil || ref.User != "" || ref.Session != "" ||
			!errors.Is(err, session.ErrNotYetKnown) {
			return nil, err
		}
		out, known, err := rn.keep(ctx, ref, r, *keep)
		if !known || err != nil {
			return out, err
		}
	}
	return nil, fmt.Errorf("%w: key %q of tool %q", session.ErrNotYetKnown, ref.Key, ref.Tool)
}

// checkKeyRef returns what is wrong with an answer by key.
func checkKeyRef(ref Ref, r Resumption) error {
	switch {
	case ref.Token != "" || ref.Pause != "" || ref.Key == "" || ref.Tool == "":
		return fmt.Errorf("%w: ResumeByKey takes a Tool and a Key", ErrInvalidRef)
	case r.Pause != "":
		return fmt.Errorf("%w: the answer names the pause %q, and is to go by the key %q",
			ErrInvalidRef, r.Pause, ref.Key)
	}
	return nil
}

// keep keeps an answer. Known: a call has the key by now, and it goes there.
func (rn *Runner) keep(
	ctx context.Context, ref Ref, r Resumption, k Keep,
) (out *Resumed, known bool, err error) {
	in, err := rn.incoming(r)
	if err == nil && in.Kind != session.KindComplete && in.Kind != session.KindFail {
		err = &session.PayloadError{Err: fmt.Errorf("it is a %s answer, and only an output or a "+
			"failure is kept for a call that isn't known yet", in.Kind)}
	}
	if err != nil {
		return nil, false, err
	}
	rc, known, err := rn.store.Keep(ctx, session.OutsideKey{Tool: ref.Tool, Key: ref.Key}, in,
		k.keeping())
	if known || err != nil {
		return nil, known, err
	}
	return &Resumed{rn: rn, Receipts: []session.Receipt{rc}}, false, nil
}
