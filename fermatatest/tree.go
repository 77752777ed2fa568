package fermatatest

import (
	"errors"
	"slices"
	"strings"

	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
)

// A history is of one session that inputs come to, the root, of all that calls
// have made below it, and of those that they have begun beside it.

// family returns the heads of all sessions, those that are deleted too, the
// root first.
func (l *life) family() (all []*core.State, err error) {
	var ids []string
	for r := (kvstore.Range{Prefix: kvstore.Key("h")}); ; {
		page, err := l.kv.Scan(l.ctx, r)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			parts, err := kvstore.Parts(e.Key)
			if err != nil {
				return nil, err
			}
			ids, r.After = append(ids, parts[1]), e.Key
		}
		if !page.More {
			break
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		switch {
		case a == l.s.root():
			return -1
		case b == l.s.root():
			return 1
		}
		return strings.Compare(a, b)
	})
	for _, id := range ids {
		st, err := l.store.Load(l.ctx, id)
		if errors.Is(err, session.ErrUnknownSession) { // it was swept just now
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, st)
	}
	return all, nil
}

// gone reports whether the root was deleted, or never was.
func (l *life) gone(family []*core.State) bool {
	return len(family) == 0 || family[0].ID != l.s.root() || !family[0].Deleted.IsZero()
}

// session returns the session that a target is in; empty: there is none.
func (l *life) session(t target) string {
	id := l.s.root()
	for _, s := range t.path {
		call := l.callOf(id, s)
		if call == "" {
			return ""
		}
		if id = l.below(call); id == "" {
			return ""
		}
	}
	return id
}

// below returns the session that a call has made, as a handle or by a pause.
func (l *life) below(call string) string {
	if id := core.HandleID(call); l.there(id) {
		return id
	}
	for n := 1; n <= maxPauses; n++ {
		if id := core.ChildID(core.PauseID(call, n)); l.there(id) {
			return id
		}
	}
	return ""
}

func (l *life) there(id string) bool {
	_, err := l.store.Load(l.ctx, id)
	return err == nil
}

// maxPauses is how many pauses a call may have before it makes its session.
const maxPauses = 4

// call returns the id of the call that a target names; empty if there is none.
func (l *life) call(t target) string {
	id := l.session(t)
	if id == "" {
		return ""
	}
	return l.callOf(id, t.step)
}

// callOf returns the id of that call in a session.
func (l *life) callOf(id string, s step) string {
	n := 0
	for _, c := range l.callsOf(id) {
		if c.Name == s.tool {
			if n++; n == s.call {
				return c.ID
			}
		}
	}
	return ""
}

// callsOf returns all calls of a session so far.
func (l *life) callsOf(id string) []llm.ToolCall {
	st, err := l.store.Load(l.ctx, id)
	if err != nil {
		return nil
	}
	l.asked.Lock()
	defer l.asked.Unlock()
	if from := l.asked.messages[id]; from < st.Messages {
		history, err := l.store.History(l.ctx, st, from)
		if err != nil {
			return nil
		}
		for _, m := range history {
			l.asked.calls[id] = append(l.asked.calls[id], m.ToolCalls()...)
		}
		l.asked.messages[id] = st.Messages
	}
	return slices.Clone(l.asked.calls[id])
}
