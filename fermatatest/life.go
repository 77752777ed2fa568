package fermatatest

import (
	"errors"
	"iter"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// life is one process: it opens the store, and works until it has delivered all
// inputs or dies.
type life struct {
	*history
	number int
	kv     kvstore.Store // the engine itself
	faults *faultkv.Injector
	store  *core.Store
	agent  *agent.Agent
	runner *runner.Runner
	// patience is how often the life waits for a lease, before it lets time
	// pass until the lease has ended.
	patience int

	asked struct {
		sync.Mutex
		messages int // of the session, that were looked at
		calls    []llm.ToolCall
	}
}

// open begins the n-th life, from 0. Each has its own fault.
func (h *history) open(n int, faults []faultkv.Fault) (*life, error) {
	l := &life{history: h, number: n + 1}
	var err error
	if l.kv, err = h.place.Open(); err != nil {
		return nil, err
	}
	l.faults = faultkv.New(l.kv)
	if n < len(faults) {
		l.faults.Add(faults[n])
	}
	c := h.world.Agent()
	c.Tools = slices.Clone(c.Tools)
	for i, t := range c.Tools {
		c.Tools[i] = watched{t, l}
	}
	if l.agent, err = agent.New(c); err == nil {
		store := session.NewStore(l.faults.Store,
			&session.Options{Now: h.Now, NewID: h.newID, MaxSkew: time.Millisecond})
		l.store = hold.Of(store)
		l.runner, err = runner.New(l.agent, store, &runner.Options{Logger: silent})
	}
	if err != nil {
		return nil, errors.Join(err, l.kv.Close())
	}
	return l, nil
}

// end drops all that the life has in memory. Its bodies' contexts end.
func (l *life) end() error {
	return errors.Join(l.runner.Close(), l.kv.Close())
}

func (l *life) dead() bool { return l.faults.Dead() }

// live delivers the inputs, in order, and drives the session to rest in
// between. It reports whether it came to the end.
func (l *life) live() bool {
	l.begin()
	for i, in := range l.s.Inputs {
		if l.number > 1 && l.refused(i) {
			continue // its sender knows
		}
		l.deliver(i, in)
		if !in.undriven {
			l.rest()
		}
		if l.dead() {
			l.note("life %d: dead after %d writes", l.number, l.faults.Applies())
			return false
		}
		l.look()
	}
	l.rest()
	return !l.dead()
}

// begin makes sure that a worker would find what the last drive left, and notes
// the calls that may have got further than the store shows: those that were
// running when it ended, and have no answer kept; and those whose entries leave
// no trace.
func (l *life) begin() {
	st, err := l.store.Load(l.ctx, theSession)
	if err != nil {
		if !errors.Is(err, session.ErrUnknownSession) && !l.dead() {
			l.violation("life %d begins, and the session can't be read: %v", l.number, err)
		}
		return
	}
	l.findable(st)
	for i := range st.Calls {
		c := &st.Calls[i]
		switch {
		case c.Status == session.CallRunning && c.Early == nil:
			l.note("life %d: how far call %s of %s has got is not known", l.number, c.ID, c.Tool)
			l.mark(l.lost, c.ID)
		case c.Status == session.CallRequested && !c.Effect.NeedsClaim():
			l.mark(l.blurred, c.ID)
		}
	}
}

func (l *life) mark(in map[string]bool, call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in[call] = true
}

// maxTries is how often a life tries something that faults, or another drive,
// keep from succeeding.
const maxTries = 1000

// rest drives the session for as long as there is work, as a worker would that
// finds it by the index of what is due.
func (l *life) rest() {
	for range maxTries {
		st, err := l.store.Load(l.ctx, theSession)
		if err != nil {
			if !errors.Is(err, session.ErrUnknownSession) && !l.dead() {
				l.violation("the session can't be read: %v", err)
			}
			return
		}
		if l.operate(st) {
			continue
		}
		if !core.Next(st, l.Now()).Working() {
			if !l.owes(st) {
				return
			}
			continue
		}
		if driven, until := l.store.Driven(st); driven {
			l.wait(until)
			continue
		}
		l.findable(st)
		err = l.watch(l.runner.Continue(l.ctx, theSession, "test"))
		if !errors.Is(err, session.ErrBusy) {
			l.note("life %d: driven on: %v", l.number, err)
		}
		if l.dead() || !l.retries(err) {
			return
		}
	}
	l.violation("the session does not come to rest")
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
	if !l.isDue() { // or it was carried out meanwhile
		now, err := l.store.Load(l.ctx, theSession)
		if err == nil && reflect.DeepEqual(now, st) {
			l.violation("something is owed, and the session is not in the index of what is due")
		}
	}
	l.store.CallCouriers(theSession)
	time.Sleep(time.Millisecond)
	return true
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
		l.begin()
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
	if driven, _ := l.store.Driven(st); step.Working() && !driven && !l.isDue() {
		l.violation("there is work, and no worker would find the session: %s", step.Kind)
	}
}

func (l *life) isDue() bool {
	name := l.agent.Name()
	due, _, _, err := l.store.Due(l.ctx, name, nil)
	left, _, errLeft := l.store.Left(l.ctx, name, "")
	watched, _, errWatched := l.store.Watched(l.ctx, name)
	return err != nil || errLeft != nil || errWatched != nil ||
		slices.ContainsFunc(slices.Concat(due, left, watched),
			func(d core.Due) bool { return d.Session == theSession })
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
		_, err := l.runner.Resume(l.ctx, theSession, says)
		l.note("life %d: the operator answers for %s: %v", l.number, p.Tool, err)
		if err != nil && !isFault(err) {
			l.violation("the operator's answer was refused: %v", err)
		}
		return err == nil
	}
	return false
}

// watch ranges over a run's events, and delivers what is to come from within.
func (l *life) watch(events iter.Seq2[event.Event, error]) (failure error) {
	for ev, err := range events {
		if err != nil {
			failure = err
		}
		if p, ok := ev.(event.Pause); ok {
			l.told(p.Pause)
		}
	}
	return failure
}

// told delivers the inputs that come at the event of a pause.
func (l *life) told(p tool.Pause) {
	if l.dead() {
		return
	}
	if st, err := l.store.Load(l.ctx, theSession); err == nil {
		if c := st.Call(p.Call); c == nil || c.Pauses < p.Number {
			l.violation("an event tells of pause %s, which is not stored", p.ID)
		}
	}
	for i, in := range l.s.Inputs {
		if in.moment == atPause && in.target.tool == p.Tool && in.target.pause == p.Number &&
			l.call(in.target) == p.Call {
			l.deliver(i, in)
		}
	}
}

// call returns the id of the call that a target names; empty if there is none.
func (l *life) call(t target) string {
	n := 0
	for _, c := range l.calls() {
		if c.Name == t.tool {
			if n++; n == t.call {
				return c.ID
			}
		}
	}
	return ""
}

// calls returns all calls of the session so far.
func (l *life) calls() []llm.ToolCall {
	st, err := l.store.Load(l.ctx, theSession)
	if err != nil {
		return nil
	}
	l.asked.Lock()
	defer l.asked.Unlock()
	if l.asked.messages < st.Messages {
		history, err := l.store.History(l.ctx, st, l.asked.messages)
		if err != nil {
			return nil
		}
		for _, m := range history {
			l.asked.calls = append(l.asked.calls, m.ToolCalls()...)
		}
		l.asked.messages = st.Messages
	}
	return l.asked.calls
}
