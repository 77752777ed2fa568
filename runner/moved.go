package runner

import (
	"errors"
	"slices"

	"github.com/fermata-ai/fermata/internal/session"
)

// The loop decides on a copy of the head: which call to cancel, which to
// recover, which turn to close. Others commit meanwhile. If the commit of such
// a decision is refused because the session has moved on, nothing has failed:
// the loop looks again and decides anew.

// movedError marks such a refusal. The error of a tool or a layer, which may be
// about another session, is never marked.
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

// isOnly reports whether err is one error, and has joined no other one beside it.
func isOnly(err, of error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !isOnly(e, of) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return isOnly(inner, of)
	}
	return err == of
}

// maxMoves is how often in a row a drive starts over. It bounds the cost of a
// contradiction within one head.
const maxMoves = 1000
