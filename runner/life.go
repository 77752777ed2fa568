package runner

import (
	"context"
	"time"
)

// life is how long a drive, and what it began, may go on: which context ends
// when. The goroutine that drives makes it; its contexts never change, and any
// goroutine may look at them.
//
// In the order in which they end: the caller leaves, which ends the bodies and
// the model; a little later the loop no longer waits for the store; when the
// drive is closed, or [Runner.Close] gives up, nothing of the drive does.
type life struct {
	caller   context.Context // of the caller who asked for the drive
	stopping context.Context // when it ends, nothing new is begun; what runs goes on
	work     context.Context // of the bodies and the model
	end      context.CancelCauseFunc

	patience context.Context // how long the loop waits for the store
	giveUp   context.CancelFunc
	lasting  context.Context // how long bodies, and those who wait for them, do
	endAll   context.CancelFunc

	unhook  func() bool // from the runner's end
	unhurry func() bool // from the caller's end
}

func newLife(caller context.Context) (l life) {
	l.caller, l.stopping = caller, context.Background()
	l.work, l.end = context.WithCancelCause(caller)
	l.lasting, l.endAll = context.WithCancel(context.WithoutCancel(caller))
	l.patience, l.giveUp = context.WithCancel(l.lasting)
	return l
}

// storeGrace is how long the store may still take for what the loop waits for
// once the caller has left. What it has not done by then goes on without the
// loop, so that Run is back although the store hangs.
const storeGrace = 100 * time.Millisecond

// hurry lets the loop wait for the store only a little longer.
func (l *life) hurry() { time.AfterFunc(storeGrace, l.giveUp) }

// lose ends the bodies and the model, and hurries the loop.
func (l *life) lose(why error) { l.end(why); l.hurry() }

// watch has the drive end when its caller leaves or the runner is closed.
func (l *life) watch(closing context.Context) {
	l.unhook = context.AfterFunc(closing, func() { l.lose(ErrClosed) })
	l.unhurry = context.AfterFunc(l.caller, l.hurry)
}

// close lets go of all that the contexts hold.
func (l *life) close() {
	l.unhook()
	l.unhurry()
	l.endAll()
}
