package fermatatest

import (
	"fmt"
	"slices"
	"strings"

	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// inspect makes sure that nothing in the store is wrong, that nothing in it is
// left to do, and that what waits is listed.
func (l *life) inspect(family []*core.State) error {
	for p, err := range l.store.Check(l.ctx) {
		if err != nil {
			return err
		}
		l.violation("the store has a flaw: %v", p)
	}
	for _, st := range family {
		_, owes := st.OwesAt()
		if driven, _ := l.store.Driven(st); owes || driven || core.Next(st, l.Now()).Working() {
			l.violation("something is left to do in session %s: %+v", st.ID, st.Outbox)
		}
	}
	if err := l.handles(family); err != nil {
		return err
	}
	if err := l.permits(family); err != nil {
		return err
	}
	return l.listed(family)
}

// listed makes sure that the inbox, and the root, list what waits and nothing
// else. All rests.
func (l *life) listed(family []*core.State) error {
	var waiting, people []tool.Pause
	for _, st := range family {
		own, err := l.store.Pauses(l.ctx, st, nil)
		if err != nil {
			return err
		}
		waiting = append(waiting, own...)
		for _, p := range own {
			if st.ID == l.s.root() || st.Root() == l.s.root() && isPeoples(p) {
				people = append(people, p)
			}
		}
	}
	var listed []tool.Pause
	for p, err := range l.runner.Pending(l.ctx, session.PauseFilter{}, "test") {
		if err != nil {
			return err
		}
		listed = append(listed, p)
	}
	l.same("the inbox", listed, waiting)
	if l.gone(family) {
		return nil
	}
	shown, err := l.runner.Show(l.ctx, l.s.root(), "test")
	if err == nil {
		l.same("what is shown of the session", shown.Pending, people)
	}
	return err
}

// isPeoples reports whether a person or an operator answers a pause.
func isPeoples(p tool.Pause) bool {
	return p.Await.Reason.Person() || p.Await.Reason == tool.ReasonUnknown
}

// same compares a list of pauses with those that are open.
func (l *life) same(list string, listed, waiting []tool.Pause) {
	has := func(all []tool.Pause, id string) bool {
		return slices.ContainsFunc(all, func(p tool.Pause) bool { return p.ID == id })
	}
	for _, p := range waiting {
		if !has(listed, p.ID) {
			l.violation("pause %s is open, and not in %s", p.ID, list)
		}
	}
	for _, p := range listed {
		if !has(waiting, p.ID) {
			l.violation("pause %s is in %s, and not open", p.ID, list)
		}
	}
}

// leftovers makes sure that nothing is left of deleted sessions but tombstones,
// and counts those.
func (l *life) leftovers() (string, error) {
	tombstones := 0
	for r := (kvstore.Range{}); ; {
		page, err := l.kv.Scan(l.ctx, r)
		if err != nil {
			return "", err
		}
		for _, e := range page.Entries {
			r.After = e.Key
			parts, err := kvstore.Parts(e.Key)
			if err != nil {
				return "", err
			}
			switch parts[0] {
			case "h":
				tombstones++
			case "s", "t", "x": // schemas, and what is of the store as a whole
			case "": // what kvstore.Copy brought along
			case "o", "k": // the next sweep removes where pauses were found
				if !l.swept() {
					continue
				}
				fallthrough
			default:
				l.violation("of a deleted session there is left: %s", strings.Join(parts, " "))
			}
		}
		if !page.More {
			return fmt.Sprintf("%d tombstones", tombstones), nil
		}
	}
}

// swept reports whether the store was swept.
func (l *life) swept() bool {
	for i, in := range l.s.Inputs {
		if in.kind == isSweep && l.accepted(i) {
			return true
		}
	}
	return false
}

// look makes sure that what has settled stays as it was, and, where all rests,
// that what waits is listed.
func (l *life) look(rests bool) {
	family, err := l.family()
	if err == nil && rests {
		err = l.listed(family)
	}
	if err != nil {
		if !l.dead() {
			l.violation("what waits can't be read: %v", err)
		}
		return
	}
	for _, st := range family {
		for _, c := range l.callsOf(st.ID) {
			s, err := l.runner.Call(l.ctx, st.ID, c.ID, "test")
			if err != nil || s.Settled == "" {
				continue
			}
			now := fmt.Sprintf("%s by %q at %s with %s",
				s.Settled, s.Actor, s.At, tool.HashArguments(s.Output))
			l.mu.Lock()
			before, seen := l.settled[c.ID]
			l.settled[c.ID] = now
			l.mu.Unlock()
			if seen && before != now {
				l.violation("call %s settled twice: %s, and then %s", c.ID, before, now)
			}
		}
	}
}
