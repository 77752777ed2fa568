package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// wait takes what came for a wait handle of a user, or of everyone on the store,
// by the token of a hook: its result, an error, or how far it has come.
func (h *handler) wait(ctx context.Context, d *delivery) error {
	name := *d.token.Wait
	if d.overflow {
		return httpin.Refuse("too_large", fmt.Sprintf("a body has at most %d bytes", h.bodies.Max))
	}
	if d.op.permit == tool.PermitProgress {
		if len(d.body) == 0 {
			d.answer = answer{Status: statusAccepted}
			return nil // a sign of life, which a handle doesn't need
		}
		d.answer = answer{Status: statusAccepted}
		return h.rn.ReportWait(ctx, name, d.body, h.actor(d))
	}
	end := runner.WaitEnd{Result: json.RawMessage(d.body)}
	if d.op.permit == tool.PermitFail {
		var in struct {
			Message   string `json:"message"`
			Retryable bool   `json:"retryable"`
		}
		if err := d.decode(&in, failBody); err != nil {
			return err
		}
		end = runner.WaitEnd{Error: cmp.Or(in.Message, "it failed")}
	}
	w, err := h.rn.CompleteWait(ctx, name, end, h.actor(d))
	d.answer = answer{Status: statusAccepted, At: w.End}
	return err
}
