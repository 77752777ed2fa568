package tool

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/excerpt"
)

// MaxApprovers is how many actors a pause may name as those who decide.
const MaxApprovers = 16

// Approves reports whether an actor is among those whose decisions the pause
// takes. The Authorizer is asked beside that.
func (a *Await) Approves(actor string) bool {
	return len(a.Approvers) == 0 || slices.Contains(a.Approvers, actor)
}

// checkApprovers returns what is wrong with a pause that names who decides.
func (a *Await) checkApprovers() error {
	switch {
	case len(a.Approvers) == 0:
		return nil
	case a.Gate == "":
		return errors.New("it names approvers, and a tool's own pause takes no decision")
	case len(a.Approvers) > MaxApprovers:
		return fmt.Errorf("of layer %q: it names %d approvers, at most %d are allowed",
			a.Gate, len(a.Approvers), MaxApprovers)
	}
	for i, name := range a.Approvers {
		switch {
		case name == "" || !plainName(name):
			return fmt.Errorf("of layer %q: the approver %q is empty, not valid UTF-8, has a "+
				"control character, or more than %d bytes", a.Gate, excerpt.Of(name), MaxKey)
		case slices.Contains(a.Approvers[:i], name):
			return fmt.Errorf("of layer %q: it names the approver %q twice", a.Gate,
				excerpt.Of(name))
		}
	}
	return nil
}
