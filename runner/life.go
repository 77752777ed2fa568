package runner

import (
	"context"
	"time"
)

// life is how long a drive, and what it began, may go on: which context ends
// when. The goroutine that drives makes it. Its contexts never change, and any
// goroutine may look at them.
//
// They end in this order. When the caller leaves, caller ends, and work with
// it: so do the bodies and the model. A little later patience ends: the loop no
// longer waits for the store. When the drive is closed, or [Runner.Close] gives
// up, lasting ends, and with it all that is left of the drive.
type life struct {
	caller   context.Context // of the caller who asked for the drive
	stopping context.Context // when it ends, nothing new is begun; what runs goes on
	work     context.Context // of the bodies and the model
	end      context.CancelCauseFunc

	patience context.Context // how long the loop waits for the store
	giveUp   context.CancelFunc
	lasting  context.Context // how long bodies, and drain, wait for the store
	endAll   context.CancelFunc
	// how long bodies whose context has ended may take; it ends when the lease
	// is lost, and before Close gives up
	bodies    context.Context
	endBodies context.CancelFunc

	unhook  func() bool // from the runner's end
	unhurry func() bool // from the caller's end
}

func newLife(caller context.Context) (l life) {
	l.caller, l.stopping = caller, context.Background()
	l.work, l.end = context.WithCancelCause(caller)
	l.lasting, l.endAll = context.WithCancel(context.WithoutCancel(caller))
	l.patience, l.giveUp = context.WithCancel(l.lasting)
	l.bodies, l.endBodies = context.WithCancel(l.lasting)
	return l
}

// storeGrace is how long the loop still waits for the store after the caller
// has left. What the store has not done by then goes on without the loop, so
// that Run returns although the store hangs.
const storeGrace = 100 * time.Millisecond

// hurry lets the loop wait for the store only a little longer.
func (l *life) hurry() { time.AfterFunc(storeGrace, l.giveUp) }

// lose ends the bodies and the model, and hurries the loop.
func (l *life) lose(why error) { l.end(why); l.hurry() }

// lostLease is lose for a drive that has lost its session: another one may begin
// the bodies anew.
func (l *life) lostLease(why error) { l.endBodies(); l.lose(why) }

// inTime is the part of a bound in which bodies are to be ended by force, so
// that they are gone when it is over.
func inTime(bound time.Duration) time.Duration { return bound * 3 / 4 }

// watch has the drive end when its caller leaves or the runner is closed, which
// waits so long.
func (l *life) watch(closing context.Context, waits time.Duration) {
	l.unhook = context.AfterFunc(closing, func() {
		l.lose(ErrClosed)
		time.AfterFunc(inTime(waits), l.endBodies)
	})
	l.unhurry = context.AfterFunc(l.caller, l.hurry)
}

// close lets go of all that the contexts hold.
func (l *life) close() {
	l.unhook()
	l.unhurry()
	l.endAll()
}
