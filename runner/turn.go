package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/usererr"
)

// inLayers takes a step. If the chain has turn layers, it takes the step inside
// them, with the steps that follow until the turn ends or waits.
func inLayers(d *drive, step session.Step, changed <-chan struct{}) error {
	if !d.core.HasTurnLayers() || step.Kind == session.StepLinger { // the turn is over
		return d.step(d.life.work, step, changed)
	}
	turn := interceptor.Turn{
		Session: d.session, User: d.user, Agent: d.agent.Name(),
		Resumed: step.Kind != session.StepModel,
	}
	d.lease.View(func(st *session.State) { turn.Number = st.Turn })
	if !turn.Resumed {
		turn.Number++
	}
	return (&layered{d: d, step: step, changed: changed}).turn(turn)
}

// layered is a turn inside the chain's turn layers. What its steps emit goes
// through them. A layer may stop listening, swallow an error, or not run the
// turn at all. Then the run fails: trying again would never end. The goroutine
// that drives owns it.
type layered struct {
	d       *drive
	step    session.Step
	changed <-chan struct{}

	begun bool
	ended error // why the steps ended before the turn did
}

func (l *layered) turn(turn interceptor.Turn) error {
	d := l.d
	err := l.listen(turn)
	d.screen.layer = nil
	switch {
	case d.screen.left:
		return errLeft
	case l.ended != nil && !errors.Is(l.ended, errLeft):
		return l.ended
	case d.life.work.Err() != nil: // so the layers were told to end
		return context.Cause(d.life.work)
	case err != nil:
		return d.fail(err)
	case l.ended != nil:
		return d.fail(errors.New("a turn layer stopped in the middle of the turn"))
	case !l.begun:
		return d.fail(errors.New("a turn layer did not run the turn"))
	}
	return nil
}

// listen ranges over what the layers let through, and returns the layers' own
// error.
func (l *layered) listen(turn interceptor.Turn) (err error) {
	out := &l.d.screen.listener
	defer l.d.recovered("a turn layer", out, &err)
	for ev, err := range l.d.core.Turn(l.steps)(l.d.life.work, turn) {
		if err != nil {
			return usererr.Use(err)
		}
		if !out.deliver(ev) {
			return errLeft
		}
	}
	return nil
}

// steps is the innermost turn handler.
func (l *layered) steps(ctx context.Context, _ interceptor.Turn) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		deaf := false
		l.d.screen.layer = func(ev event.Event) bool {
			deaf = deaf || !yield(ev, nil)
			return !deaf
		}
		if l.begun && !l.open() {
			return // a layer ranges over it once more
		}
		l.begun = true
		if l.ended = l.run(ctx, &deaf); l.ended != nil && !deaf {
			yield(nil, l.ended)
		}
	}
}

func (l *layered) run(ctx context.Context, deaf *bool) error {
	d := l.d
	for {
		if err := d.step(ctx, l.step, l.changed); err != nil {
			return err
		}
		if err := d.takeUp(l.changed); err != nil {
			return err
		}
		l.step = d.next()
		switch {
		case *deaf:
			return errLeft
		case !l.open() && d.crew.running() == 0:
			return nil
		}
		ended := ctx.Err() // by a layer, unless the drive is over by then
		if err := d.over(); err != nil {
			return err
		}
		if ended != nil {
			return d.fail(fmt.Errorf("a turn layer ended the turn: %w", context.Cause(ctx)))
		}
	}
}

// open reports whether the next step is one of this turn.
func (l *layered) open() bool {
	switch l.step.Kind {
	case session.StepCalls, session.StepAnswer, session.StepClose, session.StepExpire:
		return true
	}
	return false
}
