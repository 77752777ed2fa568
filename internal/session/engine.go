package session

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// ErrNoAnswer is the error of a call to the storage engine that has not
// returned within its bound. It may pass. Of a write it is a
// kvstore.ErrUncertain as well: what is still under way may yet be applied.
var ErrNoAnswer = errors.New("session: the storage engine has not answered in time")

// engine is the one way to the Store's kvstore.Store. A call that takes longer
// than bound, or than its context, is left behind in a goroutine of its own,
// and its caller goes on. So the caller depends on no engine that ignores
// contexts. An engine that never waits is called directly, since the hop to a
// goroutine costs more than the call.
type engine struct {
	kv    kvstore.Store
	bound time.Duration // zero: the engine never waits
	whole atomic.Bool   // it is known to be no copy that isn't finished
}

func newEngine(kv kvstore.Store, bound time.Duration) *engine {
	if _, ok := kv.(kvstore.Immediate); ok {
		bound = 0
	}
	return &engine{kv: kv, bound: bound}
}

// isWhole refuses a copy that isn't finished: the next Copy would delete what is
// written to it. It asks until it has once been told. An engine that never waits
// is in this process's memory, where a program sees for itself.
func (e *engine) isWhole(ctx context.Context) error {
	if e.whole.Load() {
		return nil
	}
	err := kvstore.Finished(ctx, e.kv)
	if err == nil {
		e.whole.Store(true)
	}
	return err
}

// incarnation is the engine's; zero: it has none, since several processes share
// it.
func (e *engine) incarnation() uint64 {
	if own, ok := e.kv.(kvstore.Exclusive); ok {
		return own.Incarnation()
	}
	return 0
}

// Get is the engine's.
func (e *engine) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if e.bound == 0 {
		stored, err := e.kv.Get(ctx, key)
		return stored, outageOf(ctx, err)
	}
	get := func(ctx context.Context) (kvstore.Entry, error) {
		if err := e.isWhole(ctx); err != nil {
			return kvstore.Entry{}, err
		}
		return e.kv.Get(ctx, key)
	}
	return read(ctx, e, get)
}

// record decodes the record under key, if there is one.
func (e *engine) record(ctx context.Context, key []byte, v any) (found bool, err error) {
	stored, err := e.Get(ctx, key)
	switch {
	case errors.Is(err, kvstore.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, decode(key, stored.Value, v)
}

// Scan is the engine's.
func (e *engine) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	if e.bound == 0 {
		page, err := e.kv.Scan(ctx, r)
		return page, outageOf(ctx, err)
	}
	scan := func(ctx context.Context) (kvstore.Page, error) {
		if err := e.isWhole(ctx); err != nil {
			return kvstore.Page{}, err
		}
		return e.kv.Scan(ctx, r)
	}
	return read(ctx, e, scan)
}

// Apply is the engine's. After an error that is ErrNoAnswer, or a context's,
// the engine may still be reading the batch: its slices must not be used again.
func (e *engine) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if e.bound == 0 {
		rev, err := e.kv.Apply(ctx, b)
		return rev, outageOf(ctx, err)
	}
	return e.written(context.Background(), e.write(ctx, b))
}

// engineCall is a call to the engine that may be left behind.
type engineCall[T any] struct {
	parent, ctx context.Context // the caller's, and the same with the bound
	cancel      context.CancelFunc
	ended       chan struct{}

	// What came of it. Its goroutine writes these before it closes ended; they
	// are read after that.
	value    T
	err      error
	returned bool
	panicked any
}

// ask makes a call in a goroutine of its own.
func ask[T any](ctx context.Context, e *engine, f func(context.Context) (T, error)) *engineCall[T] {
	c := &engineCall[T]{parent: ctx, ended: make(chan struct{})}
	c.ctx, c.cancel = context.WithTimeout(ctx, e.bound)
	go func() {
		defer close(c.ended)
		defer func() {
			if !c.returned {
				c.panicked = recover()
			}
		}()
		c.value, c.err = f(c.ctx)
		c.returned = true
	}()
	return c
}

// result returns what came of a call that has ended, and whether its bound was
// over by then. A panic or a Goexit of the call's goroutine goes on in the
// caller's.
func (c *engineCall[T]) result() (value T, err error, late bool) {
	late = c.ctx.Err() != nil && c.parent.Err() == nil
	c.cancel()
	switch {
	case c.returned:
	case c.panicked != nil:
		panic(c.panicked)
	default:
		runtime.Goexit()
	}
	return c.value, c.err, late
}

// read makes a call that changes nothing.
func read[T any](ctx context.Context, e *engine, f func(context.Context) (T, error)) (T, error) {
	c := ask(ctx, e, f)
	select {
	case <-c.ended:
	case <-c.ctx.Done():
	}
	select {
	case <-c.ended: // perhaps in the same moment
		value, err, late := c.result()
		if err != nil && late {
			err = e.noAnswer() // in the words of an engine that obeys its context
		}
		return value, outageOf(ctx, err)
	default:
	}
	c.cancel()
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	return none, e.noAnswer()
}

func (e *engine) noAnswer() error {
	return &outage{fmt.Errorf("%w, which is %v", ErrNoAnswer, e.bound)}
}

// write begins an Apply.
func (e *engine) write(ctx context.Context, b kvstore.Batch) *engineCall[kvstore.Revision] {
	apply := func(ctx context.Context) (kvstore.Revision, error) {
		if err := e.isWhole(ctx); err != nil {
			return 0, err
		}
		return e.kv.Apply(ctx, b)
	}
	return ask(ctx, e, apply)
}

// errUnderway is the error of a wait that was given up while the write is still
// under way.
var errUnderway = errors.New("session: the write goes on without its caller")

// written waits for a write until it has ended, its bound is over, or ctx ends;
// then it may be waited for again.
func (e *engine) written(
	ctx context.Context, c *engineCall[kvstore.Revision],
) (kvstore.Revision, error) {
	select {
	case <-c.ended:
		return e.answer(c)
	case <-c.ctx.Done():
	case <-ctx.Done():
	}
	select {
	case <-c.ended: // in the same moment
		return e.answer(c)
	default:
	}
	switch {
	case c.ctx.Err() == nil:
		return 0, errUnderway
	case c.parent.Err() == nil:
		c.cancel()
		return 0, fmt.Errorf("%w: %w", kvstore.ErrUncertain, e.noAnswer())
	}
	// Its caller has ended it. An engine that obeys contexts tells in a moment
	// whether the batch was applied.
	moment := time.NewTimer(lastWord)
	defer moment.Stop()
	select {
	case <-c.ended:
		return e.answer(c)
	case <-moment.C:
		c.cancel()
		return 0, fmt.Errorf("%w: %w", kvstore.ErrUncertain,
			errors.Join(context.Cause(c.parent), errBehind))
	}
}

// errBehind marks a write that was left behind because its caller's context
// has ended.
var errBehind = errors.New("the storage engine was still at it")

// lastWord is how long an engine has to tell what became of a write whose
// context has ended.
const lastWord = 10 * time.Millisecond

// answer returns what the engine answered to a write that has ended. An error
// that came late may be the bound's, so the write counts as uncertain.
func (e *engine) answer(c *engineCall[kvstore.Revision]) (kvstore.Revision, error) {
	rev, err, late := c.result()
	if err != nil && late && !errors.Is(err, kvstore.ErrConflict) {
		err = fmt.Errorf("%w: %w: %w", kvstore.ErrUncertain, ErrNoAnswer, err)
	}
	return rev, outageOf(c.parent, err)
}

// behind reports whether a write was left behind: the engine may still be
// reading its batch.
func behind(err error) bool { return errors.Is(err, ErrNoAnswer) || errors.Is(err, errBehind) }
