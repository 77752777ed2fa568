package runner

import (
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/session"
)

// gone reports whether a call's tool was there when it was asked for, and is
// not now. A tool that the model invented settles its call by itself.
func (d *drive) gone(c *session.Call) bool {
	return !c.Invented && !d.rn.has(d.agent.Name(), c.Tool)
}

// has reports whether an agent of this runner has a tool.
func (rn *Runner) has(agent, name string) bool {
	a := rn.agents[agent]
	if a == nil {
		return false
	}
	_, _, known := hold.Of(a).Tools.Declared(name)
	return known
}

// park makes a call wait until its tool is back. One that was denied needs
// none.
func (d *drive) park(c *session.Call) error {
	for _, rec := range c.Decisions {
		if !rec.Approved {
			return d.settleDenied(c, rec)
		}
	}
	if c.Parked != nil {
		return nil
	}
	var until time.Time
	if wait := d.rn.options.ParkedTimeout; wait > 0 {
		until = d.rn.store.Now().Add(wait)
	}
	d.rn.options.Logger.Warn("a call is parked: its tool is gone", "session", d.session, "agent", d.agent.Name(), "tool", c.Tool, "call", c.ID)
	id := c.ID // c is good only until the open calls are copied again
	return d.lease.Update(d.commitCtx(), func(tx *session.Tx) error { return tx.Park(id, until) })
}

// settleDenied settles a call that was denied, in the words that its layer
// would have used.
func (d *drive) settleDenied(c *session.Call, rec session.Decision) error {
	denial, err := d.rn.store.Decided(d.commitCtx(), d.session, rec)
	if err != nil {
		return err
	}
	id, text := c.ID, session.DeniedText(c, denial.Reason)
	return d.lease.Update(d.commitCtx(), func(tx *session.Tx) error {
		return tx.Settle(id, &session.Outcome{Status: event.Denied, Output: session.StringBlob(text), By: denial.By})
	})
}

// unpark lets calls go on whose tools are back.
func (d *drive) unpark() error {
	var back []string
	open, _ := d.openCalls()
	for i := range open {
		if c := &open[i]; c.Parked != nil && !d.gone(c) {
			back = append(back, c.ID)
		}
	}
	if len(back) == 0 {
		return nil
	}
	return d.lease.Ride(d.commitCtx(), func(tx *session.Tx) error {
		for _, id := range back {
			if err := tx.Unpark(id); err != nil {
				return err
			}
		}
		return nil
	})
}

// parked lists the calls that wait for their tools.
func (d *drive) parked() (parked []event.Parked) {
	d.lease.View(func(st *session.State) { parked = st.Parked() })
	return parked
}

// idle reports whether there is nothing for a drive to do.
func (d *drive) idle() (idle bool) {
	if d.lease.Heir() { // which died before it showed how the run ended
		return false
	}
	d.lease.View(func(st *session.State) { idle = !d.rn.store.Next(st).Working() && !d.rn.returned(st) })
	return idle
}

// returned reports whether a call is parked whose tool is here.
func (rn *Runner) returned(st *session.State) bool {
	for i := range st.Calls {
		if c := &st.Calls[i]; c.Parked != nil && rn.has(st.Agent, c.Tool) {
			return true
		}
	}
	return false
}
