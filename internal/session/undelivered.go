package session

import "fmt"

// UndeliveredError is why one errand could not be carried out.
type UndeliveredError struct {
	Session string // the sender
	Errand  Errand
	Err     error
}

func (u *UndeliveredError) Error() string {
	return fmt.Sprintf("session %q: errand %q: %v", u.Session, u.Errand.Kind, u.Err)
}

func (u *UndeliveredError) Unwrap() error { return u.Err }

// Undelivered returns what of an error of [Store.Deliver] is of single errands.
func Undelivered(err error) (all []*UndeliveredError) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			if u, ok := err.(*UndeliveredError); ok {
				all = append(all, u)
			}
		}
	}
	return all
}
