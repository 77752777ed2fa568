package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

// settle commits what came of the call: its result, or its pause. What follows
// from what is stored rides with the next commit.
func (b *body) settle(ctx context.Context, out toolbox.Outcome) {
	if out.Err != nil {
		b.log(out.Err)
	}
	var err error
	if out.Status == toolbox.Paused {
		err = b.pause(ctx, out)
	} else {
		err = b.result(ctx, out)
	}
	if err != nil {
		b.fail(err)
	}
}

// log tells the programmer what the model can't do anything about.
func (b *body) log(err error) {
	log := b.d.rn.options.Logger.With("session", b.d.session, "tool", b.c.Tool, "call", b.c.ID)
	var p *tool.PanicError
	if errors.As(err, &p) {
		log.Error("a tool panicked", "panic", p.Error(), "stack", string(p.Stack()))
	}
	if errors.Is(err, tool.ErrMayNotPause) {
		log.Error("a tool may not pause", "error", err)
	}
	if errors.Is(err, tool.ErrInvalidAwait) {
		log.Error("a pause makes no sense", "error", err)
	}
}

// result commits a final outcome.
func (b *body) result(ctx context.Context, out toolbox.Outcome) error {
	o := &session.Outcome{Status: statusOf(out.Status), Body: true}
	if out.Status == toolbox.Denied {
		o.By = b.deniedBy()
	}
	if b.c.Begun() {
		out.Output = b.begunBefore(out)
	}
	if err := b.output(o, out); err != nil { // a layer made it
		return b.refuse(ctx, fmt.Errorf("what a layer made of %s can't be kept: %w", b.c.Tool, err))
	}
	failed := out.Status == toolbox.Failed && b.entered
	commit := b.lease.Update
	if b.derived && out.Status == toolbox.Done && len(out.Actions) == 0 {
		commit = b.lease.Ride
		o.By = b.c.Answer.By
	}
	b.d.outcomes.made(b.c.ID, out.Actions)
	err := commit(b.store(), func(tx *session.Tx) error {
		settled := o
		if c := tx.Call(b.c.ID); failed && (ctx.Err() != nil || c != nil && c.Cancel != nil) {
			settled = b.stopped(tx, context.Cause(ctx))
		}
		if err := tx.Settle(b.c.ID, settled); err != nil {
			return err
		}
		if out.Status == toolbox.Fatal {
			tx.End(event.FinishFailed, "", out.Err.Error())
		}
		// Here, not after the commit: the loop may find the call settled as
		// soon as it is.
		b.d.outcomes.put(b.c.ID, known{status: settled.Status, output: settled.Output.JSON(), by: settled.By})
		return nil
	})
	if err != nil {
		b.d.outcomes.forget(b.c.ID)
	}
	if out.Status == toolbox.Fatal {
		b.d.outcomes.end(out.Err)
	}
	return err
}

// begunBefore is what the model reads of a call whose work had begun before
// this attempt, which may not have come as far.
func (b *body) begunBefore(out toolbox.Outcome) json.RawMessage {
	refusal, refused := out.Err.(*tool.Refusal) // this tool's own; a wrapped one is another's
	switch {
	case refused:
		return toolbox.Text(session.OutdatedText(&b.c, refusal))
	case !b.entered && out.Status == toolbox.Denied:
		return toolbox.Text(session.DeniedText(&b.c, toolbox.DenialReason(out.Err)))
	case !b.entered && out.Status == toolbox.Failed:
		return toolbox.Text(session.BegunText(&b.c, out.Err.Error()))
	}
	return out.Output
}

// deniedBy is who denied the call; empty, where a layer did so by itself.
func (b *body) deniedBy() string {
	if b.prepared == nil { // what reads the arguments may deny them, too
		return ""
	}
	for _, d := range b.prepared.Call.Decisions {
		if !d.Approved {
			return d.By
		}
	}
	return ""
}

// stopped is how the call ends whose body was told to end, and did.
func (b *body) stopped(tx *session.Tx, cause error) *session.Outcome {
	by, why := "", errLeft.Error() // why else its context ended, a store that failed for one, is none of the model's business
	if c := tx.Call(b.c.ID); c != nil && c.Cancel != nil {
		by, why = c.Cancel.By, c.Cancel.Why
	} else if errors.Is(cause, errRunEnded) {
		by, why = tx.EndedBy()
	} else if errors.Is(cause, errCallCancelled) {
		why = cause.Error()
	}
	begun := b.c
	if b.entered {
		begun.Attempt = max(begun.Attempt, 1)
	}
	return session.CancelledOutcome(&begun, by, why, b.turn.opened)
}

func (b *body) output(o *session.Outcome, out toolbox.Outcome) (err error) {
	if o.Output, err = session.NewBlob(modeltext.CleanJSON(out.Output)); err != nil {
		return err
	}
	o.Actions, err = actionsBlob(out.Actions)
	o.Media = hasMedia(out.Actions)
	return err
}

func hasMedia(actions []tool.Action) bool {
	return slices.ContainsFunc(actions, func(a tool.Action) bool { return a.Media != nil })
}

func actionsBlob(actions []tool.Action) (*session.Blob, error) {
	if len(actions) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(actions)
	if err != nil {
		return nil, err
	}
	return session.NewBlob(b)
}

func statusOf(s toolbox.Status) event.Status {
	switch s {
	case toolbox.Done:
		return event.Done
	case toolbox.Denied:
		return event.Denied
	}
	return event.Failed
}
