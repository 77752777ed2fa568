package runner

import (
	"errors"

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

// maxMoves is how often in a row a drive looks again. It bounds what a
// contradiction within one head would cost.
const maxMoves = 1000

// lookAgain starts the drive over if err is a movedError. Any other error, nil
// too, it returns.
func (d *drive) lookAgain(err error) error {
	if err == nil {
		d.moves = 0
		return nil
	}
	var m *movedError
	if !errors.As(err, &m) {
		return err
	}
	if d.moves++; d.moves > maxMoves {
		return err
	}
	return d.startOver()
}
