package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// Wait handles that end since one that waited for them waits no longer: only
// where their set says so.

// timeWaitOut ends a handle of the session, and what works for it. One that the
// session may not end stays open.
func (h host) timeWaitOut(
	ctx context.Context, c tool.Call, id string, then time.Time,
) (w tool.Wait, err error) {
	rec, err := h.waitRecord(ctx, c, id)
	if err != nil {
		return w, err
	}
	_, err = h.asks(ctx, OpCompleteWait, c, tool.SessionScope, id)
	if errors.Is(err, ErrNotAllowed) {
		return h.lookAtWait(ctx, c, id)
	}
	if err != nil {
		return w, err
	}
	err = h.timeOut(ctx, rec, then)
	if err != nil && !isAny(err, session.ErrSettled, session.ErrUnknownSession, session.ErrDeleted,
		session.ErrNotPaused) {
		return w, err
	}
	if err == nil {
		h.rn.attend(rec.Child)
		h.awaitEnd(ctx, c.Session, rec)
	}
	return h.lookAtWait(ctx, c, id)
}

// timeOut ends the call of a handle. One that was made just now has to come to
// its pause first, which takes a moment: for longer than endsWithin the caller
// doesn't wait.
func (h host) timeOut(ctx context.Context, rec *session.Handle, then time.Time) error {
	changed, stop := h.rn.store.Watch(rec.Child)
	defer stop()
	over := time.NewTimer(endsWithin)
	defer over.Stop()
	again := time.NewTicker(awaitEvery)
	defer again.Stop()
	for {
		err := h.rn.store.Update(ctx, rec.Child, func(tx *session.Tx) error {
			return tx.TimeOut(rec.Call, string(h.actor), then)
		})
		if !errors.Is(err, session.ErrNotPaused) {
			return err
		}
		h.rn.attend(rec.Child)
		select {
		case <-changed:
		case <-again.C: // its drive may be in another process
		case <-over.C:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// timeWideOut ends a handle of a wider scope. One that the session may not end,
// or no model, stays open: only the call's own wait is over.
func (h host) timeWideOut(
	ctx context.Context, c tool.Call, scope tool.WaitScope, name string, then time.Time,
) (w tool.Wait, err error) {
	id, err := h.asks(ctx, OpCompleteWait, c, scope, name)
	mayEnd := err == nil
	if err != nil && !errors.Is(err, ErrNotAllowed) {
		return w, err
	}
	got, err := h.rn.wide.Get(ctx, id)
	if err == nil && mayEnd && got.Permits == nil {
		got, err = h.rn.wide.TimeOut(ctx, id, string(h.actor), then)
	}
	if err != nil {
		return w, h.unknownWide(ctx, c, scope, name, err)
	}
	return wideWait(got), nil
}

// timedOut is the error of a handle whose time is over, or was made to be.
func timedOut(w *tool.Wait) string {
	end := w.End
	if end.IsZero() || !w.Deadline.IsZero() && w.Deadline.Before(end) {
		end = w.Deadline
	}
	return fmt.Sprintf("Timed out after %dms", waits.MS(max(0, end.Sub(w.Start))))
}
