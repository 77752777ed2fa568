// Package usererr is about errors that code of others returns: a tool's, a
// model's, a sender's. Errors of our own don't need it.
package usererr

import "errors"

// Use calls the methods of an error, as those who read it will, and returns it.
// A method that panics, as one of a nil pointer in an error does, panics here:
// within the frame that makes an error of what panics in that code. Later it
// would end the process.
func Use(err error) error {
	if err != nil {
		_ = err.Error()
		errors.Is(err, errNone)
		errors.As(err, new(none))
	}
	return err
}

// none is no error that others have: whatever Unwrap leads to is looked at.
type none struct{}

func (none) Error() string { return "" }

var errNone error = none{}
