package fermatatest

import (
	"errors"
	"reflect"
	"slices"
	"time"

	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// maxTries is how often a life tries something that faults, or another drive,
// keep from succeeding.
const maxTries = 5000

// rest drives the sessions for as long as there is work, as a worker would that
// finds them by the index of what is due.
func (l *life) rest() {
	for range maxTries {
		family, err := l.family()
		if err != nil {
			if !l.dead() {
				l.violation("the sessions can't be read: %v", err)
			}
			return
		}
		if again := l.carryOn(family); !again {
			return
		}
	}
	l.violation("the sessions do not come to rest")
}

// carryOn does one thing that is to be done. It reports whether it is to be
// called again.
func (l *life) carryOn(family []*core.State) (again bool) {
	if slices.ContainsFunc(family, l.operate) {
		return true
	}
	for _, st := range family {
		if l.gone(family) { // what is below it is deleted first
			break
		}
		if core.Next(st, l.Now()).Working() {
			return l.drive(st)
		}
	}
	if l.attends() {
		return true
	}
	for _, st := range family {
		if l.owes(st) || st.Parent != nil && l.holds(st) {
			return true
		}
	}
	return false
}

// holds waits a moment if a drive holds a session.
func (l *life) holds(st *core.State) bool {
	driven, _ := l.store.Driven(st)
	if driven {
		time.Sleep(time.Millisecond)
	}
	return driven
}

// drive drives a session in which there is work.
func (l *life) drive(st *core.State) (again bool) {
	if st.Parent != nil && l.holds(st) { // the runner does so by itself
		return !l.dead()
	}
	if driven, until := l.store.Driven(st); driven {
		l.wait(until)
		return true
	}
	l.findable(st)
	err := l.watch(l.runner.Continue(l.ctx, st.ID, "test"))
	if !errors.Is(err, session.ErrBusy) {
		l.note("life %d: driven on: %v", l.number, err)
	}
	return !l.dead() && l.retries(err)
}

// owes has what the session owes carried out, as a worker would that finds the
// session due. It reports whether there was anything.
func (l *life) owes(st *core.State) bool {
	at, owes := st.OwesAt()
	if !owes || l.dead() {
		return false
	}
	l.pass(at)
	if driven, until := l.store.Driven(st); driven {
		l.wait(until)
		return true
	}
	if !l.isDue(st) && !l.changed(st) {
		l.violation("something is owed, and the session is not in the index of what is due")
	}
	l.store.CallCouriers(st)
	time.Sleep(time.Millisecond)
	return true
}

// changed reports whether a session is another one by now than it was read.
func (l *life) changed(st *core.State) bool {
	now, err := l.store.Load(l.ctx, st.ID)
	return err != nil || !reflect.DeepEqual(now, st)
}

// retries reports whether a drive that ended with an error is followed by
// another one: if the error was a fault's, or if the session was busy.
func (l *life) retries(err error) bool {
	var busy *session.BusyError
	switch {
	case err == nil:
		return true
	case errors.As(err, &busy):
		l.wait(busy.Until)
		return true
	case isFault(err):
		l.patience = 20
		l.begin(true)
		return true
	}
	l.failed(err)
	return false
}

// wait lets a lease end: that of a drive of this life, which gives it up as
// soon as its bodies have ended, or, by its time, that of an earlier life.
func (l *life) wait(until time.Time) {
	l.patience--
	if l.patience > 0 || until.IsZero() {
		time.Sleep(time.Millisecond)
	} else {
		l.pass(until.Add(time.Millisecond))
	}
}

// findable makes sure that a worker would find a session, as it was read, if
// there is work in it that no drive does.
func (l *life) findable(st *core.State) {
	step := core.Next(st, l.Now())
	if driven, _ := l.store.Driven(st); !step.Working() || driven || l.isDue(st) {
		return
	}
	if driven, _ := l.store.Driven(st); driven || l.changed(st) {
		return // a drive was faster
	}
	l.violation("there is work, and no worker would find the session: %s", step.Kind)
}

func (l *life) isDue(st *core.State) bool {
	due, _, _, err := l.store.Due(l.ctx, st.Agent, nil)
	left, _, errLeft := l.store.Left(l.ctx, st.Agent, "")
	watched, _, errWatched := l.store.Watched(l.ctx, st.Agent)
	return err != nil || errLeft != nil || errWatched != nil ||
		slices.ContainsFunc(slices.Concat(due, left, watched),
			func(d core.Due) bool { return d.Session == st.ID })
}

// operate answers a pause that asks an operator, if there is one.
func (l *life) operate(st *core.State) bool {
	pauses, err := l.store.Pauses(l.ctx, st, nil)
	if err != nil {
		return false
	}
	for _, p := range pauses {
		if p.Await.Reason != tool.ReasonUnknown {
			continue
		}
		if l.world.Operator == nil {
			l.violation("%s asks an operator, and the World has none", p.Tool)
			return false
		}
		says := l.world.Operator(p)
		says.Pause = p.ID
		_, err := l.runner.Resume(l.ctx, st.ID, says)
		l.note("life %d: the operator answers for %s: %v", l.number, p.Tool, err)
		if err != nil && !isFault(err) {
			l.violation("the operator's answer was refused: %v", err)
		}
		return err == nil
	}
	return false
}
