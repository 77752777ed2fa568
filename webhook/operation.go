package webhook

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// operation is something that a token permits.
type operation struct {
	permit  tool.Permit
	deliver func(*handler, context.Context, *delivery) error
}

// operations are those of the package comment, by the path's last part.
var operations = map[string]operation{
	"":          {tool.PermitComplete, (*handler).complete},
	"fail":      {tool.PermitFail, (*handler).fail},
	"progress":  {tool.PermitProgress, (*handler).progress},
	"heartbeat": {tool.PermitProgress, (*handler).heartbeat},
	"cancel":    {tool.PermitCancel, (*handler).cancel},
	"approve":   {tool.PermitApprove, (*handler).approve},
	"deny":      {tool.PermitDeny, (*handler).deny},
	eventPath:   {tool.PermitEvent, (*handler).event},
}

// actor returns who acts: the token's holder, or else Config.Actor, or who has
// signed.
func (h *handler) actor(d *delivery) runner.Actor {
	return cmp.Or(d.token.Holder, h.config.Actor, runner.Actor(d.signed.Sender), "webhook")
}

func (h *handler) complete(ctx context.Context, d *delivery) error {
	return h.resume(ctx, d, runner.Complete(d.token.PauseID(), h.actor(d), d.body))
}

func (h *handler) fail(ctx context.Context, d *delivery) error {
	var in struct {
		Message   string `json:"message"`
		Retryable bool   `json:"retryable"`
	}
	if err := d.decode(&in, failBody); err != nil {
		return err
	}
	return h.resume(ctx, d, runner.Fail(d.token.PauseID(), h.actor(d), in.Message, in.Retryable))
}

func (h *handler) approve(ctx context.Context, d *delivery) error {
	why, err := d.reason()
	if err != nil {
		return err
	}
	return h.resume(ctx, d, runner.Approve(d.token.PauseID(), h.actor(d), why))
}

func (h *handler) deny(ctx context.Context, d *delivery) error {
	why, err := d.reason()
	if err != nil {
		return err
	}
	return h.resume(ctx, d, runner.Deny(d.token.PauseID(), h.actor(d), why))
}

func (h *handler) resume(ctx context.Context, d *delivery, r runner.Resumption) error {
	r.Gate, r.Delivery, r.Sender = d.token.Gate, d.id, d.signed.Sender
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
	if err := h.rn.Progress(ctx, d.token.Session, d.token.Scope(), h.actor(d), in); err != nil {
		return err
	}
	d.answer = answer{Status: statusAccepted, Call: d.token.Call, Pause: d.token.PauseID()}
	return nil
}

// heartbeat takes progress, or nothing, as a sign of life, and tells whether the
// call was cancelled.
func (h *handler) heartbeat(ctx context.Context, d *delivery) error {
	var in tool.Progress
	if err := d.decode(&in, progressBody); err != nil {
		return err
	}
	beat, err := h.rn.Heartbeat(ctx, d.token.Session, d.token.Scope(), h.actor(d), in)
	if err != nil {
		return err
	}
	d.answer = heardAs(beat)
	d.answer.Call, d.answer.Pause = d.token.Call, d.token.PauseID()
	return nil
}

func heardAs(b runner.Heartbeat) answer {
	return answer{Status: statusAccepted, Cancelled: b.Cancelled, Due: b.Due}
}

func (h *handler) cancel(ctx context.Context, d *delivery) error {
	why, err := d.reason()
	if err != nil {
		return err
	}
	receipt, err := h.rn.Cancel(ctx, d.token.Session, d.token.Scope(), h.actor(d), why)
	if err != nil {
		return err
	}
	d.accepted(receipt)
	return nil
}

// reason returns the reason in the body of a decision or a cancellation.
func (d *delivery) reason() (string, error) {
	var in struct {
		Reason string `json:"reason"`
	}
	err := d.decode(&in, reasonBody)
	return in.Reason, err
}

func (d *delivery) accepted(r session.Receipt) {
	d.answer = acceptedAs(r)
	d.answer.Pause = d.pause()
}

// decode checks a body against its schema, and decodes it. An empty one is {}.
func (d *delivery) decode(into any, fits *schema.Schema) error {
	if len(d.body) == 0 {
		return nil
	}
	if err := fits.Validate(d.body); err != nil {
		return d.misfit(err)
	}
	if err := json.Unmarshal(d.body, into); err != nil {
		return d.misfit(err)
	}
	return nil
}

func (d *delivery) misfit(err error) error {
	if d.token.Pause == 0 {
		return &session.PayloadError{Event: cmp.Or(d.event, "of the request"), Err: err}
	}
	return &session.PayloadError{Pause: d.token.PauseID(), Err: err}
}
