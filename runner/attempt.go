package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// attempt is one entry of one call's body: through the layers, perhaps into the
// tool, and on to its committed outcome. The loop makes it from what it needs,
// and hands it to a goroutine of its own (see crew). Layers and tool run there.
//
// The loop commits the outcome if it waits for an attempt just then. Otherwise
// the attempt's own goroutine does, since the caller may take any time over an
// event. An attempt writes nothing that is the loop's. The loop reads the
// attempt's product, which has a lock.
type attempt struct {
	*subject
	own   committer       // under the lease that it was started under, from its own goroutine
	turn  *turnFacts      // of its own turn
	call  session.Call    // as the head had it
	index int             // its place in the turn
	args  json.RawMessage // as the model wrote them
	// of the drive: how long a body whose context has ended may take
	bodies context.Context
	// Epoch is that of the head that the attempt was made by. If another drive
	// has come since, before this one had taken the lease, nothing of the attempt
	// counts.
	epoch int

	// Of the goroutine at work: the loop's until it has started the attempt,
	// and once the attempt is handed back to it.
	prepared *toolbox.Prepared
	ctx      context.Context // ends when the body may not be entered any more
	out      toolbox.Outcome
	cut      error // why ctx had ended when the layers returned; nil: it had not
	settled  bool  // the outcome is committed already
	unstored error // why the outcome could not be stored yet; nil: it is, or won't be

	door      door
	product   product
	seen      seenHandles
	left      func()          // its place at a shared limit
	exclusive bool            // see Scheduling.Exclusive
	entered   chan<- struct{} // of the crew: tells that there is an entry to show
	next      *attempt        // of the crew's
}

// newAttempt makes an attempt at a call of the open turn.
func newAttempt(s *subject, l *life, lease *session.Lease, r *reading, c *session.Call) *attempt {
	return &attempt{
		left:    func() {},
		subject: s, own: committer{lease, l.lasting},
		epoch: r.epoch, turn: r.turn, call: *c, index: r.placeOf(c.ID),
		args: session.Arguments(r.asked, c.ID), bodies: l.bodies,
	}
}

// guard runs f in the attempt's goroutine, and keeps what comes of it, also if
// that is a panic or the goroutine's end. A layer may have left a goroutine
// behind that calls next: from here on the door refuses it.
func (a *attempt) guard(ctx context.Context, f entering) {
	a.ctx = ctx
	ended := false
	defer func() {
		if !ended { // by a panic of our own making, or runtime.Goexit in a layer
			a.out = toolbox.Resolve(tool.Execution{}, a.after(a.crashed(recover())))
		}
		a.door.close()
		a.cut = context.Cause(ctx)
	}()
	a.out = f(a, ctx)
	ended = true
}

// end commits what came of the attempt, if there is anything to commit.
func (a *attempt) end(to *committer) {
	switch {
	case a.settled:
	case a.door.runtime != nil:
		a.fail(a.door.runtime)
	case isBeforeBody(a.out.Err):
		a.door.neverEntered() // so the loop, or the drive's end, takes the claim back
		if a.cut == nil {
			a.fail(a.out.Err)
		}
	case a.beginsAnew(a.out.Err):
		a.fail(a.out.Err)
	case a.door.putOff:
		// Nothing has happened: the loop looks at the call again.
	case !a.door.entered && a.cut != nil &&
		(a.out.Status == toolbox.Failed || a.out.Status == toolbox.Paused):
		// It was stopped before it began, perhaps by a gate whose policy was cut
		// off: it begins when the session is carried on.
	case a.call.Action != "" && a.out.Status == toolbox.Failed && a.isLeft():
		// The drive was stopped, and not the call. It begins anew, too, since what
		// it has done to handles is known by its id.
	default:
		a.conclude(to)
	}
}

// beginsAnew reports whether an error is of the store, and the body may be
// entered again: what it has done to handles and permits is known by the call's
// id.
func (a *attempt) beginsAnew(err error) bool {
	return failedStore(err) && (a.call.Action != "" || !a.call.Effect.NeedsClaim())
}

// isLeft reports whether the attempt was stopped since its drive was, and neither
// the call nor the run is to end.
func (a *attempt) isLeft() bool {
	return a.cut != nil && !isAny(a.cut, errRunEnded, errCallCancelled)
}

// fail notes that the call could not be run, or that its outcome could not be
// committed. A drive that has lost its lease, or its call, finds that out by
// itself.
func (a *attempt) fail(err error) {
	if isAny(err, session.ErrGoesOn, errOutrun) { // the lease carries it on, or the loop looks again
		return
	}
	if session.Moved(err) || isAny(err, session.ErrFenced, session.ErrCancelled) {
		a.log().Warn("a call's outcome was dropped", "reason", err)
		return
	}
	a.product.fails(err)
}

// crashed returns the error of a layer that panicked, and logs its stack.
// Without a panic, a tool or a layer has ended its goroutine.
func (a *attempt) crashed(p any) error {
	if p == nil {
		return fmt.Errorf("%s ended its goroutine before it had a result; or a layer around it did",
			a.call.Tool)
	}
	a.log().Error("a layer panicked", "panic", p, "stack", string(debug.Stack()))
	return errors.New("a layer around the tool panicked")
}

func (a *attempt) log() *slog.Logger {
	return a.subject.log().With("session", a.session, "tool", a.call.Tool, "call", a.call.ID)
}

// prepareAndRun is run for a tool whose own code reads the arguments. That code
// may take its time, or end the goroutine, as the body may.
func (a *attempt) prepareAndRun(ctx context.Context) toolbox.Outcome {
	if err := a.prepare(ctx); err != nil {
		return toolbox.Resolve(tool.Execution{}, err)
	}
	return a.run(ctx)
}

// run takes the call through the layers.
func (a *attempt) run(ctx context.Context) toolbox.Outcome { return toolbox.Resolve(a.layers(ctx)) }

// inside enters the body of a call without layers, which was admitted.
func (a *attempt) inside(ctx context.Context) toolbox.Outcome {
	return toolbox.Resolve(a.into(ctx, a.prepared.Call))
}

// layers takes the call through the layers, which may enter the body by enter.
func (a *attempt) layers(ctx context.Context) (exec tool.Execution, err error) {
	defer func() {
		if p := recover(); p != nil {
			exec, err = tool.Execution{}, a.crashed(p)
		}
		err = a.after(err)
	}()
	exec, err = a.core.Execute(ctx, a.prepared.Call, !a.call.PassesLayers(), a.enter)
	if err == nil && !a.door.isDerived() { // an answer's size was judged when it was accepted
		exec, err = a.prepared.Bounds(exec)
	}
	return exec, err
}

// after adds to an error that the body had returned before, if it had.
func (a *attempt) after(err error) error {
	if err == nil || !a.door.hasReturned() {
		return err
	}
	return a.core.Tools.After(a.call.Tool, a.call.Effect, err)
}

// prepare makes the call, and checks the arguments as the model wrote them,
// before any layer sees them.
func (a *attempt) prepare(ctx context.Context) error {
	c, tools := &a.call, a.core.Tools
	// Perhaps text that is no JSON, which the message keeps as a string.
	if bytes.HasPrefix(a.args, []byte{'"'}) {
		if _, err := llm.Arguments(a.args); err != nil {
			return err
		}
	}
	bound, err := a.boundTo(ctx, c)
	if err != nil {
		a.door.runtime = err
		return err
	}
	call := tool.Call{
		ID: c.ID, Session: a.session, User: a.user, Turn: a.turn.number,
		Tool: c.Tool, Effect: c.Effect, Arguments: a.args, Pauses: c.Pauses,
		Attempt: 1, Fence: a.own.lease.Fence(), Host: host{rn: a.rn, turn: a.turn, tools: tools,
			actor: Actor("agent:" + a.agent.Name()), bound: bound, seen: &a.seen,
			bodies: a.bodies,
			driver: a.own.lease.Driver},
	}
	if c.Effect.NeedsClaim() {
		call.Attempt = c.Attempt + 1
	}
	if call.Answer, call.Decisions, err = a.told(ctx, c); err != nil {
		a.door.runtime = err
		return err
	}
	if t := c.Tried; t != nil {
		call.Tried = tool.Tried{Count: t.Count, Since: t.Since, At: t.At}
	}
	if call.Mail, err = a.rn.store.MailFor(ctx, a.session, c); err != nil {
		a.door.runtime = err
		return err
	}
	prepare := tools.Prepare
	if c.Answer != nil && c.Answer.Mode != tool.ModeReenter {
		prepare = tools.PrepareAnswered
	}
	if a.prepared, err = prepare(call); err == nil {
		a.prepared.Left = a.rn.left
	}
	return err
}
