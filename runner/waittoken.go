package runner

import (
	"context"

	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/tool"
)

// waitToken is what the token of a hook is good for: to end it, and to tell its
// progress.
func waitToken(rn *Runner, h *wide.Handle) Token {
	name := nameOf(h)
	name.Made = h.Created // another handle may have the name before the token expires
	return Token{Wait: &name,
		Permits: []tool.Permit{tool.PermitComplete, tool.PermitFail, tool.PermitProgress},
		Expires: h.Created.Add(rn.options.TokenLifetime).Unix()}
}

// mintWait makes the token of a hook for a program.
func (rn *Runner) mintWait(ctx context.Context, h *wide.Handle) (string, error) {
	id, err := rn.ring.newest(ctx)
	if err != nil {
		return "", err
	}
	key, err := rn.ring.signer(ctx, id)
	if err != nil {
		return "", err
	}
	return key.mint(waitToken(rn, h))
}
