package runner

import (
	"context"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// A handle whose process has died needs no worker: who looks at it has it
// carried on. What may run again does, and anything else stops, with an unknown
// outcome.

// carriedWait is how long a look at a handle waits for the drive that carries it
// on. Afterwards the handle is shown as it is.
const carriedWait = time.Second

// revive has a child driven that has work, and that no drive has or is about
// to have, if its agent is here. Then it returns a number greater than that of
// any drive so far, and otherwise zero.
//
// A stored lease is over for this process once it has seen it unchanged for so
// long. So the first look after a death may find it standing.
func (rn *Runner) revive(st *session.State) (dead int) {
	if st.Parent == nil || rn.agents[st.Agent] == nil || !rn.store.Next(st).Working() {
		return 0
	}
	if driven, _ := rn.store.Driven(st); driven || rn.children.known(st.ID) {
		return 0
	}
	rn.children.start(st.Root(), st.ID)
	return st.Epoch + 1
}

// awaitCarried waits until a drive of that number or a later one has found out
// what became of the handle's call, but not for long.
func (rn *Runner) awaitCarried(ctx context.Context, rec *session.Handle, drive int) {
	changed, stop := rn.store.WatchAll(rec.Child)
	defer stop()
	over := time.NewTimer(carriedWait)
	defer over.Stop()
	for {
		st, err := rn.store.Load(ctx, rec.Child)
		if err != nil {
			return
		}
		c := st.Call(rec.Call)
		if c == nil || c.Status == session.Settled || c.Status == session.Pending ||
			st.Epoch >= drive && (c.Status != session.Running || c.Epoch >= drive) {
			return
		}
		select {
		case <-changed:
		case <-over.C:
			return
		case <-rn.closing.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}
