package runner

import (
	"context"
	"errors"
	"iter"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/batch"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/session"
)

// drive is one drive of a session: the loop that takes the step which
// session.Next returns, and commits after each, with the parts that it uses.
//
// Data flows one way: head, loop, attempt, outcome, commit, listener. The loop
// reads the next step off the head (loop.go). It takes the step itself
// (model.go, calls.go, closing.go), or makes an attempt (attempt.go). The
// outcome is committed (conclude.go, commit.go). What the commit changed is
// shown, off the head (screen.go, listener.go). Nothing flows back: an attempt
// doesn't see the loop, and the listener decides nothing but that it leaves.
//
// All of it belongs to the goroutine that ranges over the events. If the caller
// leaves while bodies still run, the goroutine of drain takes it over. Attempts
// run in goroutines of their own. They share with the loop only what never
// changes: the subject, and the contexts of life.
type drive struct {
	subject
	committer // the loop's
	life      life

	read    reading
	crew    crew
	screen  screen
	calls   calls
	closing closing
	model   modelCaller

	seat   *seat  // among the places of its worker; nil: it needs no place
	worker bool   // a worker drives: no caller waits for the events
	queue  bool   // it takes the messages that begin runs
	deafen func() // ends that the process looks for what others do to a handle
	moves  int    // how often in a row it has started over, see lookAgain
	blind  bool   // the store failed when it was last read
}

// errLeft is the cause by which bodies end when the caller leaves.
var errLeft = errors.New("the run was interrupted")

// newDrive takes the lease of a session.
func (rn *Runner) newDrive(ctx context.Context, id string, n *session.New) (*drive, error) {
	lease, err := rn.store.Acquire(ctx, id, n)
	if err != nil {
		return nil, err
	}
	d := &drive{subject: subject{rn: rn, session: id}, life: newLife(ctx)}
	d.committer = committer{lease, d.life.patience}
	d.assemble()
	var name string
	lease.View(func(st *session.State) {
		name, d.user = st.Agent, st.User
		// What was settled or paused before is no news, unless it was never
		// shown.
		for i := range st.Calls {
			if c := &st.Calls[i]; !c.Unshown {
				d.screen.sights.calls[c.ID] = sightOf(c)
			}
		}
	})
	if d.agent, err = rn.agent(name); err == nil {
		d.core = hold.Of(d.agent)
		err = rn.drives.begin(d)
	}
	if err != nil {
		d.life.end(err)
		d.life.endAll()
		lease.Release()
		return nil, err
	}
	d.deafen = func() {}
	if session.IsHandle(id) { // others may give its body input, or end it
		d.deafen = rn.store.Listen()
	}
	d.life.watch(rn.closing, rn.options.CloseTimeout)
	lease.OnLost(d.life.lostLease)
	var owing session.Owing
	d.lease.View(func(st *session.State) {
		if st.HasErrands() { // for others, or to be called off outside
			owing = st.Owing()
		}
	})
	if owing.Session != "" {
		rn.courier.send(owing)
	}
	var left []string
	d.lease.View(func(st *session.State) { left = st.Run.Leaving })
	if len(left) > 0 { // the user's next message makes the head forget them
		rn.drives.start(func() { rn.stirLeft(left) })
	}
	return d, nil
}

// assemble puts the parts together.
func (d *drive) assemble() {
	s, c, l := &d.subject, &d.committer, &d.life
	d.read = reading{subject: s, committer: c}
	d.crew = crew{batch: batch.New(2 * agentcore.MaxCalls), underway: map[string]member{},
		entered: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
	d.screen = screen{subject: s, committer: c, read: &d.read, crew: &d.crew}
	d.screen.from, d.screen.sights.calls = &d.screen, map[string]sight{}
	d.calls = calls{subject: s, committer: c, life: l, read: &d.read, crew: &d.crew}
	d.closing = closing{committer: c, read: &d.read, crew: &d.crew, screen: &d.screen}
	d.model = modelCaller{
		subject: s, committer: c, life: l, read: &d.read, out: &d.screen.listener,
		request: agentcore.Own{Metadata: map[string]string{"session": d.session}},
	}
}

// events returns the events of the drive. Ranging over them drives. Before, if
// given, runs first; it may drive the open turn to its end with d.driveTurn.
func (d *drive) events(before func() error) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		d.screen.yield = yield
		end, err := d.toTheEnd(before)
		if d.screen.left || err != nil && !yield(nil, err) {
			return
		}
		yield(end, nil)
	}
}

// toTheEnd drives, and ends the drive, also if the caller panics or ends the
// goroutine while it looks at an event.
func (d *drive) toTheEnd(before func() error) (event.End, error) {
	ended := false
	defer func() {
		if !ended {
			d.screen.left = true
			if _, err := d.finish(errLeft); err != nil && !errors.Is(err, errLeft) {
				d.log().Error("a drive could not be ended", "session", d.session, "error", err)
			}
		}
	}()
	err := d.whole(before)
	ended = true
	defer d.read.keep() // once nothing more of it is shown
	return d.finish(d.reason(err))
}

// reason returns why the drive ends. If the caller has left, and the loop no
// longer waited for the store, that is the reason, and not the error of the
// wait.
func (d *drive) reason(err error) error {
	if err == nil || d.waiting.Err() == nil ||
		!errors.Is(err, session.ErrGoesOn) && !errors.Is(err, context.Canceled) {
		return err
	}
	cause := context.Cause(d.life.work)
	if cause == nil {
		cause = errLeft
	}
	var u *untaken
	if errors.As(err, &u) {
		return &untaken{cause}
	}
	return cause
}

// whole drives until there is nothing to do.
func (d *drive) whole(before func() error) error {
	if err := d.screen.showUnseen(); err != nil {
		return err
	}
	if err := d.show(); err != nil {
		return err
	}
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	for {
		if err := d.loop(false); err != nil || d.closing.handed {
			return err
		}
		more, err := d.takeQueued()
		if err == nil && !more {
			more, err = d.rest()
		}
		if !more {
			return err
		}
	}
}

// rest gives the lease up, since there is nothing to do, and looks once more:
// an answer that came in between must be taken up. It reports whether the drive
// goes on.
func (d *drive) rest() (more bool, err error) {
	if err := d.screen.noteShown(); err != nil {
		return false, err
	}
	if d.leaves() { // the end of the drive gives the lease up
		if d.lease.Rides() {
			err = d.flush()
		}
		return false, err
	}
	if err := d.lease.Rest(d.waiting); err != nil {
		return false, err
	}
	if d.next().Working() {
		return true, d.show()
	}
	d.lease.Release()
	_, err = d.refresh()
	if errors.Is(err, session.ErrFenced) || errors.Is(err, session.ErrBusy) {
		return false, nil // another drive has it
	}
	if err != nil || !d.next().Working() {
		return false, err
	}
	lease, err := d.rn.store.Acquire(d.waiting, d.session, nil)
	if errors.Is(err, session.ErrBusy) {
		return false, nil // the drive that has it saw the same
	}
	if err != nil {
		return false, err
	}
	d.lease.OnLost(nil) // a body that was given up may still use the old lease
	lease.OnLost(d.life.lostLease)
	d.lease = lease
	d.rn.drives.renew(d, lease)
	d.read.forget()
	d.crew.newTurn()
	return true, d.show()
}

// idle reports whether there is nothing for a drive to do.
func (d *drive) idle() (idle bool) {
	if d.lease.Heir() { // the dead drive may not have shown how the run ended
		return false
	}
	if d.next().Working() {
		return false
	}
	d.lease.View(func(st *session.State) { idle = !d.rn.returned(st) })
	return idle
}
