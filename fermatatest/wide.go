package fermatatest

import (
	"errors"
	"slices"
	"time"

	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// Wait handles of wider scopes, of which a worker does what is due.

// scopes are those of a scenario's handles.
func scopes() []string {
	return []string{core.WaitScope(tool.StoreScope, ""), core.WaitScope(tool.UserScope, theUser)}
}

// wideHandles returns all handles of wider scopes.
func (l *life) wideHandles() (all []*wide.Handle, err error) {
	for _, scope := range scopes() {
		p, err := l.wide.List(l.ctx, scope, wide.Filter{Limit: 200})
		if err != nil {
			return nil, err
		}
		all = append(all, p.Handles...)
	}
	return all, nil
}

// attends ends what is overdue, and has sessions told what they wait for, as a
// worker would. It reports whether there was anything.
func (l *life) attends() bool {
	for _, scope := range scopes() {
		if err := l.wide.Expire(l.ctx, scope); err != nil {
			return isFault(err) && !l.dead()
		}
	}
	all, err := l.wideHandles()
	if err != nil {
		return isFault(err) && !l.dead()
	}
	for _, h := range all {
		if !h.Upkeep.Tells {
			continue
		}
		l.tellable(h)
		_, err := l.wide.Tell(l.ctx, h.ID())
		if err != nil && !isFault(err) && !errors.Is(err, kvstore.ErrUncertain) {
			l.violation("what a wait handle has to tell: %v", err)
		}
		time.Sleep(time.Millisecond)
		return !l.dead()
	}
	return false
}

// tellable makes sure that a worker would find a handle that has to tell.
func (l *life) tellable(h *wide.Handle) {
	page, err := l.wide.Due(l.ctx, nil)
	if err != nil || h.Upkeep.Tries > 0 ||
		slices.ContainsFunc(page.Due, func(d wide.Due) bool { return d.ID == h.ID() }) {
		return
	}
	now, err := l.wide.Get(l.ctx, h.ID())
	if err == nil && now.Upkeep.Commit == h.Upkeep.Commit {
		l.violation("the wait handle %q has to tell, and no worker would find it", h.Name)
	}
}

// permits makes sure that the handles' permits are those that calls have. All
// rests.
func (l *life) permits(family []*core.State) error {
	wrong, err := l.wide.Check(l.ctx)
	if err != nil {
		return err
	}
	for _, w := range wrong {
		l.violation("the wait handles have a flaw: %s", w)
	}
	all, err := l.wideHandles()
	if err != nil {
		return err
	}
	held := map[wide.ID]int{}
	for _, st := range family {
		for i := range st.Calls {
			for _, p := range st.Calls[i].Permits {
				held[wide.ID{Scope: p.Scope, Name: p.Name}]++
			}
		}
	}
	for _, h := range all {
		if h.Permits != nil && h.Permits.Held != held[h.ID()] {
			l.violation("%d permits of %q are given, and calls have %d", h.Permits.Held, h.Name,
				held[h.ID()])
		}
	}
	return nil
}
