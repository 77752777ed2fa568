package runner

import (
	"context"
	"slices"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// host is what a body reaches the runner by.
type host struct {
	rn   *Runner
	turn *turnFacts
}

// Token makes the token of the call's next pause. It depends on what is stored,
// and on the layer that asks, so that each attempt makes the same, until the
// turn's key is retired. Which layer's pause gets the number is not known yet:
// a token that decides is good for that of the layer that asks.
func (h host) Token(c tool.Call, permits ...tool.Permit) string {
	t := Token{
		Session: c.Session, Call: c.ID, Pause: c.Pauses + 1, Permits: permits,
		Expires: h.turn.asked.Add(h.rn.options.TokenLifetime).Unix(),
	}
	if slices.ContainsFunc(permits, tool.Permit.Decides) {
		if c.Gate == "" {
			panic("runner: Call.Token: only a layer may permit a decision")
		}
		t.Gate = c.Gate
	}
	token, err := h.rn.ring.held(h.turn.signer).mint(t)
	if err != nil {
		// no call is begun without a key; and no token is better than one that
		// is never valid
		panic(err)
	}
	return token
}

// Report shows a running call's progress. That it could not be stored is not
// the body's business: it is refused only if it makes no sense, or comes too
// late.
func (h host) Report(ctx context.Context, c tool.Call, p tool.Progress) error {
	err := h.rn.progress(ctx, c.Session, c.ID, c.Tool, p)
	if err == nil || isAny(err, ErrInvalidProgress, session.ErrSettled, session.ErrDeleted) {
		return err
	}
	h.rn.options.Logger.Warn("progress was not stored",
		"session", c.Session, "call", c.ID, "error", err)
	return nil
}
