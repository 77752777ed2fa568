package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
)

// CancelSession cancels all that a session does: open calls are cancelled, no
// more is started, and the run ends. Continue or the next message goes on, also
// with the messages that wait.
//
// When it returns nil, the cancellation is stored. The drive that holds the
// session carries it out; where there is none, this runner does, if it is open
// and has the agent. What it can't do any more, since ctx ends or the store
// fails, it logs, and leaves to a worker, Continue or the next message.
func (rn *Runner) CancelSession(
	ctx context.Context, sessionID string, actor Actor, why string,
) error {
	op := Operation{Kind: OpCancelSession, Actor: actor, Session: sessionID}
	if err := rn.authorize(ctx, op); err != nil {
		return err
	}
	why, err := cleanReason(actor, why)
	if err != nil {
		return err
	}
	err = rn.store.Update(ctx, sessionID, func(tx *session.Tx) error {
		if !tx.Deleted.IsZero() {
			return fmt.Errorf("%w: %q", session.ErrDeleted, sessionID)
		}
		if len(tx.Calls) > 0 || tx.Due || tx.Linger != nil || tx.Handles > tx.Kept ||
			tx.Queue != nil {
			tx.End(event.FinishCancelled, string(actor), why)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := rn.carryOn(ctx, sessionID); err != nil {
		rn.options.Logger.Warn("a session was cancelled, and is left to a worker",
			"session", sessionID, "error", err)
	}
	return nil
}

// Cancel cancels one call, given by its id, or by the id of one of its pauses:
// then only while that pause is open or still to come. A call that waits, or
// was not begun, settles as cancelled at once. A body that runs is told to end.
// The call settles with the body's result if it still returns one, as cancelled
// if it returns an error, and without the body after Options.CancelGrace. If an
// answer was accepted and no drive has taken it up yet, its receipt becomes
// superseded. Cancelling again is a duplicate.
//
// A call that awaits handles is not cancelled but interrupted: it settles with
// how they stand, and they go on. One that then waits again is cancelled as any
// other.
func (rn *Runner) Cancel(
	ctx context.Context, sessionID, call string, actor Actor, why string,
) (receipt session.Receipt, err error) {
	if err := rn.authorize(ctx, about(OpCancel, sessionID, call, actor)); err != nil {
		return receipt, err
	}
	if why, err = cleanReason(actor, why); err != nil {
		return receipt, err
	}
	err = rn.store.Update(ctx, sessionID, func(tx *session.Tx) (err error) {
		receipt, err = tx.Cancel(call, string(actor), why)
		return err
	})
	return receipt, err
}

// ErrLongReason refuses a cancellation whose reason has more than 1000 bytes,
// or whose actor's name has more than 256.
var ErrLongReason = errors.New("runner: the reason is too long")

// cleanReason makes a reason fit to be stored. It stands in the head, and so is
// short.
func cleanReason(actor Actor, why string) (string, error) {
	if len(actor) > maxName {
		return "", fmt.Errorf("%w: its actor has %d bytes, at most %d are taken",
			ErrLongReason, len(actor), maxName)
	}
	if why = modeltext.CleanString(why); len(why) > maxReason {
		return "", fmt.Errorf("%w: it has %d bytes, at most %d are taken",
			ErrLongReason, len(why), maxReason)
	}
	return why, nil
}

// Extend moves the deadline of an open pause; the zero time takes it away. A
// deadline that is past, or after the year 9999, is session.ErrInvalidDeadline.
func (rn *Runner) Extend(
	ctx context.Context, sessionID, pause string, actor Actor, deadline time.Time,
) error {
	if err := rn.authorize(ctx, about(OpExtend, sessionID, pause, actor)); err != nil {
		return err
	}
	extend := func(tx *session.Tx) error { return tx.Extend(pause, deadline) }
	return rn.store.Update(ctx, sessionID, extend)
}

// Delete deletes a session: its messages, calls and payloads, and all that
// waits. Jobs that its tools have begun outside, and that calls wait for, are
// called off where the tools have a Cancel; others go on. Its id can't be used
// again while the tombstone is kept. A drive that holds the session loses it.
func (rn *Runner) Delete(ctx context.Context, sessionID string, actor Actor) error {
	op := Operation{Kind: OpDelete, Actor: actor, Session: sessionID}
	if err := rn.authorize(ctx, op); err != nil {
		return err
	}
	defer rn.histories.forget(sessionID)
	return rn.store.Delete(ctx, sessionID, string(actor))
}
