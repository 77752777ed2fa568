package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// driveTurn drives the open turn as far as it goes, without calling the model.
func (d *drive) driveTurn() error { return d.loop(true) }

// loop takes the steps that Next returns, until the step is to wait, or, with
// callsOnly, to call the model.
func (d *drive) loop(callsOnly bool) error {
	changed, stop := d.rn.store.Watch(d.session)
	defer stop()
	feed, closeFeed := d.rn.live.open(d.session)
	defer closeFeed()
	defer d.rn.pumps(d.session, feed)()
	progress, stopProgress := feed.reports()
	defer stopProgress()
	d.screen.progress, d.screen.feed = progress, feed
	defer func() { d.screen.feed = nil }()
	// What was committed before the watch began gives no signal here, and may have
	// cancelled what would be started. The lease has watched since it read the head.
	if changed, err := d.catchUp(); err != nil {
		return err
	} else if changed {
		if err := d.show(); err != nil {
			return err
		}
	}
	if err := d.calls.unpark(); err != nil {
		return err
	}
	for {
		if err := d.takeUp(changed); err != nil {
			return err
		}
		if d.screen.left {
			return errLeft
		}
		if d.lease.Outrun() {
			if err := d.startOver(); err != nil {
				return err
			}
		}
		step := d.next()
		rests := d.rests(step, callsOnly)
		if !callsOnly {
			// Until the model may be called again, the head shows no work. A
			// renewal may come at any moment, and must not give the lease up.
			d.lease.Keep((step.Kind == session.StepRetry || step.Early) && !rests)
		}
		if rests {
			return nil
		}
		if step.Kind == session.StepModel && step.Early {
			if err := d.ride(func(tx *session.Tx) error { tx.AskNow(); return nil }); err != nil {
				return err
			}
			continue
		}
		if err := d.over(); err != nil {
			return err
		}
		if !d.canTake(step) { // no turn layer is around the wait for a place
			if err := d.await(step, changed); err != nil {
				return err
			}
			continue
		}
		if d.calls.claimsFirst(step) {
			if err := inLayers(d, step, changed); err != nil {
				return err
			}
			continue
		}
		if secured, err := d.lease.Secure(d.waiting); err != nil {
			return err
		} else if secured { // the commit may have brought what others have done
			if dying, err := d.dying(); dying {
				return err
			}
			continue
		}
		if err := inLayers(d, step, changed); err != nil {
			return err
		}
	}
}

// next returns the next step as far as this drive knows.
func (d *drive) next() session.Step {
	step := d.lease.Next()
	if d.closing.handed { // what comes next is the other agent's
		step.Kind = session.StepWait
	}
	return step
}

// rests reports whether the loop ends at the step, rather than take it.
func (d *drive) rests(step session.Step, callsOnly bool) bool {
	switch step.Kind {
	case session.StepIdle, session.StepWait, session.StepHalted:
		return d.crew.running() == 0
	case session.StepRetry:
		return callsOnly || d.worker || d.outlastsHold(step) // a worker comes back then
	case session.StepSay: // which is taken outside of the loop
		return !callsOnly || d.crew.running() == 0
	case session.StepModel, session.StepLinger:
		return callsOnly
	case session.StepAnswer:
		return callsOnly && d.crew.running() == 0
	}
	return false
}

// outlastsHold reports whether the model is to be called again so late that the
// drive gives the session up until then.
func (d *drive) outlastsHold(step session.Step) bool {
	return step.Until.Sub(d.rn.store.Now()) > d.agent.Retry().Hold
}

// over returns why the drive must take no further step, or nil.
func (d *drive) over() error {
	switch l := &d.life; {
	case l.work.Err() != nil:
		return context.Cause(l.work)
	case d.rn.closing.Err() != nil: // the drive is about to be told
		return ErrClosed
	case l.stopping.Err() != nil && d.crew.running() == 0:
		return context.Cause(l.stopping)
	}
	return nil
}

// step takes one step, or waits for the place that it needs.
func (d *drive) step(ctx context.Context, step session.Step, changed <-chan struct{}) error {
	// loop has asked, too. But inside turn layers the step changes between.
	if !d.canTake(step) {
		return d.await(step, changed)
	}
	err := d.calls.stopBodies(&d.committer)
	switch {
	case err != nil:
	case step.Kind == session.StepModel:
		err = d.model.call(ctx)
	case step.Kind == session.StepAnswer:
		if err = d.show(); err == nil {
			err = d.model.answerOwn(ctx)
		}
	case step.Kind == session.StepLinger:
		err = d.model.linger(ctx)
	case step.Kind == session.StepClose:
		// What has settled since the last look is shown first: the head is
		// about to forget it.
		if err = d.show(); err == nil {
			err = d.closing.closeTurn()
		}
	case step.Kind == session.StepRetry:
		err = d.wait(step, changed)
	case step.Kind == session.StepExpire:
		err = d.flush() // every commit expires what is overdue
	default:
		if err = d.calls.advance(ctx); err == nil && (d.crew.running() > 0 || d.crew.queued) {
			err = d.wait(step, changed)
		}
	}
	return d.taken(err)
}

// await waits for the place that a step needs.
func (d *drive) await(step session.Step, changed <-chan struct{}) error {
	err := d.calls.stopBodies(&d.committer)
	if err == nil {
		err = d.wait(step, changed)
	}
	return d.taken(err)
}

// taken shows what a step has brought, or starts the drive over if others were
// faster. Other errors it returns.
func (d *drive) taken(err error) error {
	if err = d.lookAgain(err); err == nil {
		err = d.show()
	}
	return err
}

// wait returns when the loop may have something to do. Meanwhile the drive has
// no place.
func (d *drive) wait(step session.Step, changed <-chan struct{}) error {
	d.seat.leave()
	due, stop := d.crew.timer(d.untilLook(step))
	defer stop()
	w := watched{
		handed: d.crew.batch.Handed(), entered: d.crew.entered, freed: d.crew.freed,
		changed: changed, due: due, progress: d.screen.progress,
		nested: d.screen.ear, hear: d.screen.deliver, // turn layers are around this session alone
		room: d.seat.granted(), told: d.life.stopping.Done(), over: d.life.work.Done(),
	}
	for {
		switch d.crew.wait(&w, d.screen.emit) {
		case wokeEnded:
			return d.crew.failed
		case wokeSeated:
			return nil
		case wokeNews:
			return d.readAgain()
		case wokeLeft:
			return errLeft
		case wokeOver:
			return context.Cause(d.life.work)
		case wokeTold:
			w.told = nil // what runs is waited for
			if d.crew.running() == 0 {
				return nil
			}
		}
	}
}

// readAgain takes up what others have committed. If the store fails, the loop
// waits on, while the lease lasts, and asks again after a while.
func (d *drive) readAgain() error {
	_, err := d.refresh()
	if d.blind = session.IsOutage(err); d.blind {
		err = nil
	}
	return err
}

// blindFor is how long a drive that could not read its session waits until it
// reads it again.
const blindFor = time.Second

// untilLook returns how long the loop may wait without a signal: until the next
// deadline of a pause, and, where leases are stored, until the next look at
// what other processes have done.
func (d *drive) untilLook(step session.Step) time.Duration {
	after := never
	if d.blind {
		after = blindFor
	}
	if every := d.lease.RenewEvery(); every > 0 {
		after = min(after, every)
	}
	if !step.Until.IsZero() {
		after = min(after, step.Until.Sub(d.rn.store.Now()))
	}
	return after
}

// show emits what is new of the open turn.
func (d *drive) show() error {
	if err := d.screen.showNews(); err != nil {
		return d.lookAgain(err)
	}
	return nil
}

// takeUp reads the head again if others may have changed it.
func (d *drive) takeUp(changed <-chan struct{}) error {
	select {
	case <-changed:
		return d.look()
	default:
		return nil
	}
}

// look reads the head again, and shows what is new. If the store fails while
// bodies run, that can wait.
func (d *drive) look() error {
	changed, err := d.refresh()
	if d.blind = session.IsOutage(err) && d.crew.running() > 0; d.blind {
		err = nil
	}
	if err != nil || !changed {
		return err
	}
	return d.show()
}

// lookAgain starts the drive over if err is a movedError. Any other error, nil
// too, it returns.
func (d *drive) lookAgain(err error) error {
	if err == nil {
		d.moves = 0
		return nil
	}
	var m *movedError
	if !errors.As(err, &m) {
		return err
	}
	if d.moves++; d.moves > maxMoves {
		return err
	}
	return d.startOver()
}

// startOver forgets what the drive knew, because another commit came first.
func (d *drive) startOver() error {
	d.read.forget()
	d.crew.forget()
	d.screen.forget()
	if _, err := d.refresh(); err != nil {
		return err
	}
	d.closing.lookAgain(d.agent.Name())
	return d.show()
}

// maxTakeovers is how many drives may die of a session, one after the other,
// before it is failed. Package session tells deaths of a session from those
// beside it.
const maxTakeovers = 5

// dying reports whether the session kills its drivers, and then fails it.
func (d *drive) dying() (dying bool, err error) {
	takeovers, deadly := 0, 0
	d.lease.View(func(st *session.State) { takeovers, deadly = st.Takeovers, st.Deadly })
	if deadly <= maxTakeovers {
		if takeovers > 0 {
			d.log().Warn("a drive of the session died; another carries it on",
				"session", d.session, "deaths", takeovers)
		}
		return false, nil
	}
	return true, d.fail(fmt.Errorf("%d drives of session %q died one after the other, "+
		"each while a call of it, or a commit, was in flight; Continue tries again",
		deadly, d.session))
}
