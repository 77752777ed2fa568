package runner

import (
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/session"
)

// Calls whose tools are gone: they are parked, and go on when a drive has the
// tool.

// has reports whether an agent of this runner has a tool.
func (rn *Runner) has(agent, name string) bool {
	a := rn.agents[agent]
	if a == nil {
		return false
	}
	_, _, known := hold.Of(a).Tools.Declared(name)
	return known
}

// canUndo reports whether an agent of this runner has a tool that calls off what
// its calls have begun.
func (rn *Runner) canUndo(agent, name string) bool {
	return rn.has(agent, name) && hold.Of(rn.agents[agent]).Tools.Cancels(name).Do != nil
}

// hasParked reports whether an agent of this runner has what a parked call, or
// what is left of one, waits for.
func (rn *Runner) hasParked(agent, name string) bool {
	if of, owner, ok := session.UndoTool(name); ok {
		return rn.canUndo(owner, of)
	}
	return rn.has(agent, name)
}

// returned reports whether a call of the session is parked, and its tool is
// here.
func (rn *Runner) returned(st *session.State) bool {
	for i := range st.Calls {
		if c := &st.Calls[i]; c.Parked != nil && rn.has(st.Agent, c.Tool) {
			return true
		}
	}
	return false
}

// park makes a call wait until its tool is back. A call that was denied
// settles: it needs no tool.
func (cs *calls) park(c *session.Call) error {
	for _, rec := range c.Decisions {
		if !rec.Approved {
			return cs.settleDenied(c, rec)
		}
	}
	if c.Parked != nil {
		return nil
	}
	var until time.Time
	if wait := cs.rn.options.ParkedTimeout; wait > 0 {
		until = cs.rn.store.Now().Add(wait)
	}
	cs.log().Warn("a call is parked: its tool is gone",
		"session", cs.session, "agent", cs.agent.Name(), "tool", c.Tool, "call", c.ID)
	id := c.ID
	return cs.commit(func(tx *session.Tx) error { return tx.Park(id, until) })
}

// settleDenied settles a call that was denied, in the words that its layer
// would have used.
func (cs *calls) settleDenied(c *session.Call, rec session.Decision) error {
	denial, err := cs.rn.store.Decided(cs.waiting, cs.session, rec)
	if err != nil {
		return err
	}
	id, text := c.ID, session.DeniedText(c, denial.Reason)
	return cs.commit(func(tx *session.Tx) error {
		return tx.Settle(id, &session.Outcome{
			Status: event.Denied, Output: session.StringBlob(text), Actor: denial.Actor,
		})
	})
}

// unpark lets parked calls go on, if their tools are back.
func (cs *calls) unpark() error {
	var back []string
	open, _ := cs.read.calls()
	for i := range open {
		if c := &open[i]; c.Parked != nil && !cs.gone(c) {
			back = append(back, c.ID)
		}
	}
	if len(back) == 0 {
		return nil
	}
	return cs.ride(func(tx *session.Tx) error {
		for _, id := range back {
			if err := tx.Unpark(id); err != nil {
				return err
			}
		}
		return nil
	})
}
