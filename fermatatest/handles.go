package fermatatest

import (
	core "github.com/fermata-ai/fermata/internal/session"
)

// handles makes sure that each session knows of its handles what has become of
// them: none that has stopped shows as running, and none that runs as stopped.
// All rests.
func (l *life) handles(family []*core.State) error {
	settled := map[string]bool{}
	for _, st := range family {
		settled[st.ID] = !st.Deleted.IsZero() || core.Next(st, l.Now()).Kind == core.StepIdle
	}
	for _, st := range family {
		for h, err := range l.store.AllHandles(l.ctx, st.ID) {
			if err != nil {
				return err
			}
			over, there := settled[h.Child]
			if there && h.Open() == over {
				l.violation("handle %s of %s: open is %t, and its session is over: %t", h.Name,
					st.ID, h.Open(), over)
			}
		}
	}
	return nil
}
