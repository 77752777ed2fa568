package handles

import (
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/schema"
)

// NotFound returns the words for an id that no handle has. Known are those that
// there are.
func NotFound(id string, known []string) string {
	words := fmt.Sprintf("Handle `%s` not found.", excerpt.To(id, MaxID))
	if near, ok := schema.Nearest(id, known); ok {
		words += fmt.Sprintf(" Did you mean `%s`?", near)
	}
	const most = 20
	switch n := len(known); {
	case n == 0:
		return words + " There are no handles: begin one by the action spawn of a tool."
	case n > most:
		return words + fmt.Sprintf(" Some of the %d handles are: %s.", n,
			strings.Join(known[:most], ", "))
	}
	return words + fmt.Sprintf(" The handles are: %s.", strings.Join(known, ", "))
}

// Taken returns the words for a call of a turn that names an id which the turn
// spawns, and may not: another call of the turn would give it, or a handle has
// it that is open.
func Taken(id string, open bool) string {
	why := "more than one call of this turn would give that id"
	if open {
		why = "a handle of that id is open"
	}
	return fmt.Sprintf("Handle `%s` was not begun, and no call of this turn that names it was "+
		"run: %s. Choose another id, and call again.", id, why)
}

// NotYours returns the words for an apply to a handle that waits, and not for
// the model.
func NotYours(id string) string {
	return fmt.Sprintf("Handle `%s` waits for the user, and its question is not yours to answer. "+
		"Nothing was given to it. Go on with something else, or await it.", id)
}

// NothingToApply returns the words for an apply to a handle that has stopped.
func NothingToApply(id string) string {
	return fmt.Sprintf("Handle `%s` has stopped, and takes no input any more. Nothing was given "+
		"to it. Its id may be used again: spawn another one.", id)
}
