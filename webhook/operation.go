package webhook

import (
	"context"
	"encoding/json"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// operation is something that a token permits.
type operation struct {
	kind    runner.OperationKind
	deliver func(*handler, context.Context, *delivery) error
}

// operations are those of the package comment, by the path's last part.
var operations = map[string]operation{
	"":         {runner.OpResume, (*handler).complete},
	"fail":     {runner.OpResume, (*handler).fail},
	"progress": {runner.OpProgress, (*handler).progress},
	"cancel":   {runner.OpCancel, (*handler).cancel},
}

func (h *handler) complete(ctx context.Context, d *delivery) error {
	return h.resume(ctx, d, runner.Complete(d.pause(), d.body, h.config.Actor))
}

func (h *handler) fail(ctx context.Context, d *delivery) error {
	var in struct {
		Message string `json:"message"`
		MayPass bool   `json:"may_pass"`
	}
	if err := d.decode(&in, failBody); err != nil {
		return err
	}
	return h.resume(ctx, d, runner.Fail(d.pause(), in.Message, h.config.Actor, in.MayPass))
}

func (h *handler) resume(ctx context.Context, d *delivery, r runner.Resumption) error {
	res, err := h.rn.Resume(ctx, d.token.Session, r)
	if err != nil {
		return err
	}
	d.accepted(res.Receipts[0])
	return nil
}

func (h *handler) progress(ctx context.Context, d *delivery) error {
	var in tool.Progress
	if len(d.body) == 0 {
		return d.misfit(errEmptyProgress)
	}
	if err := d.decode(&in, progressBody); err != nil {
		return err
	}
	if err := h.rn.Progress(ctx, d.token.Session, d.token.Call, in); err != nil {
		return err
	}
	d.answer = answer{Status: statusAccepted, Call: d.token.Call, Pause: d.pause()}
	return nil
}

func (h *handler) cancel(ctx context.Context, d *delivery) error {
	var in struct {
		Reason string `json:"reason"`
	}
	if err := d.decode(&in, cancelBody); err != nil {
		return err
	}
	receipt, err := h.rn.Cancel(ctx, d.token.Session, d.token.Call, h.config.Actor, in.Reason)
	if err != nil {
		return err
	}
	d.accepted(receipt)
	return nil
}

// pause is the id of the pause that the token is for.
func (d *delivery) pause() string { return tool.PauseID(d.token.Call, d.token.Pause) }

func (d *delivery) accepted(r session.Receipt) {
	d.answer = answer{
		Status: statusAccepted, Duplicate: r.Duplicate, Call: r.Call, Pause: d.pause(), At: r.At, Fate: r.Fate,
	}
}

// decode checks a body against its schema, and decodes it. An empty one is {}.
func (d *delivery) decode(into any, schema *tool.Schema) error {
	if len(d.body) == 0 {
		return nil
	}
	if err := schema.Validate(d.body); err != nil {
		return d.misfit(err)
	}
	if err := json.Unmarshal(d.body, into); err != nil {
		return d.misfit(err)
	}
	return nil
}

func (d *delivery) misfit(err error) error { return &session.PayloadError{Pause: d.pause(), Err: err} }
