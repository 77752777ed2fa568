package agui

import (
	"encoding/json"
	"slices"

	"github.com/fermata-ai/fermata/llm"
)

// A client's view is what it has on its screen, by its own word. It is compared
// with the store, so that a client which has missed something is brought up to
// date, and one that hasn't keeps what it shows.

// view is a client's.
type view struct {
	messages []Message
	held     map[string]bool // the ids of them, and of what is new
}

// viewOf returns what a client shows of the session, without what its user has
// just said, and without what is the client's alone. What a nested agent has
// said is in another session.
func viewOf(in *Input, fresh []Queued) view {
	v := view{held: map[string]bool{}}
	isFresh := map[string]bool{}
	for _, m := range fresh {
		isFresh[m.ID] = true
	}
	for _, m := range in.Messages {
		v.held[m.ID] = true
		switch m.Role {
		case roleUser, roleAssistant, roleTool:
			if !isFresh[m.ID] && m.Subagent == "" {
				v.messages = append(v.messages, m)
			}
		}
	}
	return v
}

// align gives the messages of the store, in place, the ids under which the
// client has them, as far as it has the same ones in the same order. It reports
// whether the client has all of them, and nothing else. To the others it gives
// ids that the client doesn't have: a client keeps its place for an id that it
// has, and appends the others, so that the order would be lost. Names gets the
// new ids, by the old ones.
func (v view) align(stored []Message, newID func() string, names map[string]string) (same bool) {
	n := 0
	for n < len(stored) && n < len(v.messages) {
		if stored[n].Role == roleTool && (n == 0 || stored[n-1].Role != roleTool) {
			v.sort(n, stored)
		}
		if !alike(stored[n], v.messages[n]) {
			break
		}
		n++
	}
	for i := range stored {
		id := stored[i].ID
		if i < n {
			id = v.messages[i].ID
		} else if v.held[id] {
			id = newID()
		}
		if id != stored[i].ID {
			names[stored[i].ID] = id
			stored[i].ID = id
		}
	}
	return n == len(stored) && n == len(v.messages)
}

// sort puts the results that the client has at place n, where those of a turn
// begin, into the store's order: they come to it in the order in which the calls
// ended.
func (v view) sort(n int, stored []Message) {
	place := map[string]int{}
	for _, m := range stored[n:] {
		if m.Role != roleTool {
			break
		}
		place[m.Call] = len(place)
	}
	end := n
	for end < len(v.messages) && v.messages[end].Role == roleTool {
		end++
	}
	of := func(m Message) int {
		if p, is := place[m.Call]; is {
			return p
		}
		return len(place) // others come after them
	}
	slices.SortStableFunc(v.messages[n:end], func(a, b Message) int { return of(a) - of(b) })
}

// alike reports whether two messages show the same.
func alike(a, b Message) bool {
	if a.Role != b.Role || a.Call != b.Call || len(a.Calls) != len(b.Calls) {
		return false
	}
	for i, c := range a.Calls {
		if d := b.Calls[i]; c.ID != d.ID || c.Function != d.Function {
			return false
		}
	}
	return text(a) == text(b)
}

// text returns what tells one body from another.
func text(m Message) string {
	switch {
	case m.Body == nil:
		return ""
	case m.Role == roleUser: // as the store would have it
		if said, _, err := m.UserMessage(every); err == nil {
			return hash(bodyOf(said.Clean().Parts))
		}
	}
	return hash(*m.Body)
}

// every is for comparing: what was stored was taken.
func every(string) bool { return true }

func hash(b Body) string {
	if b.Parts == nil {
		return b.Text
	}
	all, _ := json.Marshal(b.Parts) // strings alone
	return string(all)
}

// userText returns what tells a user's message of the session from another.
func userText(m llm.Message) string { return hash(bodyOf(m.Parts)) }
