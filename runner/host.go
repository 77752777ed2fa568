package runner

import (
	"context"
	"slices"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// host is how a body reaches the runner. It never changes, and any goroutine of
// the body may use it.
type host struct {
	rn   *Runner
	turn *turnFacts
}

// Token makes the token of the call's next pause. The token depends only on
// what is stored, and on the layer that asks. So each attempt makes the same
// token, until the turn's key is retired. Another layer's pause may get the
// number first. So a token that decides is good only for a pause of the layer
// that asks.
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
		// No call is begun without a key. And no token is better than one that
		// is never valid.
		panic(err)
	}
	return token
}

// Report shows a running call's progress. It is refused if it makes no sense,
// or comes too late. If it can't be stored, the body need not know: that is
// logged.
func (h host) Report(ctx context.Context, c tool.Call, p tool.Progress) error {
	err := h.rn.progress(ctx, c.Session, c.ID, c.Tool, p)
	if err == nil || isAny(err, ErrInvalidProgress, session.ErrSettled, session.ErrDeleted) {
		return err
	}
	h.rn.options.Logger.Warn("progress was not stored",
		"session", c.Session, "call", c.ID, "error", err)
	return nil
}
