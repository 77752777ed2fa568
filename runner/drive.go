package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/batch"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
)

// drive is one drive of a session: the loop that does what session.Next says and commits after each step.
//
// Data flows one way: the head says what to do; the loop does it, or starts a body that does; what came of it is committed;
// what the commit changed is shown. The loop, and all that yields, run in the goroutine of whoever ranges over the events. A
// body runs in its own, commits its own outcome where the loop doesn't wait for it, and touches nothing else of the drive than what is
// marked so.
type drive struct {
	display
	agent    *agent.Agent
	core     *agentcore.Core // of agent
	user     string
	metadata map[string]string // of model requests
	lease    *session.Drive    // bodies keep the one that they were started under

	caller   context.Context // of whoever asked for the drive
	stopping context.Context // when it ends, nothing new is begun; what runs goes on
	ctx      context.Context // of the bodies and the model
	cancel   context.CancelCauseFunc
	unhook   func() bool     // from the runner's end
	patience context.Context // how long the loop waits for the store: see hurry
	giveUp   context.CancelFunc
	unhurry  func() bool     // from the caller's end
	lasting  context.Context // of bodies, for the store: it ends when the runner no longer waits for them
	endAll   context.CancelFunc

	batch     *batch.Batch
	bodies    bodies
	abandoned map[string]bool      // bodies whose calls settled without them
	grace     map[string]time.Time // when a cancelled body's call settles without it
	history   []llm.Message        // once loaded
	asked     []llm.ToolCall       // the open turn's calls, once loaded
	turn      *turnFacts
	copied    []session.Call // the open calls, for openCalls
	opening   []session.Call // the calls to be opened, for open
	closed    closedTurn
	collector llm.Collector // of the message that the model streams
	progress  <-chan event.Progress
	held      []event.Event    // to be shown after the next commit
	before    map[string]sight // while results and pauses are held: shown as it was before

	listening bool             // the caller is looking at an event
	worker    bool             // a worker drives: no caller waits for the events
	heard     map[string]sight // what others have shown, where this drive has no listener; nil: its caller listens
	toldAt    time.Time        // when the runner or worker ended, as far as drain knows
	inOrder   bool             // the head says that this drive was ended in order
	moves     int              // how often in a row it has looked again, see lookAgain
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
		display: display{rn: rn, session: id, shown: map[string]sight{}}, lease: lease,
		metadata:  map[string]string{"session": id},
		abandoned: map[string]bool{}, grace: map[string]time.Time{},
	}
	// Also of what rides, and is not stored yet.
	d.record = func(ctx context.Context, call string) (session.Record, error) { return d.lease.Record(ctx, call) }
	d.pause = d.showPause
	var name string
	lease.View(func(st *session.State) {
		name, d.user = st.Agent, st.User
		for i := range st.Calls { // what was settled or paused before is no news, but for what nobody has shown
			if c := &st.Calls[i]; !c.Unshown {
				d.shown[c.ID] = sightOf(c)
			}
		}
	})
	d.batch = batch.New(2 * agentcore.MaxCalls)
	d.caller, d.stopping = ctx, context.Background()
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	d.lasting, d.endAll = context.WithCancel(context.WithoutCancel(ctx))
	d.patience, d.giveUp = context.WithCancel(d.lasting)
	if d.agent, err = rn.agent(name); err == nil {
		d.core = hold.Of(d.agent)
		err = rn.begin(d)
	}
	if err != nil {
		d.cancel(err)
		d.endAll()
		lease.Release()
		return nil, err
	}
	d.unhook = context.AfterFunc(rn.closing, func() { d.cancel(ErrClosed); d.hurry() })
	d.unhurry = context.AfterFunc(ctx, d.hurry)
	d.heed(lease)
	return d, nil
}

// heed has the drive end when a lease is lost.
func (d *drive) heed(lease *session.Drive) {
	lease.OnLost(func(why error) { d.cancel(why); d.hurry() })
}

// storeGrace is how long the store may still take for what the loop waits for
// once the caller has left. What it has not done by then goes on without the
// loop, so that Run is back although the store hangs.
const storeGrace = 100 * time.Millisecond

// hurry lets the loop wait for the store only a little longer.
func (d *drive) hurry() { time.AfterFunc(storeGrace, d.giveUp) }

// commitCtx is the loop's context for the store. It outlasts the caller's by a
// little: a result is recorded also after its run was left.
func (d *drive) commitCtx() context.Context { return d.patience }

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
	return d.finish(d.reason(err))
}

// reason is why the drive ends: where the caller has left, and the store was no
// longer waited for, that.
func (d *drive) reason(err error) error {
	if err == nil || d.commitCtx().Err() == nil || !errors.Is(err, session.ErrGoesOn) && !errors.Is(err, context.Canceled) {
		return err
	}
	cause := context.Cause(d.ctx)
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
	if err := d.showUnseen(); err != nil {
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
	if err := d.look(); err != nil { // at what came before this watched: a body may be started by it, and told to end by nobody
		return err
	}
	if err := d.unpark(); err != nil {
		return err
	}
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
		step := d.next()
		switch step.Kind {
		case session.StepIdle, session.StepWait, session.StepHalted:
			if d.running() == 0 {
				return nil
			}
		case session.StepRetry:
			if callsOnly || d.worker || d.outlastsHold(step) { // a worker comes back then
				return nil
			}
		case session.StepModel:
			if callsOnly {
				return nil
			}
			if step.Early {
				if err := d.lease.Ride(d.commitCtx(), func(tx *session.Tx) error { tx.AskNow(); return nil }); err != nil {
					return err
				}
				continue
			}
		}
		if err := d.over(); err != nil {
			return err
		}
		if secured, err := d.lease.Secure(d.commitCtx()); err != nil {
			return err
		} else if secured { // and there may be what somebody else has done
			if dying, err := d.dying(); dying {
				return err
			}
			continue
		}
		if err := d.inLayers(step, changed); err != nil {
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
	d.history, d.asked = nil, nil
	d.outcomes.clear()
	d.dropHeld()
	if _, err := d.lease.Refresh(d.commitCtx()); err != nil {
		return err
	}
	return d.show()
}

// maxTakeovers is how many drives may die of a session, one after the other,
// before it is left alone. Package session tells who died of it, rather than
// beside it.
const maxTakeovers = 5

// dying says whether the session kills whoever drives it. Such a one is failed.
func (d *drive) dying() (dying bool, err error) {
	takeovers, deadly := 0, 0
	d.lease.View(func(st *session.State) { takeovers, deadly = st.Takeovers, st.Deadly })
	if deadly <= maxTakeovers {
		if takeovers > 0 {
			d.rn.options.Logger.Warn("a drive of the session died; another carries it on", "session", d.session, "deaths", takeovers)
		}
		return false, nil
	}
	return true, d.fail(fmt.Errorf("%d drives of session %q died one after the other, each while a call of it, or a commit, was in flight; "+
		"Continue tries again", deadly, d.session))
}

// next is the next step as far as this drive knows.
func (d *drive) next() (step session.Step) {
	d.lease.View(func(st *session.State) { step = d.rn.store.Next(st) })
	return step
}

// step takes one step.
func (d *drive) step(ctx context.Context, step session.Step, changed <-chan struct{}) error {
	err := d.stopBodies(d.commitCtx())
	switch {
	case err != nil:
	case step.Kind == session.StepModel:
		err = d.model(ctx)
	case step.Kind == session.StepClose:
		err = d.closeTurn()
	case step.Kind == session.StepRetry:
		err = d.pauseForRetry(step, changed)
	case step.Kind == session.StepExpire:
		err = d.lease.Update(d.commitCtx()) // every commit expires what is overdue
	default:
		err = d.calls(ctx, step, changed)
	}
	if err = d.lookAgain(err); err == nil {
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

// outlastsHold reports whether the model is to be called again so late that the
// session is given up until then.
func (d *drive) outlastsHold(step session.Step) bool {
	return step.Until.Sub(d.rn.store.Now()) > d.agent.Retry().Hold
}

// takeUp reads the head again if somebody may have changed it.
func (d *drive) takeUp(changed <-chan struct{}) error {
	select {
	case <-changed:
		return d.look()
	default:
		return nil
	}
}

// look reads the head again, and shows what is new.
func (d *drive) look() error {
	if changed, err := d.lease.Refresh(d.commitCtx()); err != nil || !changed {
		return err
	}
	return d.show()
}

// rest gives the lease up, since there is nothing to do, and looks once more: an answer that came in between must not be left
// lying. It says whether the drive goes on.
func (d *drive) rest() (more bool, err error) {
	if err := d.noteShown(); err != nil {
		return false, err
	}
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
	d.lease.OnLost(nil) // which a body that was given up may find out yet
	d.heed(lease)
	d.rn.mu.Lock()
	d.lease = lease // which Close may look at
	d.rn.mu.Unlock()
	d.history, d.asked, d.bodies = nil, nil, bodies{}
	return true, d.show()
}

// running counts the bodies that are waited for.
func (d *drive) running() int { return d.batch.Len() - len(d.abandoned) }
