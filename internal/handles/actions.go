package handles

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/schema"
)

// Action is what a call does with a handle.
type Action string

// The actions. A call without one runs the tool and waits for its result.
const (
	OneShot Action = ""
	Spawn   Action = "spawn" // begin a handle
	Fetch   Action = "fetch" // show it
	Apply   Action = "apply" // give it input, or answer its question
	Abort   Action = "abort" // stop it
)

// meant are words that models take for actions.
var meant = map[string]Action{
	"start": Spawn, "run": Spawn, "begin": Spawn, "launch": Spawn, "create": Spawn,
	"get": Fetch, "read": Fetch, "status": Fetch, "poll": Fetch, "output": Fetch, "show": Fetch,
	"send": Apply, "write": Apply, "input": Apply, "answer": Apply, "type": Apply,
	"stop": Abort, "kill": Abort, "cancel": Abort, "terminate": Abort, "end": Abort,
}

// unknownAction returns the words for an action that isn't among those of a
// tool.
func unknownAction(name string, of []Action) string {
	if Action(name) == Apply {
		return fmt.Sprintf("the tool takes no input, and so has no action %q; its actions are %s",
			Apply, list(of))
	}
	words := fmt.Sprintf("there is no action %q", excerpt.Of(name))
	near, ok := meant[strings.ToLower(name)]
	if !ok {
		var found string
		found, ok = schema.Nearest(name, texts(of))
		near = Action(found)
	}
	if ok && slices.Contains(of, near) {
		words += fmt.Sprintf("; did you mean %q?", near)
	}
	return words + "; the actions are " + list(of) +
		", and without an action the tool runs and its result is waited for"
}

func texts(actions []Action) []string {
	all := make([]string, len(actions))
	for i, a := range actions {
		all[i] = string(a)
	}
	return all
}

// list returns actions as words.
func list(actions []Action) string { return strings.Join(texts(actions), ", ") }
