package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
)

// drive is one drive of a session: the loop that does what session.Next says and commits after each step.
//
// Data flows one way: the head says what to do; the loop does it, or starts a body that does; what came of it is committed;
// what the commit changed is shown. The loop, and all that yields, run in the goroutine of whoever ranges over the events. A
// body runs in its own, commits its own outcome, and touches nothing else of the drive than what is marked so.
type drive struct {
	display
	agent    *agent.Agent
	user     string
	metadata map[string]string // of model requests
	lease    *session.Drive    // bodies keep the one that they were started under

	caller   context.Context // of whoever asked for the drive
	stopping context.Context // when it ends, nothing new is begun; what runs goes on
	ctx      context.Context // of the bodies and the model
	cancel   context.CancelCauseFunc
	unhook   func() bool     // from the runner's end
	lasting  context.Context // ctx without its end

	batch     *agent.Batch
	abandoned map[string]bool      // bodies whose calls settled without them
	grace     map[string]time.Time // when a cancelled body's call settles without it
	history   []llm.Message        // once loaded
	asked     []llm.ToolCall       // the open turn's calls, once loaded
	turn      turnFacts
	copied    []session.Call // the open calls, for openCalls
	progress  <-chan event.Progress
	held      []event.Event // to be shown after the next commit

	left      bool // whoever ranged over the events has gone
	listening bool // whoever ranges over the events is looking at one
	worker    bool // nobody waits for the events
}

// turnFacts are what bodies need to know of the open turn.
type turnFacts struct {
	number int
	asked  time.Time
	key    int
	secret []byte
	opened bool // by this drive, which so knows all that has run of it
}

// errLeft is the cause by which bodies end when the caller leaves.
var errLeft = errors.New("the run was interrupted")

// newDrive takes the lease of a session.
func (rn *Runner) newDrive(ctx context.Context, id string, n *session.New) (*drive, error) {
	lease, err := rn.store.Drive(ctx, id, n)
	if err != nil {
		return nil, err
	}
	d := &drive{
		display: display{rn: rn, session: id, shown: map[string]string{}}, lease: lease,
		metadata:  map[string]string{"session": id},
		abandoned: map[string]bool{}, grace: map[string]time.Time{},
	}
	// Also of what rides, and is not stored yet.
	d.record = func(ctx context.Context, call string) (session.Record, error) { return d.lease.Record(ctx, call) }
	d.pause = d.showPause
	var name string
	lease.View(func(st *session.State) {
		name, d.user = st.Agent, st.User
		d.news(st) // what was settled or paused before is none
	})
	if d.agent, err = rn.agent(name); err == nil {
		err = rn.begin(d)
	}
	if err != nil {
		lease.Release()
		return nil, err
	}
	d.batch = agent.NewBatch()
	d.caller, d.stopping = ctx, context.Background()
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	d.lasting = context.WithoutCancel(ctx)
	d.unhook = context.AfterFunc(rn.closing, func() { d.cancel(ErrClosed) })
	return d, nil
}

// commitCtx is the context for commits: a result is recorded also after its run was left.
func (d *drive) commitCtx() context.Context { return d.lasting }

// events is the drive, for ranging over. Before, if given, runs first; it may drive the open turn to its end with d.settle.
func (d *drive) events(before func() error) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		d.emit = func(ev event.Event) bool {
			if !d.left {
				d.listening = true
				d.left = !yield(ev, nil)
				d.listening = false
			}
			return !d.left
		}
		end, err := d.toTheEnd(before)
		if d.left || err != nil && !yield(nil, err) {
			return
		}
		yield(end, nil)
	}
}

// toTheEnd drives, and ends the drive, also where whoever ranges over the events panics or ends the goroutine.
func (d *drive) toTheEnd(before func() error) (event.End, error) {
	ended := false
	defer func() {
		if !ended {
			d.left = true
			if _, err := d.finish(errLeft); err != nil && !errors.Is(err, errLeft) {
				d.rn.options.Logger.Error("a drive could not be ended", "session", d.session, "error", err)
			}
		}
	}()
	err := d.whole(before)
	ended = true
	return d.finish(err)
}

// whole drives until there is nothing to do.
func (d *drive) whole(before func() error) error {
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	for {
		if err := d.loop(false); err != nil {
			return err
		}
		more, err := d.rest()
		if !more {
			return err
		}
	}
}

// settle drives the open turn as far as it goes, without calling the model.
func (d *drive) settle() error { return d.loop(true) }

// loop does what Next says until that is to wait, or, with calls only, to call the model.
func (d *drive) loop(callsOnly bool) error {
	changed, stop := d.rn.store.Watch(d.session)
	defer stop()
	progress, stopProgress := d.rn.live.subscribe(d.session)
	defer stopProgress()
	d.progress = progress
	for {
		if err := d.takeUp(changed); err != nil {
			return err
		}
		if d.left {
			return errLeft
		}
		if d.lease.Outrun() {
			if err := d.startOver(); err != nil {
				return err
			}
		}
		if err := d.stopBodies(); err != nil {
			return err
		}
		step := d.next()
		switch step.Kind {
		case session.StepIdle, session.StepWait, session.StepHalted:
			if d.running() == 0 {
				return nil
			}
		case session.StepRetry:
			if callsOnly || d.worker { // a worker comes back then
				return nil
			}
		case session.StepModel:
			if callsOnly {
				return nil
			}
		}
		if err := d.over(); err != nil {
			return err
		}
		if dying, err := d.secure(); dying || err != nil {
			return err
		}
		if d.next() != step { // the lease came with what somebody else had done
			continue
		}
		err := d.inLayers(step, changed)
		if errors.Is(err, session.ErrStale) {
			err = d.startOver()
		}
		if err != nil {
			return err
		}
	}
}

// over says why nothing more is to be done, if that is so.
func (d *drive) over() error {
	switch {
	case d.ctx.Err() != nil:
		return context.Cause(d.ctx)
	case d.stopping.Err() != nil && d.running() == 0:
		return context.Cause(d.stopping)
	}
	return nil
}

// startOver forgets what the drive thought to know, because somebody else's commit came first.
func (d *drive) startOver() error {
	d.history, d.asked, d.held = nil, nil, nil
	d.outcomes.clear()
	clear(d.shown)
	if _, err := d.lease.Refresh(d.commitCtx()); err != nil {
		return err
	}
	return d.show()
}

// maxTakeovers is how many drives may die of a session, one after the other, before it is left alone.
const maxTakeovers = 5

// secure makes the lease durable where it must be before anything runs. A session that kills whoever drives it is failed.
func (d *drive) secure() (dying bool, err error) {
	if err := d.lease.Secure(d.commitCtx()); err != nil {
		return false, err
	}
	d.lease.View(func(st *session.State) { dying = st.Takeovers > maxTakeovers })
	if !dying {
		return false, nil
	}
	return true, d.fail(fmt.Errorf("%d drives of session %q died one after the other without getting on; Continue tries again",
		maxTakeovers, d.session))
}

// next is the next step as far as this drive knows.
func (d *drive) next() (step session.Step) {
	d.lease.View(func(st *session.State) { step = session.Next(st, d.rn.store.Now()) })
	return step
}

// step takes one step.
func (d *drive) step(ctx context.Context, step session.Step, changed <-chan struct{}) error {
	var err error
	switch step.Kind {
	case session.StepModel:
		err = d.model(ctx)
	case session.StepClose:
		err = d.closeTurn()
	case session.StepRetry:
		err = d.pauseForRetry(step, changed)
	case session.StepExpire:
		err = d.lease.Update(d.commitCtx()) // every commit expires what is overdue
	default:
		err = d.calls(ctx, step, changed)
	}
	if err == nil {
		err = d.show()
	}
	return err
}

// pauseForRetry waits, holding the lease, until the model may be called again.
func (d *drive) pauseForRetry(step session.Step, changed <-chan struct{}) error {
	d.lease.Keep(true)
	defer d.lease.Keep(false)
	return d.wait(step, changed)
}

// takeUp reads the head again if somebody may have changed it.
func (d *drive) takeUp(changed <-chan struct{}) error {
	select {
	case <-changed:
		if _, err := d.lease.Refresh(d.commitCtx()); err != nil {
			return err
		}
		return d.show()
	default:
		return nil
	}
}

// rest gives the lease up, since there is nothing to do, and looks once more: an answer that came in between must not be left
// lying. It says whether the drive goes on.
func (d *drive) rest() (more bool, err error) {
	if err := d.lease.Rest(d.commitCtx()); err != nil {
		return false, err
	}
	if d.next().Working() {
		return true, d.show()
	}
	d.lease.Release()
	_, err = d.lease.Refresh(d.commitCtx())
	if errors.Is(err, session.ErrFenced) || errors.Is(err, session.ErrBusy) {
		return false, nil // somebody else has it
	}
	if err != nil || !d.next().Working() {
		return false, err
	}
	lease, err := d.rn.store.Drive(d.commitCtx(), d.session, nil)
	if errors.Is(err, session.ErrBusy) {
		return false, nil // whoever has it saw the same
	}
	if err != nil {
		return false, err
	}
	d.rn.mu.Lock()
	d.lease = lease // which Close may look at
	d.rn.mu.Unlock()
	d.history, d.asked = nil, nil
	return true, d.show()
}

// running counts the bodies that are waited for.
func (d *drive) running() int { return d.batch.Len() - len(d.abandoned) }

// finish ends the drive and returns its last event. What still runs is handed to the runner, which keeps the lease for it.
func (d *drive) finish(cause error) (event.End, error) {
	if cause == nil {
		cause = d.outcomes.fatality()
	}
	d.cancel(cause)
	var stop []session.Transition
	if d.interrupts(cause) && d.next().Left() {
		stop = append(stop, func(tx *session.Tx) error {
			if tx.Halt == nil && session.Next(tx.State, tx.Now).Left() { // nobody else has ended it meanwhile
				tx.Stop(event.FinishInterrupted, "")
			}
			return nil
		})
	}
	ctx, cancel := context.WithTimeout(d.commitCtx(), d.rn.options.CloseTimeout)
	defer cancel()
	var err error
	if d.running() > 0 {
		d.lease.Keep(true)
		if len(stop) > 0 {
			err = d.lease.Update(ctx, stop...)
		}
	} else {
		err = d.lease.Leave(ctx, stop...)
	}
	if d.batch.Len() == 0 {
		d.close()
	} else {
		go d.drain()
	}
	var refused *untaken
	if !errors.As(cause, &refused) && (errors.Is(cause, session.ErrFenced) || errors.Is(cause, session.ErrBusy)) {
		return event.End{Session: d.session, Finish: event.FinishElsewhere}, nil
	}
	end, endErr := d.ending(ctx, cause)
	return end, errors.Join(cause, err, endErr)
}

// close lets go of what the drive holds beside its lease.
func (d *drive) close() {
	d.batch.Close()
	d.unhook()
	d.rn.end(d)
}

// interrupts says that the drive stops because its caller left, and not the process or a worker: then only a caller carries the
// session on.
func (d *drive) interrupts(cause error) bool {
	if d.worker || d.rn.closing.Err() != nil {
		return false
	}
	detached := false
	d.lease.View(func(st *session.State) { detached = st.Run.Detached })
	return !detached && (errors.Is(cause, errLeft) || d.caller.Err() != nil)
}

// drain waits for the bodies that still run; each commits its own outcome, unless it is cancelled and does not stop. Then it gives the
// lease up.
func (d *drive) drain() {
	defer d.close()
	changed, stop := d.rn.store.Watch(d.session)
	defer stop()
	for d.running() > 0 {
		if err := d.stopCancelled(); err != nil { // the first time, those that were cancelled before this watched
			d.rn.options.Logger.Warn("bodies that run on lost their session", "session", d.session, "error", err)
			d.lease.Abandon()
			break
		}
		if d.running() > 0 {
			d.drainStep(changed)
		}
		if d.running() == 0 {
			d.lease.Keep(false)
			if err := d.lease.Leave(d.commitCtx()); err != nil {
				d.rn.options.Logger.Error("a lease was not given up", "session", d.session, "error", err)
			}
		}
	}
	for d.batch.Len() > 0 {
		d.batch.Finished(<-d.batch.Done())
	}
}

// drainStep waits until a body has ended, or somebody may have cancelled one, or its time of grace is over.
func (d *drive) drainStep(changed <-chan struct{}) {
	due, stop := d.timer(session.Step{})
	defer stop()
	var look <-chan time.Time // others may have changed the session without a signal to this process
	if every := d.lease.RenewEvery(); every > 0 {
		timer := time.NewTimer(every)
		defer timer.Stop()
		look = timer.C
	}
	select {
	case name := <-d.batch.Done():
		d.ended(name)
	case <-changed:
	case <-look:
	case <-due:
	}
}

// stopCancelled stops the bodies whose calls, or run, were cancelled or settled by others.
func (d *drive) stopCancelled() error {
	if _, err := d.lease.Refresh(d.commitCtx()); err != nil {
		return err
	}
	return d.stopBodies()
}

// stopBodies stops those that nobody waits for any more: of calls that are settled, be it in a turn that is closed, or are to be.
func (d *drive) stopBodies() error {
	if d.running() == 0 {
		return nil
	}
	open, ending := d.openCalls()
	for _, id := range d.batch.Names() {
		if d.abandoned[id] {
			continue
		}
		c, cause := &session.Call{ID: id, Status: session.Settled}, errCallCancelled
		if i := slices.IndexFunc(open, func(c session.Call) bool { return c.ID == id }); i >= 0 {
			c = &open[i]
		}
		switch {
		case c.Status == session.Settled || c.Cancel != nil:
		case ending:
			cause = errRunEnded
		default:
			continue
		}
		if err := d.stopBody(c, cause); err != nil {
			return err
		}
	}
	return nil
}

// ended notes that a body has ended.
func (d *drive) ended(name string) {
	d.batch.Finished(name)
	delete(d.abandoned, name)
	delete(d.grace, name)
}

// ending is the last event of a drive that stopped for cause.
func (d *drive) ending(ctx context.Context, cause error) (end event.End, err error) {
	if _, err := d.lease.Refresh(ctx); err != nil || !d.lease.Taken() {
		return d.rn.ending(ctx, d.session, cause) // as it is stored, whoever has it now
	}
	d.lease.View(func(st *session.State) { end, err = d.rn.standing(ctx, st, d.asked, cause) })
	return end, err
}

// ending says how a session stands, as a last event.
func (rn *Runner) ending(ctx context.Context, id string, cause error) (event.End, error) {
	st, err := rn.store.Load(ctx, id)
	switch {
	case errors.Is(err, session.ErrUnknownSession) && cause != nil: // it was never begun
		return event.End{Session: id, Finish: event.FinishFailed}, nil
	case err != nil:
		return event.End{Session: id, Finish: event.FinishFailed}, err
	}
	return rn.standing(ctx, st, nil, cause)
}

func (rn *Runner) standing(ctx context.Context, st *session.State, asked []llm.ToolCall, cause error) (event.End, error) {
	end := event.End{Session: st.ID, Finish: event.FinishFailed, Usage: st.Run.Usage}
	var err error
	if end.Pending, err = rn.store.Pauses(ctx, st, asked); err != nil {
		return end, err
	}
	switch {
	case st.Halt != nil:
		end.Finish = st.Halt.Finish
	case cause != nil && !refusedMessage(cause):
	case len(end.Pending) > 0:
		end.Finish = event.FinishPaused
	case session.Next(st, rn.store.Now()).Left():
		end.Finish = event.FinishElsewhere
	default:
		end.Finish = st.Finish
	}
	return end, nil
}

// refusedMessage says that a message was refused, rather than that the store or a body failed.
func refusedMessage(cause error) bool {
	var u *untaken
	if !errors.As(cause, &u) {
		return false
	}
	for _, e := range []error{session.ErrPending, session.ErrMessageConflict, session.ErrInvalidMessage, session.ErrBusy, session.ErrFenced} {
		if errors.Is(u, e) {
			return true
		}
	}
	return false
}
