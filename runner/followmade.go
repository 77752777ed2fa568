package runner

import (
	"context"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// callMade shows the artifacts of a call of the open turn that were not shown.
func (f *follower) callMade(ctx context.Context, i int, c *session.Call) error {
	if c.Status != session.Settled {
		return f.artifacts(ctx, i, c, c.Actions)
	}
	if c.Background || f.place.sees(i, c) {
		return nil
	}
	r, err := f.view.record(ctx, c.ID, f.view.st.Messages)
	if err != nil {
		return err
	}
	return f.artifacts(ctx, i, c, r.Actions)
}

// artifacts shows those in the lists of what a call made, of which each is that
// of a pause, or of the result. They come before these, as in a drive. The place
// has each as it is shown: one who comes back behind it is shown the next one.
func (f *follower) artifacts(
	ctx context.Context, i int, c *session.Call, lists []*session.Blob,
) error {
	if c.Background {
		return nil
	}
	for g := f.place.of(i); g.made < len(lists); g.made, g.artifacts = g.made+1, 0 {
		actions, err := f.view.actions(ctx, c.ID, g.made, lists[g.made])
		if err != nil {
			return err
		}
		n := 0
		for _, a := range actions {
			if a.Artifact == nil {
				continue
			}
			if n++; n <= g.artifacts {
				continue
			}
			g.artifacts = n
			if !f.mark(event.Artifact{Call: c.ID, Tool: c.Tool, Artifact: *a.Artifact}) {
				return nil
			}
		}
	}
	return nil
}
