package runner

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

// recover settles a call that runs, by the head, and has no body here. By a
// claim of this drive, whose layers did not wait for it, nothing was entered,
// and it is taken back. Else a dead drive had claimed the call: its body may
// have run, in part or in full, and is never entered again. The tool is asked
// what became of it, if it can tell; else an operator, if the tool wants that;
// else the model is told that nobody knows.
func (d *drive) recover(ctx context.Context, c *session.Call) error {
	if shut := d.bodies.shut(c.ID); shut != nil {
		return d.lease.Update(d.commitCtx(), func(tx *session.Tx) error { return tx.Unclaim(&shut.c) })
	}
	if c.Cancel != nil {
		c := *c // that one is good only until the open calls are copied again
		return d.lease.Update(d.commitCtx(), func(tx *session.Tx) error {
			now := asItIs(tx, &c)
			by, why := endedBy(tx, now)
			return tx.Lose(c.ID, session.GivenUpOutcome(now, by, why))
		})
	}
	if spec, known := d.core.Tools.Spec(c.Tool); known && spec.Reconcile != nil {
		if d.running() < d.core.Concurrency {
			b := d.body(c)
			b.entered = true // by whoever died
			d.batch.Start(ctx, c.ID, func(ctx context.Context) { b.guard(ctx, (*body).reconcile) }, b.end)
		}
		return nil
	}
	return d.body(c).lose()
}

// lose settles a call whose outcome nobody can tell, or pauses it for an operator, if its tool wants that.
func (b *body) lose() error {
	var h *session.Hold
	if spec, known := b.d.core.Tools.Spec(b.c.Tool); known && spec.AskOperator {
		var err error
		if h, err = b.hold(tool.Await{Reason: tool.ReasonUnknown, Mode: tool.ModeOutput, Prompt: "The program stopped while " +
			b.c.Tool + " was running. What became of it? The answer is the tool's output."}); err != nil {
			return err
		}
	}
	return b.lease.Update(b.store(), func(tx *session.Tx) error {
		switch c := tx.Call(b.c.ID); {
		case c != nil && c.Cancel != nil: // perhaps only now
			return tx.Lose(c.ID, session.GivenUpOutcome(c, c.Cancel.By, c.Cancel.Why))
		case h == nil || c != nil && c.Early != nil:
			return tx.Lose(b.c.ID, session.LostOutcome())
		}
		return tx.Pause(b.c.ID, h)
	})
}

// reconcile asks the tool what became of the call. One that can't tell leaves it as unknown as it was.
func (b *body) reconcile(ctx context.Context) toolbox.Outcome {
	err := b.prepare(ctx)
	var exec tool.Execution
	if err == nil {
		if err = b.mayAsk(ctx); err != nil && failsRun(err) && ctx.Err() == nil {
			b.runtime = err
		}
	}
	if err == nil {
		call := b.prepared.Call
		call.Arguments = ran(call)
		exec, _, err = b.prepared.Reconcile(ctx, call)
	}
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return toolbox.Resolve(exec, nil)
	case b.runtime != nil: // the store could not be asked: the next drive asks the tool
		return toolbox.Outcome{}
	case cause != nil && !errors.Is(cause, errCallCancelled) && !errors.Is(cause, errRunEnded) || lost(err) || session.Moved(err):
		b.settled = true // it was interrupted, and is asked again by the next drive
		return toolbox.Outcome{}
	}
	return b.unreconciled(err)
}

// mayAsk is the last look before the tool is asked what became of the call. Who
// cancels the call tells it so by its context, and what it knows counts until
// then.
func (b *body) mayAsk(ctx context.Context) error {
	if err := b.lease.MayEnter(b.store(), b.c.ID); err != nil && !errors.Is(err, session.ErrCancelled) {
		return err
	}
	return b.lastLook(ctx)
}

// ran are the arguments that a lost body was entered with, as far as they are stored: those that were edited last, or the model's.
func ran(c tool.Call) json.RawMessage {
	for _, d := range slices.Backward(c.Decisions) {
		if len(d.Arguments) > 0 {
			return d.Arguments
		}
	}
	return c.Arguments
}

// unreconciled ends the attempt: the outcome stays unknown.
func (b *body) unreconciled(err error) toolbox.Outcome {
	b.d.rn.options.Logger.Warn("a lost call could not be reconciled", "session", b.d.session, "tool", b.c.Tool, "call", b.c.ID,
		"error", err)
	if err := b.lose(); err != nil {
		b.fail(err)
	}
	b.settled = true
	return toolbox.Outcome{}
}
