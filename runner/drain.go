package runner

import (
	"time"

	"github.com/fermata-ai/fermata/internal/session"
)

// drain waits for the attempts of a drive whose caller has left. It runs in a
// goroutine of its own, to which the drive's parts belong from then on. It
// keeps the lease until the last body has ended. Each attempt commits its own
// outcome, unless it is cancelled and doesn't stop.
type drain struct {
	*drive
	to      committer // which waits as long as bodies do
	toldAt  time.Time // when drain saw that the runner or worker ended
	inOrder bool      // it has stored that the drive was ended in order
}

// run drains, and closes the drive.
func (dr *drain) run() {
	defer dr.close()
	dr.to = committer{dr.lease, dr.life.lasting}
	changed, stop := dr.rn.store.Watch(dr.session)
	defer stop()
	for dr.crew.running() > 0 {
		dr.endInOrder()
		err := dr.stopCancelled() // the first time, those that were cancelled before this watched
		if err != nil {
			dr.log().Warn("bodies that run on can't see their session",
				"session", dr.session, "error", err)
		}
		if lost(err) {
			dr.lease.Abandon()
			break
		}
		if dr.crew.running() > 0 {
			dr.waitOn(changed, err != nil)
		}
		if dr.crew.running() == 0 {
			dr.lease.Keep(false)
			last := append(dr.screen.noteSeen(), dr.crew.unclaims()...)
			dr.leftUndone(dr.lease.GiveUp(dr.to.waiting, last...))
		}
	}
	for dr.crew.batch.Len() > 0 {
		dr.crew.wait(&watched{}, nil)
	}
	dr.leftUndone(dr.lease.AwaitCommits(dr.to.waiting))
}

// leftUndone logs an error of which no caller hears.
func (dr *drain) leftUndone(err error) {
	if err != nil && !lost(err) && dr.to.waiting.Err() == nil {
		dr.log().Error("a drive was not ended as it should", "session", dr.session, "error", err)
	}
}

// stopCancelled stops the bodies whose calls, or run, were cancelled or settled
// by others.
func (dr *drain) stopCancelled() error {
	if _, err := dr.to.refresh(); err != nil {
		return err
	}
	return dr.calls.stopBodies(&dr.to)
}

// waitOn waits until a body has ended, or others may have cancelled one, or its
// time of grace is over. Blind: the store could not be asked, and is asked
// again after a second.
func (dr *drain) waitOn(changed <-chan struct{}, blind bool) {
	due, stop := dr.crew.timer(dr.untilLook(session.Step{}))
	defer stop()
	w := watched{changed: changed, due: due}
	if blind {
		w.changed, w.due = nil, time.After(blindFor)
	}
	switch {
	case dr.inOrder:
	case !dr.toldAt.IsZero(): // half of the time that Close waits, in all
		w.overdue = time.After(time.Until(dr.toldAt.Add(dr.rn.options.CloseTimeout / 2)))
	case dr.worker:
		w.told = dr.life.stopping.Done()
	default:
		w.told = dr.rn.closing.Done()
	}
	dr.crew.wait(&w, nil)
}

// endInOrder stores, once, that bodies run on although the runner, or the
// worker, has ended and told them to end. If the process ends next, that
// doesn't count as a death of the session's drive.
func (dr *drain) endInOrder() {
	switch {
	case dr.inOrder || dr.rn.closing.Err() == nil && dr.life.stopping.Err() == nil:
	case dr.toldAt.IsZero():
		dr.toldAt = time.Now()
	case time.Since(dr.toldAt) >= dr.rn.options.CloseTimeout/2:
		dr.inOrder = true
		dr.leftUndone(dr.to.commit(func(tx *session.Tx) error { tx.EndInOrder(); return nil }))
	}
}
