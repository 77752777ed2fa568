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

// inquiry is an attempt that asks a call's tool what became of the body that a
// dead drive may have entered.
type inquiry struct{ *attempt }

// reconcile asks the tool what became of the call. If the tool can't tell, the
// outcome stays unknown.
func (q inquiry) reconcile(ctx context.Context) toolbox.Outcome {
	err := q.prepare(ctx)
	var exec tool.Execution
	if err == nil {
		if err = q.mayAsk(ctx); err != nil && failsRun(err) && ctx.Err() == nil {
			q.door.runtime = err
		}
	}
	if err == nil {
		call := q.prepared.Call
		call.Arguments = ran(call)
		q.door.runs(call.Arguments)
		exec, _, err = q.prepared.Reconcile(ctx, call)
	}
	cause := context.Cause(ctx)
	interrupted := cause != nil && !isAny(cause, errCallCancelled, errRunEnded)
	switch {
	case err == nil:
		return toolbox.Resolve(exec, nil)
	case q.door.runtime != nil: // the store could not be asked: the next drive asks the tool
		return toolbox.Outcome{}
	case interrupted || lost(err) || session.Moved(err):
		q.settled = true // it is asked again by the next drive
		return toolbox.Outcome{}
	}
	return q.unreconciled(err)
}

// mayAsk is the last look before the tool is asked what became of the call. The
// tool of a cancelled call is asked all the same: what it knows counts until
// its context ends.
func (q inquiry) mayAsk(ctx context.Context) error {
	err := q.own.lease.MayEnter(q.own.waiting, q.call.ID)
	if err != nil && !errors.Is(err, session.ErrCancelled) {
		return err
	}
	return q.lastLook(ctx)
}

// ran returns the arguments that a lost body was entered with, as far as they
// are stored: those that were edited last, or the model's.
func ran(c tool.Call) json.RawMessage {
	for _, d := range slices.Backward(c.Decisions) {
		if len(d.Arguments) > 0 {
			return d.Arguments
		}
	}
	return c.Arguments
}

// lostArguments returns the arguments that the lost body was entered with.
func (q inquiry) lostArguments(ctx context.Context) (json.RawMessage, error) {
	_, decisions, err := q.told(ctx, &q.call)
	return ran(tool.Call{Arguments: q.args, Decisions: decisions}), err
}

// unreconciled ends the attempt: the outcome stays unknown.
func (q inquiry) unreconciled(err error) toolbox.Outcome {
	q.log().Warn("a lost call could not be reconciled", "error", err)
	if err := q.lose(&q.own); err != nil {
		q.fail(err)
	}
	q.settled = true
	return toolbox.Outcome{}
}

// lose settles a call whose outcome is unknown, or pauses it for an operator,
// if its tool wants that.
func (q inquiry) lose(to *committer) error {
	var h *session.Hold
	if spec, known := q.core.Tools.Spec(q.call.Tool); known && spec.AskOperator {
		var err error
		if h, err = q.hold(to.waiting, &q.call, q.args, tool.Await{
			Reason: tool.ReasonUnknown, Mode: tool.ModeOutput,
			Prompt: "The program stopped while " + q.call.Tool +
				" was running. What became of it? The answer is the tool's output. " +
				"If it did not happen, it can be run again.",
		}); err != nil {
			return err
		}
		if h.Undo, err = q.undoable(to.waiting, q.lostArguments); err != nil {
			return err
		}
	}
	return to.commit(func(tx *session.Tx) error {
		switch c := tx.Call(q.call.ID); {
		case c != nil && c.Cancel != nil: // perhaps cancelled just now
			return tx.Lose(c.ID, session.GivenUpOutcome(c, c.Cancel.Actor, c.Cancel.Why))
		case h == nil || c != nil && c.Early != nil:
			return tx.Lose(q.call.ID, tx.LostOutcome())
		}
		return tx.Pause(q.call.ID, h)
	})
}
