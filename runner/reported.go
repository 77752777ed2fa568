package runner

import (
	"context"

	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// reported adds the message of a progress, as a line, to what a handle has
// produced: for a body that doesn't tell that itself. What one does tell takes
// the place of its reports.
func (rn *Runner) reported(ctx context.Context, c tool.Call, p tool.Progress) error {
	if p.Message == "" || !session.IsHandle(c.Session) {
		return nil
	}
	call := callName{c.Session, c.ID}
	content, err := rn.lastContent(ctx, call) // of an earlier body, or process, too
	if err != nil {
		return err
	}
	rn.produced.report(call, content, modeltext.CleanString(p.Message)+"\n", rn.store.Now())
	return nil
}
