package tool

import (
	"context"
	"errors"
	"time"

	"github.com/fermata-ai/fermata/internal/usererr"
)

// Enter runs the body of the tool called name once. The call is the one that
// was prepared, perhaps with other arguments (edited ones, which are checked
// again), an answer, decisions. A raw body gets a copy of it.
//
// The body gets the call by its context, too. It is bounded by Spec.Timeout;
// one that ignores its context is left behind then, and what it returns is
// dropped. Enter tells left of it, if left is set; wait returns when that body
// has ended. Without a timeout Enter waits for the body, whatever becomes of
// ctx, and a body that calls runtime.Goexit ends the goroutine of Enter's
// caller. A panic is a *PanicError. What the body returns is checked, bounded
// by the limits, and cleaned of what no provider can parse; an Await is
// returned in its normal form. With an error, the Execution is empty.
//
// Acted is false, without an error, if the tool asks its question once more
// since the answer could not be read: no function of the tool has seen it.
func (b *box) Enter(
	ctx context.Context, name string, c Call, left func(wait func()),
) (exec Execution, acted bool, err error) {
	e := b.entries[name]
	if c, err = b.check(e, c); err != nil {
		return Execution{}, false, err
	}
	exec, err = attempt{b, e, left}.run(ctx, c, e.body)
	return exec, err == nil && !exec.Await.asksAgain(), err
}

// Reconcile asks Spec.Reconcile what became of a call whose outcome is unknown,
// bounded and checked as Enter does. Ok is false if the tool has none.
func (b *box) Reconcile(
	ctx context.Context, name string, c Call, left func(wait func()),
) (exec Execution, ok bool, err error) {
	e := b.entries[name]
	if e.spec.Reconcile == nil {
		return Execution{}, false, nil
	}
	exec, err = attempt{b, e, left}.run(ctx, c, withCall(apart(e.spec.Reconcile)))
	return exec, true, err
}

// attempt is one entry of a tool's body.
type attempt struct {
	*box
	*entry
	left func(wait func()) // nil: it is not told of
}

// userCode is a tool's body, or what stands in for it.
type userCode func(context.Context, Call) (Execution, error)

// apart runs code that may keep, and write into, the call that it is given and
// the Execution that it returns: it gets a copy of the one, and a copy is taken
// of the other.
func apart(f userCode) userCode {
	return func(ctx context.Context, call Call) (Execution, error) {
		exec, err := f(ctx, call.Clone())
		return exec.Clone(), err
	}
}

// withCall runs code in a context that knows the call.
func withCall(f userCode) userCode {
	return func(ctx context.Context, call Call) (Execution, error) {
		return f(WithCall(ctx, call), call)
	}
}

func (in attempt) run(ctx context.Context, call Call, body userCode) (Execution, error) {
	made, err := in.bounded(ctx, call, body)
	if err != nil {
		if ran(err) {
			err = in.after(call, err)
		}
		return Execution{}, err
	}
	exec, err := in.accept(made)
	switch {
	case err == nil:
		return exec, nil
	case made.Await.asksAgain():
		return Execution{}, notAskedAgain(in.spec.Name, err)
	}
	return Execution{}, in.after(call, err)
}

func (in attempt) after(call Call, err error) error {
	return after(in.spec.Name, min(in.spec.Effect, call.Effect), err)
}

// bounded runs body until it ends, or, with a timeout, until its time is over.
func (in attempt) bounded(ctx context.Context, call Call, body userCode) (Execution, error) {
	if in.spec.Timeout <= 0 {
		return in.guarded(ctx, call, body)
	}
	return in.inTime(ctx, call, body)
}

// guarded runs body and makes a panic its error.
func (in attempt) guarded(
	ctx context.Context, call Call, body userCode,
) (exec Execution, err error) {
	defer recovered(in.spec.Name, &err)
	exec, err = body(ctx, call)
	return exec, usererr.Use(err)
}

// inTime runs body in a goroutine of its own, until its time is over. That
// goroutine sends once, into a channel with room for it, so that a body that is
// left behind can always end. It touches nothing else of the caller's; the
// caller, or wait after it, is the only one to receive.
func (in attempt) inTime(ctx context.Context, call Call, body userCode) (Execution, error) {
	late := &TimeoutError{Tool: in.spec.Name, After: in.spec.Timeout, Effect: in.spec.Effect}
	ctx, cancel := context.WithTimeoutCause(ctx, in.spec.Timeout, late)
	defer cancel()
	// ctx may end for another reason, for which Enter does not leave the body.
	over := time.NewTimer(in.spec.Timeout)
	defer over.Stop()
	type result struct {
		exec Execution
		err  error
	}
	ended := make(chan result, 1) // with room for a late result, which is not read
	go func() {
		var r result
		defer func() { ended <- r }()
		r.err = &PanicError{Tool: in.spec.Name} // what runtime.Goexit leaves
		r.exec, r.err = in.guarded(ctx, call, body)
	}()
	var r result
	select {
	case r = <-ended:
	case <-over.C:
		select {
		case r = <-ended: // just in time
		default:
			if in.left != nil {
				in.left(func() { <-ended })
			}
			return Execution{}, late
		}
	}
	if errors.Is(r.err, context.DeadlineExceeded) && context.Cause(ctx) == error(late) {
		return Execution{}, late // it is the body's way to say so
	}
	return r.exec, r.err
}
