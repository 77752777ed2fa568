package runner

import (
	"context"
	"errors"

	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// host is what a body reaches the runner by.
type host struct {
	rn   *Runner
	turn *turnFacts
}

// Token makes the token of the call's next pause.
func (h host) Token(c tool.Call) string {
	return h.rn.tokens.mint(c, h.turn.key, h.turn.secret, h.turn.asked)
}

// Report shows a running call's progress. That it could not be stored is not the body's business: it is refused only if it makes
// no sense, or comes too late.
func (h host) Report(ctx context.Context, c tool.Call, p tool.Progress) error {
	err := h.rn.progress(ctx, c.Session, c.ID, c.Tool, p)
	if err == nil || errors.Is(err, ErrInvalidProgress) || errors.Is(err, session.ErrSettled) || errors.Is(err, session.ErrDeleted) {
		return err
	}
	h.rn.options.Logger.Warn("progress was not stored", "session", c.Session, "call", c.ID, "error", err)
	return nil
}
