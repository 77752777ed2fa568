package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// storeFailure is the failure of a store in the midst of what a call does to a
// handle. It is no result that a model could read: nothing tells whether the
// deed was done. So the drive ends with it, and the next one enters the call
// again, whose deed is known by the call's id.
type storeFailure struct {
	error
	before bool // the tool's own body was not entered yet
}

func (f *storeFailure) Unwrap() error { return f.error }

// StoreFailed tells it from a refusal. The tool with which a workflow waits for
// its steps looks for this method.
func (f *storeFailure) StoreFailed() {}

// refusals are the errors by which what is done to a handle is refused.
var refusals = []error{
	ErrHandleStopped, ErrNotYours, ErrNoInput, ErrNotAllowed, tool.ErrUnknownHandle,
	session.ErrResumeConflict, session.ErrInvalidResumePayload, session.ErrSettled,
	session.ErrExpired, session.ErrCancelled, session.ErrNotPaused, session.ErrUnknownPause,
	session.ErrUnknownCall, session.ErrUnknownEvent, session.ErrUnknownSession,
	session.ErrMailboxFull, session.ErrDeleted, session.ErrPauseRequired,
	// Of a child that is damaged the model is told: its own session goes on. One
	// that a newer program has written is none: that program drives the call.
	session.ErrCorrupt,
}

// toldOf is handleOf for what a model is told unasked.
func (rn *Runner) toldOf(ctx context.Context, rec *session.Handle) (tool.Handle, error) {
	h, err := rn.handleOf(ctx, rec)
	if unreadable(err) {
		return byRecord(rec), nil
	}
	return h, err
}

// byRecord is a handle whose session can't be read, by what its parent knows.
func byRecord(rec *session.Handle) tool.Handle {
	out := shownBy(rec)
	if !rec.Open() {
		stoppedBy(&out, rec, "can't be read: its session is damaged")
	}
	return out
}

// shownBy begins a handle with what its record has of it.
func shownBy(rec *session.Handle) tool.Handle {
	return tool.Handle{Name: rec.Name, Tool: rec.Tool, Session: rec.Child, Call: rec.Call,
		Since: rec.Since, Shown: rec.Shown, Told: rec.Told, State: tool.HandleRunning}
}

// stoppedBy adds the end of a handle by its record, and why what it came to is
// not told.
func stoppedBy(out *tool.Handle, rec *session.Handle, why string) {
	out.State, out.Ended, out.Status = tool.HandleStopped, rec.WaitEnd(), string(event.Unknown)
	if rec.Status == event.Cancelled {
		out.Status = string(event.Cancelled)
	}
	words := fmt.Sprintf("It has stopped (%s), and what it came to %s.", rec.Status, why)
	out.Output = session.StringBlob(words).JSON()
}

// failure returns an error of what a call does to a handle: as it is, if it
// refuses that, or if the call was told to end.
func failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil && errors.Is(err, kvstore.ErrUncertain): // also if it refuses
		return &storeFailure{error: err}
	case errors.Is(err, wide.ErrInvalid):
		return &waits.InvalidError{Err: err}
	case errors.Is(err, wide.ErrBadCursor):
		return waits.BadCursor(err)
	}
	if err == nil || ctx.Err() != nil || isAny(err, refusals...) ||
		waits.ForModel(err) {
		return err
	}
	return &storeFailure{error: err}
}

// waitFailure is failure, of what tools of package tool/wait do: each refusal is
// one whose words are for the model, in the form of these tools.
func waitFailure(ctx context.Context, err error) error {
	if err = failure(ctx, err); isAny(err, refusals...) && !waits.ForModel(err) {
		return &waits.InvalidError{Err: err}
	}
	return err
}

// failureBeforeBody is failure, of what a tool does before its own body is entered.
// What is cut off there has begun nothing, either.
func failureBeforeBody(ctx context.Context, err error) error {
	if err = failure(ctx, err); err == nil {
		return nil
	}
	f, is := errors.AsType[*storeFailure](err)
	if !is && ctx.Err() != nil {
		f = &storeFailure{error: err}
		err = f
	}
	if f != nil {
		f.before = true
	}
	return err
}

// isBeforeBody reports whether an error is one of those, and no refusal.
func isBeforeBody(err error) bool {
	f, is := errors.AsType[*storeFailure](err)
	return is && f.before
}

// failedStore reports whether the store has failed in what a call does to a
// handle.
func failedStore(err error) bool {
	_, is := errors.AsType[*storeFailure](err)
	return is
}
