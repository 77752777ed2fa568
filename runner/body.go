package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// body is one attempt at a call: through the layers, perhaps into the tool, and on to its committed outcome. The layers and the tool run
// in a goroutine of their own, the body's. The loop commits the outcome if it waits for one just then; otherwise that goroutine does, since
// whoever ranges over the events may take his time with one.
type body struct {
	d        *drive
	lease    *session.Drive  // the one that it was started under
	turn     *turnFacts      // of its own turn
	c        session.Call    // as the head had it
	args     json.RawMessage // as the model wrote them
	prepared *toolbox.Prepared

	ctx     context.Context // ends when the body may not be entered any more
	out     toolbox.Outcome
	alone   bool // the body's own goroutine is at work, and not the loop's
	settled bool // the outcome is committed already

	next *body // see bodies

	mu       sync.Mutex // guards the rest until the body is over: a layer may call next from goroutines of its own
	over     bool       // the layers have returned, or are not waited for: the tool's body can't be entered any more
	claimed  bool       // the call may be entered: it is claimed, where that is needed, or about to be; until that is taken back
	entered  bool       // the tool's body was entered
	returned bool       // it returned without an error
	put      bool       // off: the body was not entered after all, and the call is as it was
	derived  bool       // the outcome follows from what is stored
	runtime  error      // why the call could not be run, which is not the call's own failure
}

// start runs a call, first entry or re-entry. What needs no code of others settles at once: a call that can't be run, or is answered
// and has no layers around it.
func (d *drive) start(ctx context.Context, c *session.Call) error {
	if goesOn, err := d.redeclare(c); !goesOn {
		return err
	}
	b := d.body(c)
	d.bodies.add(b)
	if d.core.Tools.ReadsItself(c.Tool) {
		d.batch.Start(ctx, c.ID, func(ctx context.Context) { b.guard(ctx, (*body).prepareAndRun) }, b.end)
		return nil
	}
	b.ctx = ctx
	var exec tool.Execution
	err := b.prepare(ctx)
	goesOn, run := err == nil, (*body).run
	if goesOn && !d.core.HasToolLayers(c.Tool) {
		run = (*body).inside
		exec, goesOn, err = b.admit(d.commitCtx(), b.prepared.Call)
	}
	if !goesOn {
		b.out = toolbox.Resolve(exec, err)
		b.end(true)
		return d.outcomes.failure()
	}
	d.batch.Start(ctx, c.ID, func(ctx context.Context) { b.guard(ctx, run) }, b.end)
	return nil
}

func (d *drive) body(c *session.Call) *body {
	return &body{d: d, lease: d.lease, turn: d.turn, c: *c, args: session.Arguments(d.asked, c.ID)}
}

// store returns how long the store is waited for, by the loop or by the body's
// own goroutine.
func (b *body) store() context.Context {
	if b.alone {
		return b.d.lasting
	}
	return b.d.commitCtx()
}

// guard runs f and keeps what comes of it, be it a panic or the goroutine's end. A layer that has left next behind doesn't get any
// further with it.
func (b *body) guard(ctx context.Context, f func(*body, context.Context) toolbox.Outcome) {
	b.ctx, b.alone = ctx, true
	ended := false
	defer func() {
		if !ended { // by a panic of our own making, or runtime.Goexit in a layer
			b.out = toolbox.Resolve(tool.Execution{}, b.after(b.crashed(recover())))
		}
		b.mu.Lock()
		b.over = true
		b.mu.Unlock()
	}()
	b.out = f(b, ctx)
	ended = true
}

// end settles the call. Handed: the loop does it.
func (b *body) end(handed bool) {
	b.alone = !handed
	switch {
	case b.settled:
	case b.runtime != nil:
		b.fail(b.runtime)
	case b.put:
		// Nothing has happened: the loop looks at the call again.
	case !b.entered && b.ctx.Err() != nil && b.out.Status == toolbox.Failed:
		// It was stopped before it began: it begins when the session is carried on.
	default:
		b.settle(b.ctx, b.out)
	}
}

// fail reports that the call could not be run, or its outcome not be committed. A drive that has lost its lease, or its call,
// finds that out by itself.
func (b *body) fail(err error) {
	if errors.Is(err, session.ErrGoesOn) { // the drive sees to it
		return
	}
	if session.Moved(err) || errors.Is(err, session.ErrFenced) || errors.Is(err, session.ErrCancelled) {
		b.d.rn.options.Logger.Warn("a call's outcome was dropped", "session", b.d.session, "tool", b.c.Tool, "call", b.c.ID,
			"reason", err)
		return
	}
	b.d.outcomes.fail(err)
}

// crashed is the error of a layer that panicked, the stack of which goes to the log; or, without a panic, of a tool or layer that
// ended its goroutine.
func (b *body) crashed(p any) error {
	if p == nil {
		return fmt.Errorf("%s ended its goroutine before it had a result; or a layer around it did", b.c.Tool)
	}
	b.d.rn.options.Logger.Error("a layer panicked", "session", b.d.session, "tool", b.c.Tool, "call", b.c.ID,
		"panic", p, "stack", string(debug.Stack()))
	return errors.New("a layer around the tool panicked")
}

// prepareAndRun is run for a tool whose own code reads the arguments: that may take its time, or end the goroutine, as the body may.
func (b *body) prepareAndRun(ctx context.Context) toolbox.Outcome {
	if err := b.prepare(ctx); err != nil {
		return toolbox.Resolve(tool.Execution{}, err)
	}
	return b.run(ctx)
}

// run takes the call through the layers.
func (b *body) run(ctx context.Context) toolbox.Outcome { return toolbox.Resolve(b.layers(ctx)) }

// inside enters the body of a tool without layers, which was admitted.
func (b *body) inside(ctx context.Context) toolbox.Outcome {
	return toolbox.Resolve(b.into(ctx, b.prepared.Call))
}

func (b *body) layers(ctx context.Context) (exec tool.Execution, err error) {
	defer func() {
		if p := recover(); p != nil {
			exec, err = tool.Execution{}, b.crashed(p)
		}
		err = b.after(err)
	}()
	exec, err = b.d.core.Execute(ctx, b.prepared.Call, b.enter)
	if err == nil && !b.answered() {
		exec, err = b.prepared.Bounds(exec)
	}
	return exec, err
}

// after words an error that comes after the body has returned, if it has.
func (b *body) after(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil || !b.returned {
		return err
	}
	return b.d.core.Tools.After(b.c.Tool, b.c.Effect, err)
}

// answered says that the outcome is the answer, whose size was judged when it was accepted.
func (b *body) answered() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.derived
}

// prepare makes the call, and checks it as the model wrote it, before any layer sees it.
func (b *body) prepare(ctx context.Context) error {
	d, c := b.d, &b.c
	if bytes.HasPrefix(b.args, []byte{'"'}) { // perhaps text that is no JSON, which the message keeps as a string
		if _, err := llm.Arguments(b.args); err != nil {
			return err
		}
	}
	call := tool.Call{
		ID: c.ID, Session: d.session, User: d.user, Tool: c.Tool, Turn: b.turn.number, Effect: c.Effect,
		Attempt: 1, Fence: b.lease.Fence(), Pauses: c.Pauses, Arguments: b.args, Host: host{d.rn, b.turn},
	}
	if c.Effect.NeedsClaim() {
		call.Attempt = c.Attempt + 1
	}
	var err error
	if call.Answer, call.Decisions, err = b.told(ctx); err != nil {
		b.runtime = err
		return err
	}
	prepare := d.core.Tools.Prepare
	if c.Answer != nil && c.Answer.Mode != tool.ModeReenter {
		prepare = d.core.Tools.PrepareAnswered
	}
	if b.prepared, err = prepare(call); err == nil {
		b.prepared.Left = d.rn.left
	}
	return err
}

// told loads the answer and the decisions that the call was given. They are the
// call's own, and not the head's.
func (b *body) told(ctx context.Context) (answer *tool.Answer, decisions []tool.Decision, err error) {
	store, id := b.d.rn.store, b.d.session
	if a := b.c.Answer; a != nil {
		answer = &tool.Answer{Pause: a.Pause, Mode: a.Mode, By: a.By, At: a.At}
		if answer.Payload, err = store.Value(ctx, id, a.Payload); err != nil {
			return nil, nil, err
		}
		if answer.Data, err = store.Value(ctx, id, a.Data); err != nil {
			return nil, nil, err
		}
		if answer.Prompt, err = store.Words(ctx, id, a.Prompt); err != nil {
			return nil, nil, err
		}
		answer = answer.Clone()
	}
	for _, rec := range b.c.Decisions {
		d, err := store.Decided(ctx, id, rec)
		if err != nil {
			return nil, nil, err
		}
		if len(d.Arguments) > 0 { // the next layer sees what will run
			d.Arguments = b.d.core.Tools.Derived(b.c.Tool, d.Arguments)
		}
		decisions = append(decisions, d)
	}
	return answer, decisions, nil
}
