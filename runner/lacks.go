package runner

import (
	"context"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// lack is a session below another one in which work is due, and whose agent
// this runner doesn't have, as the other one's call sees it that waits above.
type lack struct {
	event.Parked
	path []tool.PathStep // from the root down to that session
}

// lackOf is a child in which work is due that no drive takes up, as a lack.
func lackOf(child *session.State) lack {
	return lack{event.Parked{Agent: child.Agent, Session: child.ID, Since: child.DueSince()},
		child.Parent.Path}
}

// undriven is a lack as an event.
func (l lack) undriven() event.Nested {
	return event.Nested{Path: l.path, Session: l.Session, Agent: l.Agent,
		Event: event.Undriven{Agent: l.Agent, Since: l.Since}}
}

// lacking lists what can't go on below a session here, a page at most. Of a
// session whose own agent isn't here it lists nothing: this runner only takes
// answers for it. One that can't be read is passed over.
func (rn *Runner) lacking(ctx context.Context, st *session.State) (all []lack, err error) {
	if st.Children == 0 || rn.agents[st.Agent] == nil {
		return nil, nil
	}
	err = rn.eachBusy(ctx, st, func(child *session.State, is doing) {
		if is != lacks || len(all) == session.MaxPage {
			return
		}
		for _, step := range child.Parent.Path {
			c := st.Call(step.Call)
			if step.Session != st.ID || c == nil {
				continue
			}
			all = append(all, lack{event.Parked{Call: c.ID, Tool: c.Tool, Agent: child.Agent,
				Session: child.ID, Since: child.DueSince()}, child.Parent.Path})
		}
	})
	if unreadable(err) {
		err = nil
	}
	return all, err
}

// lackingAs is lacking, as callers see it.
func (rn *Runner) lackingAs(ctx context.Context, st *session.State) ([]event.Parked, error) {
	var parked []event.Parked
	all, err := rn.lacking(ctx, st)
	for _, l := range all {
		parked = append(parked, l.Parked)
	}
	return parked, err
}
