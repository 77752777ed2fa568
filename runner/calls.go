package runner

import (
	"context"
	"errors"
	"sync"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

// Why a body's context ends, if not because the caller of the run has left.
var (
	errCallCancelled = errors.New("the call was cancelled")
	errRunEnded      = errors.New("the run was ended")
)

// calls carries the calls of the open turn on. It starts attempts. It settles,
// parks, recovers and stops calls without an attempt.
//
// The goroutine that drives owns it. If the drive ends while bodies still run,
// the goroutine of drain takes it over, and stops them.
type calls struct {
	*subject
	*committer
	life *life
	read *reading
	crew *crew

	// Barred: a call of the turn waits until it may run alone. Those behind it
	// wait for it.
	barred bool
	// First is set while the claim of a call is to be the drive's first commit,
	// and takes the lease.
	first bool
}

// advance does for each call of the open turn what can be done without waiting.
func (cs *calls) advance(ctx context.Context) error {
	if err := cs.read.loadTurn(); err != nil {
		return err
	}
	open, ending := cs.read.calls()
	cs.barred, cs.crew.queued = false, false
	for i := range open {
		if err := decided(cs.advanceOne(ctx, open, i, ending)); err != nil {
			return err
		}
	}
	return nil
}

// advanceOne is advance for one of the open calls. They are good only until
// they are copied again. A transition may outlive that, and must not refer to
// c.
func (cs *calls) advanceOne(ctx context.Context, open []session.Call, i int, ending bool) error {
	c := &open[i]
	switch {
	case cs.crew.batch.Running(c.ID): // see stopBodies
		return nil
	case c.Registering() && !ending && c.Cancel == nil:
		return cs.register(c)
	case c.Status == session.Settled, c.Status == session.Pending && !ending:
		return nil
	case c.Early != nil:
		id, commit := c.ID, cs.ride
		if c.Early.Kind == session.KindFail { // which settles it
			commit = cs.commit
		}
		return commit(func(tx *session.Tx) error { return tx.TakeEarly(id) })
	case c.Cancel == nil && !ending && cs.gone(c):
		return cs.park(c)
	case c.Status == session.Running:
		return cs.recover(ctx, c)
	case c.Cancel != nil, ending:
		return cs.settleCancelled(c)
	case cs.waitsForHandles(open, i):
		return nil
	case cs.life.stopping.Err() == nil && cs.hasPlace(c):
		if !cs.first {
			if err := cs.lease.Ready(cs.waiting); err != nil {
				return err
			}
		}
		return cs.start(ctx, c)
	}
	return nil
}

// hasPlace reports whether a call may begin beside the others of its turn.
func (cs *calls) hasPlace(c *session.Call) bool {
	switch {
	case cs.barred || cs.crew.alone():
		return false
	case cs.exclusive(c):
		cs.barred = cs.crew.running() > 0
		return !cs.barred
	}
	return cs.crew.running() < cs.concurrency() || cs.nests(c.Tool) || c.Action != ""
}

// exclusive reports whether a call's body runs alone. What acts on a handle
// begins none of the tool's bodies in this session.
func (cs *calls) exclusive(c *session.Call) bool {
	return c.Action == "" && cs.core.Tools.Scheduling(c.Tool).Exclusive
}

// concurrency returns how many calls of the turn run at once.
func (cs *calls) concurrency() (n int) {
	cs.lease.View(func(st *session.State) { n = st.Run.Concurrency })
	if n > 0 {
		return n
	}
	return cs.core.Concurrency
}

// attempt makes an attempt at a call.
func (cs *calls) attempt(c *session.Call) *attempt {
	return newAttempt(cs.subject, cs.life, cs.lease, cs.read, c)
}

// start runs a call, first entry or re-entry. A call that needs no code of
// others ends at once: one that can't be run, or one that is answered and has
// no layers around it.
func (cs *calls) start(ctx context.Context, c *session.Call) error {
	if goesOn, err := cs.redeclare(c); !goesOn {
		return err
	}
	limit := ""
	if c.Action == "" {
		limit = cs.core.Tools.Scheduling(c.Tool).Limit
	}
	left, ok := cs.rn.limits.take(limit, cs.crew.freed)
	if !ok {
		cs.crew.queued = true
		return nil
	}
	a := cs.attempt(c)
	a.left, a.exclusive = sync.OnceFunc(left), cs.exclusive(c)
	cs.crew.add(a)
	if err := cs.clash(c); err != nil {
		a.ctx, a.cut = ctx, context.Cause(ctx)
		a.out = toolbox.Resolve(tool.Execution{}, err)
		a.end(cs.committer)
		return cs.crew.took(a)
	}
	if cs.core.Tools.ReadsItself(c.Tool) {
		cs.crew.start(ctx, cs.waiting, a, (*attempt).prepareAndRun)
		return nil
	}
	a.ctx = ctx
	var exec tool.Execution
	err := a.prepare(ctx)
	goesOn, run := err == nil, entering((*attempt).run)
	if goesOn && !cs.core.HasToolLayers(c.Tool, !c.PassesLayers()) {
		run = (*attempt).inside
		exec, goesOn, err = a.admit(cs.waiting, a.prepared.Call)
	}
	if !goesOn {
		a.out, a.cut = toolbox.Resolve(exec, err), context.Cause(ctx)
		a.end(cs.committer)
		return cs.crew.took(a)
	}
	cs.crew.start(ctx, cs.waiting, a, run)
	return nil
}

// recover settles a call that is running by the head, and has no attempt here.
//
// If this drive claimed it, and the layers returned before the claim was
// stored, no body was entered, and the claim is taken back. Otherwise a dead
// drive had claimed it. Then the body may have run, in part or in full, and is
// never entered again. The tool is asked what became of it, if it can tell;
// otherwise an operator, if the tool wants that; otherwise the model is told
// that the outcome is unknown.
func (cs *calls) recover(ctx context.Context, c *session.Call) error {
	if shut := cs.shut(c); shut != nil {
		return cs.commit(func(tx *session.Tx) error { return tx.Unclaim(&shut.call) })
	}
	if c.Cancel != nil {
		c := *c // that one is good only until the open calls are copied again
		return cs.commit(func(tx *session.Tx) error {
			now := asItIs(tx, &c)
			by, why := endedBy(tx, now)
			return tx.Lose(c.ID, session.GivenUpOutcome(now, by, why))
		})
	}
	a := cs.attempt(c)
	if spec, known := cs.core.Tools.Spec(c.Tool); !known || spec.Reconcile == nil {
		err := inquiry{a}.lose(cs.committer)
		if err == nil {
			a.log().Warn("a process died while a call ran, and the call's outcome is unknown")
		}
		return err
	}
	if cs.crew.running() < cs.concurrency() && !cs.crew.alone() {
		a.door.entered = true // by the drive that died
		cs.crew.add(a)
		cs.crew.start(ctx, cs.waiting, a, func(a *attempt, ctx context.Context) toolbox.Outcome {
			return inquiry{a}.reconcile(ctx)
		})
	}
	return nil
}

// shut returns the attempt of this drive at a call by which the body was not
// entered, and no longer can be. Nil: there is none, or another drive, which
// came before this one had its lease, has claimed the call.
func (cs *calls) shut(c *session.Call) *attempt {
	shut := cs.crew.shut(c.ID)
	if c.Status == session.Running && c.Epoch != cs.read.epoch {
		return nil
	}
	return shut
}

// redeclare brings a call that is about to begin up to today's declaration of
// its tool, in the store and in c. The head keeps the declaration, so that
// processes without the tool can judge answers. It is noted when a call is
// asked for, and a deploy may have changed the tool since. Only redeclare
// brings both together. The more careful of two effects counts.
//
// It returns false if the call has moved on meanwhile. There is nothing to do
// in a turn that this drive has opened, nor for a call whose answer is its
// output: its body is not entered.
func (cs *calls) redeclare(c *session.Call) (goesOn bool, err error) {
	if cs.read.turn.opened || c.Answer != nil && c.Answer.Mode != tool.ModeReenter {
		return true, nil
	}
	today, known, err := cs.declared(cs.waiting, c.Tool)
	if err != nil || !known {
		return !known, err
	}
	if c.Action != "" {
		return true, nil // its tool's declaration is of what is begun
	}
	if c.Effect.NeedsClaim() {
		today.Effect = c.Effect
	}
	if today.Is(c) {
		return true, nil
	}
	id := c.ID
	var now session.Call
	err = cs.commit(func(tx *session.Tx) error {
		if err := tx.Declare(id, today); err != nil {
			return err
		}
		now = *tx.Call(id)
		return nil
	})
	switch {
	case err == nil:
		*c = now
	case errors.Is(err, session.ErrSettled), errors.Is(err, session.ErrStale):
		return false, nil
	}
	return err == nil, err
}
