package runner

import (
	"context"
	"errors"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// storeFailure is the failure of a store in the midst of what a call does to a
// handle. It is no result that a model could read: nothing tells whether the
// deed was done. So the drive ends with it, and the next one enters the call
// again, whose deed is known by the call's id.
type storeFailure struct{ error }

func (f *storeFailure) Unwrap() error { return f.error }

// refusals are the errors by which what is done to a handle is refused.
var refusals = []error{
	ErrHandleStopped, ErrNotYours, ErrNoInput, ErrNotAllowed, tool.ErrUnknownHandle,
	session.ErrResumeConflict, session.ErrInvalidResumePayload, session.ErrSettled,
	session.ErrExpired, session.ErrCancelled, session.ErrNotPaused, session.ErrUnknownPause,
	session.ErrUnknownCall, session.ErrUnknownEvent, session.ErrUnknownSession,
	session.ErrMailboxFull, session.ErrDeleted, session.ErrPauseRequired,
	// Of a child that is damaged the model is told: its own session goes on.
	session.ErrCorrupt, session.ErrNewerVersion,
}

// failure returns an error of what a call does to a handle: as it is, if it
// refuses that, or if the call was told to end.
func failure(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || isAny(err, refusals...) {
		return err
	}
	return &storeFailure{err}
}

// failedStore reports whether the store has failed in what a call does to a
// handle.
func failedStore(err error) bool {
	_, is := errors.AsType[*storeFailure](err)
	return is
}
