package runner

import (
	"context"

	"github.com/fermata-ai/fermata/tool"
)

// host is what a body reaches the runner by.
type host struct {
	rn   *Runner
	turn turnFacts
}

// Token makes the token of the call's next pause.
func (h host) Token(c tool.Call) string {
	return h.rn.tokens.mint(c, h.turn.key, h.turn.secret, h.turn.asked)
}

// Report shows a running call's progress.
func (h host) Report(ctx context.Context, c tool.Call, p tool.Progress) error {
	return h.rn.progress(ctx, c.Session, c.ID, c.Tool, p)
}
