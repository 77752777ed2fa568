package session

import (
	"context"
	"errors"
	"slices"

	"github.com/fermata-ai/fermata/kvstore"
)

// outage is the error of an engine that failed in what it was asked, and that
// may do the same a little later: a server that restarts, a disk that is full.
type outage struct{ error }

func (o *outage) Unwrap() error { return o.error }

// IsOutage reports whether err is that the storage engine failed, and that the
// same may succeed later. What an engine answers on purpose is none, nor is that
// it is closed, nor the end of a caller's context.
func IsOutage(err error) bool {
	_, is := errors.AsType[*outage](err)
	return is
}

// onPurpose is what an engine answers on purpose, or for good.
var onPurpose = []error{
	kvstore.ErrNotFound, kvstore.ErrConflict, kvstore.ErrTooLarge, kvstore.ErrInvalid,
	kvstore.ErrClosed, kvstore.ErrCorrupt, kvstore.ErrUnfinished,
}

// outageOf marks an error of the engine that may pass. Ctx is its caller's.
func outageOf(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || IsOutage(err) ||
		slices.ContainsFunc(onPurpose, func(answer error) bool { return errors.Is(err, answer) }) {
		return err
	}
	return &outage{err}
}
