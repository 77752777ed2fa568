package tool

import (
	"errors"
	"fmt"
)

// PermitWait is a permit that a pause waits for. The handle that the pause names
// has Most of them. If it isn't there, it is made. Calls wait by priority, the
// greater first, and then in order. The permit is the call's until it settles,
// or gives it back.
type PermitWait struct {
	Most     int `json:"most"`
	Priority int `json:"priority,omitempty"` // from -1000 to 1000
	// Before: the wait comes before the tool's own body, as that of wait.WithPermit
	// does. A call that ends in it has begun nothing, so nothing is called off, and
	// what comes into its mailbox counts for the body's first pause.
	Before bool `json:"before,omitempty"`
}

// MaxPriority is the greatest priority of a PermitWait. The least is its
// opposite.
const MaxPriority = 1000

// checkScope returns what is wrong with a wait for wait handles of a wider
// scope.
func (w *HandleWait) checkScope() error {
	switch {
	case w.Scope != SessionScope && w.Scope != UserScope && w.Scope != StoreScope:
		return fmt.Errorf("it waits for handles of the scope %q, which is none", w.Scope)
	case w.Permit == nil:
		return nil
	case w.Scope == SessionScope:
		return errors.New("it waits for a permit of the session's own: " +
			"permits are of wait handles of a wider scope")
	case len(w.All) != 1 || len(w.Any) > 0:
		return errors.New("it waits for a permit: that is of one handle, in All")
	case w.Permit.Most < 1:
		return fmt.Errorf("it waits for one of %d permits", w.Permit.Most)
	case w.Permit.Priority < -MaxPriority || w.Permit.Priority > MaxPriority:
		return fmt.Errorf("it waits for a permit with priority %d: from %d to %d are taken",
			w.Permit.Priority, -MaxPriority, MaxPriority)
	}
	return nil
}
