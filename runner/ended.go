package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// PauseEnd is how a pause came to its end: for a person who comes too late.
type PauseEnd struct {
	How   Ending
	Actor Actor     // who brought it about; empty if that isn't known
	At    time.Time // zero if that isn't known
}

// Ending is the way in which a pause ended.
type Ending string

// The endings.
const (
	StillOpen       Ending = "" // it waits, or is still to come
	EndedApproved   Ending = "approved"
	EndedDenied     Ending = "denied"
	EndedAnswered   Ending = "answered"
	EndedFailed     Ending = "failed" // the outside job did, or was not heard of
	EndedExpired    Ending = "expired"
	EndedCancelled  Ending = "cancelled"
	EndedSuperseded Ending = "superseded" // the user went on otherwise
	// EndedOtherwise: by what has no receipt, such as the end of a nested agent,
	// or a time after which the call went on, once it has its result.
	EndedOtherwise Ending = "over"
)

// Ended tells how the pause ended that Find finds. Who may find a pause may ask
// that. It is known for as long as receipts are kept.
func (rn *Runner) Ended(ctx context.Context, ref Ref, actor Actor) (PauseEnd, error) {
	p, err := rn.Find(ctx, ref, actor)
	if err != nil || p.Await.Reason != "" {
		return PauseEnd{}, err
	}
	receipts, err := rn.store.Receipts(ctx, p.Session, p.Call)
	if err != nil {
		return PauseEnd{}, err
	}
	i := slices.IndexFunc(receipts, func(r session.Receipt) bool {
		return r.Pause == p.Number && r.Fate == ""
	})
	if i >= 0 {
		r := receipts[i]
		return PauseEnd{How: answeredBy(r), Actor: Actor(r.Actor), At: r.At}, nil
	}
	return rn.endedUnanswered(ctx, p)
}

// answeredBy returns how the pause of a receipt ended.
func answeredBy(r session.Receipt) Ending {
	switch {
	case r.Decided == "approved":
		return EndedApproved
	case r.Decided == "denied":
		return EndedDenied
	case r.Kind == session.KindDecision: // written before receipts said which
		return EndedOtherwise
	case r.Kind == session.KindFail:
		return EndedFailed
	case r.Kind == session.KindTimeout:
		return EndedExpired
	}
	return EndedAnswered
}

// endedUnanswered returns how a pause ended that no answer has ended: by its
// time, or with its call.
func (rn *Runner) endedUnanswered(ctx context.Context, p tool.Pause) (PauseEnd, error) {
	st, err := rn.store.Load(ctx, p.Session)
	if err != nil {
		return PauseEnd{}, err
	}
	if c := st.Call(p.Call); c != nil && c.Status != session.Settled {
		switch {
		case p.Number > c.Pauses: // not asked for yet
			return PauseEnd{}, nil
		case c.Answer != nil && c.Answer.Pause == p.Number && c.Answer.Kind == session.KindTimeout:
			return PauseEnd{How: EndedExpired, At: c.Answer.At}, nil
		case c.Status != session.Pending || p.Number < c.Pauses:
			return PauseEnd{How: EndedOtherwise}, nil
		}
		// It is overdue, and not settled yet.
		if d := c.Pause.Deadline; !d.IsZero() && !d.After(rn.store.Now()) {
			return PauseEnd{How: EndedExpired, At: d}, nil
		}
		return PauseEnd{How: EndedFailed}, nil // a heartbeat is missed
	}
	r, _, err := rn.store.Record(ctx, p.Session, p.Call)
	if errors.Is(err, session.ErrUnknownCall) {
		return PauseEnd{How: EndedOtherwise}, nil
	}
	if err != nil {
		return PauseEnd{}, err
	}
	end := PauseEnd{How: EndedOtherwise, Actor: Actor(r.Actor), At: r.At}
	switch {
	case p.Number > r.Pauses: // the call ended before it was asked for
	case r.Status == event.Expired:
		end.How, end.Actor = EndedExpired, ""
	case r.Status == event.Cancelled:
		end.How = EndedCancelled
	case r.Status == event.Denied: // with no decision on the pause
		end.How = EndedSuperseded
	case r.Status == event.Failed:
		end.How, end.Actor = EndedFailed, ""
	}
	return end, nil
}
