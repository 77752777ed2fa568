package fermatatest

import (
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/wide"
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
	wide   *wide.Store
	agents map[string]*agent.Agent // by name, those that others have as tools too
	runner *runner.Runner
	// patience is how often the life waits for a lease, before it lets time
	// pass until the lease has ended.
	patience int
	bodies   atomic.Int64 // that run
	watching atomic.Int64 // loops over events that are under way
	stop     func()       // what hurries leases

	asked struct {
		sync.Mutex
		messages map[string]int // of each session, those that were looked at
		calls    map[string][]llm.ToolCall
	}
}

// open begins the n-th life, from 0. Each has its own fault.
func (h *history) open(n int, faults []faultkv.Fault) (*life, error) {
	l := &life{history: h, number: n + 1, agents: map[string]*agent.Agent{}}
	l.asked.messages, l.asked.calls = map[string]int{}, map[string][]llm.ToolCall{}
	var err error
	if l.kv, err = h.place.Open(); err != nil {
		return nil, err
	}
	l.faults = faultkv.New(l.kv)
	if n < len(faults) {
		l.faults.Add(faults[n])
	}
	first, others, err := l.crew()
	if err == nil {
		store := session.NewStore(l.faults.Store,
			&session.Options{Now: h.Now, NewID: h.newID, MaxSkew: time.Millisecond})
		l.store = hold.Of(store)
		l.wide = wide.New(l.store, nil)
		l.runner, err = runner.New(first, store,
			&runner.Options{Logger: silent, Agents: others})
	}
	if err != nil {
		return nil, errors.Join(err, l.kv.Close())
	}
	l.stop = l.hurry()
	return l, nil
}

// end drops all that the life has in memory. Its bodies' contexts end.
func (l *life) end() error {
	err := l.runner.Close()
	l.stop()
	return errors.Join(err, l.kv.Close())
}

func (l *life) dead() bool { return l.faults.Dead() }

// live delivers the inputs, in order, and drives the sessions to rest in
// between. It reports whether it came to the end.
func (l *life) live() bool {
	l.begin(false)
	past := l.past()
	for i, in := range l.s.Inputs {
		if i < past || l.number > 1 && l.isKnown(i, in) {
			continue
		}
		l.deliver(i, in)
		if !in.undriven {
			l.rest()
		}
		if l.dead() {
			l.note("life %d: dead after %d writes", l.number, l.faults.Applies())
			return false
		}
		l.look(!in.undriven)
	}
	l.rest()
	return !l.dead()
}

// isKnown reports whether the sender of an input was told by an earlier life
// what became of it, and doesn't repeat it: one that was refused, and the end of
// a session, which would end what came afterwards.
func (l *life) isKnown(i int, in Input) bool {
	return l.refused(i) || in.kind == isEnd && l.accepted(i)
}

// past returns how many inputs came before the one that has ended all that they
// were for. They are not delivered again.
func (l *life) past() (n int) {
	st, err := l.store.Load(l.ctx, l.s.root())
	gone := errors.Is(err, session.ErrUnknownSession) || err == nil && !st.Deleted.IsZero()
	for i, in := range l.s.Inputs {
		ends := in.kind == isEnd && len(in.target.path) == 0 && err == nil && wasEnded(st)
		if l.tried(i) && (ends || gone && (in.kind == isDelete || in.kind == isSweep)) {
			n = i
		}
	}
	return n
}

// wasEnded reports whether the session's last run was cancelled as a whole.
func wasEnded(st *core.State) bool {
	for _, h := range []*core.Halt{st.Halt, st.Ending} {
		if h != nil && h.Finish == event.FinishCancelled {
			return true
		}
	}
	return false
}

// begin makes sure that a worker would find what the last drives left, and
// notes the calls that may have got further than the store shows: those that
// were running when a drive ended, and have no answer kept; and those whose
// entries leave no trace. Again: the life goes on after a fault, and what other
// drives of it do is sure.
func (l *life) begin(again bool) {
	family, err := l.family()
	if err != nil {
		if !l.dead() {
			l.violation("life %d begins, and the sessions can't be read: %v", l.number, err)
		}
		return
	}
	for _, st := range family {
		l.findable(st)
		if driven, _ := l.store.Driven(st); !again || st.Parent == nil || !driven {
			l.unsure(st)
		}
		if !again && st.Parent != nil { // the runner would wait for that in real time
			l.outlive(st)
		}
	}
}

// unsure notes the calls of a session of which it isn't known how far they have
// got.
func (l *life) unsure(st *core.State) {
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

// watch ranges over a run's events, and delivers what is to come from within.
func (l *life) watch(events iter.Seq2[event.Event, error]) (failure error) {
	l.watching.Add(1)
	defer l.watching.Add(-1)
	for ev, err := range events {
		if err != nil {
			failure = err
		}
		if nested, ok := ev.(event.Nested); ok {
			ev = nested.Event
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
	if st, err := l.store.Load(l.ctx, p.Session); err == nil {
		if c := st.Call(p.Call); c != nil && c.Pauses < p.Number || c == nil && !l.moved(p) {
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

// moved reports whether the call of a pause below the root has its result
// already: such a session goes on while its events wait for their caller.
func (l *life) moved(p tool.Pause) bool {
	c, err := l.runner.Call(l.ctx, p.Session, p.Call, "test")
	return p.Session != l.s.root() && err == nil && c.Settled != "" && c.Pauses >= p.Number
}

// hurry lets time pass until leases have ended that no drive keeps, while the
// life waits for them: those of drives that could not store their end. A call
// of stop ends it.
func (l *life) hurry() (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(quiet)
		defer tick.Stop()
		for last := -1; ; last = l.faults.Applies() {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if l.faults.Applies() == last && l.bodies.Load() == 0 && !l.dead() {
				l.endLeases()
			}
		}
	}()
	return func() { close(done); <-over }
}

// quiet is for how long nothing is written, and no body runs, where nothing is
// driven any more, as far as can be told on a slow machine.
const quiet = 500 * time.Millisecond

func (l *life) endLeases() {
	family, err := l.family()
	if err != nil {
		return
	}
	for _, st := range family {
		if driven, _ := l.store.Driven(st); driven {
			l.unsure(st) // a drive that is slow loses its lease
		}
		l.outlive(st)
	}
}

// outlive lets time pass until a session isn't held any more, and is tried
// again.
func (l *life) outlive(st *core.State) {
	if _, until := l.store.Driven(st); !until.IsZero() {
		l.pass(until.Add(time.Millisecond))
	}
	if at := l.store.TriedAgain(st); at.After(l.Now()) {
		l.pass(at)
	}
}
