package runner

import (
	"errors"
	"slices"

	"github.com/fermata-ai/fermata/internal/session"
)

// The loop decides on a copy of the head: whom to cancel, what to recover,
// which turn to close. Others commit meanwhile. Where a commit of such a
// decision is refused because the world has moved, nothing has failed: the loop
// looks again and decides anew.

// movedError marks such a refusal. A tool or a layer that fails with an error
// of another session doesn't make one.
type movedError struct{ error }

func (m *movedError) Unwrap() error { return m.error }

// decided is the error of a commit that the loop decided on a copied head.
func decided(err error) error {
	if err != nil && session.Moved(err) {
		return &movedError{err}
	}
	return err
}

// isAny reports whether err is one of several errors.
func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}

// maxMoves is how often in a row a drive looks again. It bounds what a
// contradiction within one head would cost.
const maxMoves = 1000
