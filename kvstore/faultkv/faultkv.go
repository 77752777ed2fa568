// Package faultkv makes a store fail where a test wants it to: at the n-th
// write, before or after it, or with the write to come later, once or for good,
// or at random from a seed. What it does depends on the order of the calls
// only, never on time.
//
//	f := faultkv.New(kvstore.NewMemory(), faultkv.LoseAt(3).AndDie())
//	run(f.Store) // the third Apply is carried out, its caller is not told, and the store is dead from then on
//
// For a test of every place where a process can die, see [Cuts].
package faultkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fermata-ai/fermata/kvstore"
)

// What the faults look like to their callers.
var (
	// ErrFault is what FailAt injects. Certainly not applied.
	ErrFault = errors.New("faultkv: injected failure")
	// ErrFull is what FullFrom injects. Certainly not applied.
	ErrFull = errors.New("faultkv: injected failure: no space left on device")
	// ErrDead is the answer of a dead store. An Apply that was under way when
	// the store died is an ErrUncertain too. For whom it serves, it is closed.
	ErrDead = fmt.Errorf("faultkv: the store is dead: %w", kvstore.ErrClosed)
)

// Injector watches one engine, and makes it fail.
type Injector struct {
	// Store is the engine with its faults: what the code under test is given.
	// It is a [kvstore.Exclusive] if the engine is one, with the engine's own
	// incarnation and Local, and a [kvstore.Signaler] or a [kvstore.Clock], each
	// without faults.
	Store kvstore.Store

	inner kvstore.Store

	mu            sync.Mutex
	faults        []Fault
	chaos         Chaos
	calls         []Call
	struck        int
	dead          bool
	before, after func(Call)
	stalled       *stall
	deferred      []kvstore.Batch
	passed        chan struct{} // closed, and made anew, whenever the engine has answered an Apply
}

// Call is one Apply.
type Call struct {
	Number     int // from 1, in the order in which the calls came
	Operations int
	Bytes      int // of keys and values: what counts towards kvstore.MaxBatch
	Writes     bool
	Done       bool  // it has been answered
	Err        error // its answer
}

// New returns an Injector over an engine, with these faults.
func New(inner kvstore.Store, faults ...Fault) *Injector {
	f := &Injector{inner: inner, faults: faults, passed: make(chan struct{})}
	s := store{f}
	f.Store = s
	signaler, signals := inner.(kvstore.Signaler)
	clock, clocked := inner.(kvstore.Clock)
	switch e, ok := inner.(kvstore.Exclusive); {
	case ok:
		f.Store = exclusive{s, e}
	case signals && clocked:
		f.Store = struct {
			store
			signal
			now
		}{s, signal{signaler}, now{clock}}
	case signals:
		f.Store = struct {
			store
			signal
		}{s, signal{signaler}}
	case clocked:
		f.Store = struct {
			store
			now
		}{s, now{clock}}
	}
	return f
}

// Add makes more faults. Their places count from the first Apply of all, as
// those of New do: the next one's is Applies()+1.
func (f *Injector) Add(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, faults...)
}

// SetChaos begins, changes or, with the zero Chaos, ends random faults.
func (f *Injector) SetChaos(c Chaos) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chaos = c
}

// Heal ends all faults, those yet to come too. It doesn't raise the dead.
func (f *Injector) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults, f.chaos = nil, Chaos{}
	if f.stalled != nil {
		close(f.stalled.over)
		f.stalled = nil
	}
}

// Kill makes the store dead, as AndDie does. Close still reaches the engine, so
// that what is left can be opened again.
func (f *Injector) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = true
}

// Before has do called with each Apply when it comes, in the caller's goroutine
// and before the fault that is meant for it, if any. It may use the store; so a
// test can let something happen just before the third write.
func (f *Injector) Before(do func(Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = do
}

// After is Before, just before the Apply returns; the Call has its answer.
func (f *Injector) After(do func(Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = do
}

// Applies returns the number of Applies so far, whatever came of them.
func (f *Injector) Applies() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// Commits returns the number of Applies so far that wrote something and were
// acknowledged.
func (f *Injector) Commits() int {
	n := 0
	for _, c := range f.Calls() {
		if c.Writes && c.Done && c.Err == nil {
			n++
		}
	}
	return n
}

// Calls returns all Applies so far.
func (f *Injector) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// Struck returns the number of faults so far, chaos included. At zero, a test
// of a fault has tested nothing.
func (f *Injector) Struck() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.struck
}

// Dead reports whether the store is.
func (f *Injector) Dead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// arrive numbers an Apply.
func (f *Injector) arrive(b kvstore.Batch) (Call, func(Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := Call{
		Number:     len(f.calls) + 1,
		Operations: b.Operations(),
		Bytes:      b.Size(),
		Writes:     len(b.Puts)+len(b.Deletes) > 0,
	}
	f.calls = append(f.calls, c)
	return c, f.before
}

// leave records the answer to an Apply.
func (f *Injector) leave(c Call, err error) {
	f.mu.Lock()
	c.Done, c.Err = true, err
	f.calls[c.Number-1] = c
	after := f.after
	f.mu.Unlock()
	if after != nil {
		after(c)
	}
}

// strike returns the fault that is meant for an Apply.
func (f *Injector) strike(c Call) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return fate{kind: dead}
	}
	x := f.chaos.fate(c)
	for _, fault := range f.faults {
		if fault.strikes(c) {
			x.kind, x.die = fault.kind, fault.die
			break
		}
	}
	if x.kind != none {
		f.struck++
	}
	if x.die && x.kind != lose {
		f.dead = true
	}
	return x
}

// apply is the store's Apply: the engine's, with a fault before or after
// it.
func (f *Injector) apply(ctx context.Context, c Call, b kvstore.Batch) (kvstore.Revision, error) {
	if err := b.Check(); err != nil {
		return 0, err // no engine would see it
	}
	x := f.strike(c)
	switch x.kind {
	case dead:
		return 0, ErrDead
	case fail:
		return 0, fmt.Errorf("%w, before Apply %d", ErrFault, c.Number)
	case conflict:
		return 0, kvstore.ErrConflict
	case full:
		return 0, ErrFull
	case deferred:
		f.deferBatch(b)
		return 0, fmt.Errorf("%w: faultkv: Apply %d comes later", kvstore.ErrUncertain, c.Number)
	}
	if err := f.wait(ctx, x); err != nil {
		return 0, err // a context's: the engine hasn't seen the batch
	}
	if err := f.hang(ctx); err != nil {
		return 0, err
	}
	revision, err := f.inner.Apply(ctx, b)
	f.pass()
	if x.kind == lose {
		if x.die {
			f.Kill()
		}
		return 0, fmt.Errorf("%w: faultkv: the answer to Apply %d is lost", kvstore.ErrUncertain,
			c.Number)
	}
	if f.Dead() { // another caller's doing, meanwhile; the dead are told nothing
		return 0, fmt.Errorf("%w: %w", kvstore.ErrUncertain, ErrDead)
	}
	return revision, err
}

// deferBatch keeps a batch for land, and nothing that its caller uses again.
func (f *Injector) deferBatch(b kvstore.Batch) {
	var own kvstore.Batch
	for _, p := range b.Preconditions {
		p.Key = bytes.Clone(p.Key)
		own.Preconditions = append(own.Preconditions, p)
	}
	for _, p := range b.Puts {
		own.Puts = append(own.Puts, kvstore.Put{Key: bytes.Clone(p.Key), Value: bytes.Clone(p.Value)})
	}
	for _, key := range b.Deletes {
		own.Deletes = append(own.Deletes, bytes.Clone(key))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deferred = append(f.deferred, own)
}

// land gives the engine what was deferred.
func (f *Injector) land() {
	f.mu.Lock()
	all := f.deferred
	f.deferred = nil
	f.mu.Unlock()
	for _, b := range all {
		// Its caller is told nothing more.
		_, _ = f.inner.Apply(context.Background(), b)
		f.pass()
	}
}

func (f *Injector) pass() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.passed)
	f.passed = make(chan struct{})
}
