package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
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
	prepared *tool.Prepared

	ctx     context.Context // ends when the body may not be entered any more
	store   context.Context // how long the store is waited for: the loop's, or that of the body's own goroutine
	out     tool.Outcome
	settled bool // the outcome is committed already

	mu       sync.Mutex // guards the rest until the body is over: a layer may call next from goroutines of its own
	over     bool       // the layers have returned
	claimed  bool       // the call may be entered: it is claimed, where that is needed, or about to be
	entered  bool       // the tool's body was entered
	returned bool       // it returned without an error
	put      bool       // off: the body was not entered after all, and the call is as it was
	derived  bool       // the outcome follows from what is stored
	runtime  error      // why the call could not be run, which is not the call's own failure
}

// start runs a call, first entry or re-entry. What needs no code of others settles at once: a call that can't be run, or is answered
// and has no layers around it.
func (d *drive) start(ctx context.Context, c *session.Call) error {
	if goesOn, err := d.reconcile(c); !goesOn {
		return err
	}
	b := d.body(c)
	if d.agent.Tools().ReadsItself(c.Tool) {
		d.batch.Start(ctx, c.ID, func(ctx context.Context) { b.guard(ctx, (*body).prepareAndRun) }, b.end)
		return nil
	}
	b.ctx = ctx
	var exec tool.Execution
	err := b.prepare(ctx)
	goesOn, run := err == nil, (*body).run
	if goesOn && !d.agent.HasToolLayers(c.Tool) {
		run = (*body).inside
		exec, goesOn, err = b.admit(d.patience, b.prepared.Call)
	}
	if !goesOn {
		b.out = tool.Resolve(exec, err)
		b.end(true)
		return d.outcomes.failure()
	}
	d.batch.Start(ctx, c.ID, func(ctx context.Context) { b.guard(ctx, run) }, b.end)
	return nil
}

func (d *drive) body(c *session.Call) *body {
	return &body{d: d, lease: d.lease, turn: d.turn, c: *c, args: session.Arguments(d.asked, c.ID), store: d.patience}
}

// guard runs f and keeps what comes of it, be it a panic or the goroutine's end. A layer that has left next behind doesn't get any
// further with it.
func (b *body) guard(ctx context.Context, f func(*body, context.Context) tool.Outcome) {
	b.ctx, b.store = ctx, b.d.lasting
	ended := false
	defer func() {
		if !ended { // by a panic of our own making, or runtime.Goexit in a layer
			b.out = tool.Resolve(tool.Execution{}, b.after(b.crashed(recover())))
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
	if handed {
		b.store = b.d.patience
	}
	switch {
	case b.settled:
	case b.runtime != nil:
		b.fail(b.runtime)
	case b.put:
		// Nothing has happened: the loop looks at the call again.
	case !b.entered && b.ctx.Err() != nil && b.out.Status == tool.StatusFailed:
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
func (b *body) prepareAndRun(ctx context.Context) tool.Outcome {
	if err := b.prepare(ctx); err != nil {
		return tool.Resolve(tool.Execution{}, err)
	}
	return b.run(ctx)
}

// run takes the call through the layers.
func (b *body) run(ctx context.Context) tool.Outcome { return tool.Resolve(b.layers(ctx)) }

// inside enters the body of a tool without layers, which was admitted.
func (b *body) inside(ctx context.Context) tool.Outcome {
	return tool.Resolve(b.into(ctx, b.prepared.Call))
}

func (b *body) layers(ctx context.Context) (exec tool.Execution, err error) {
	defer func() {
		if p := recover(); p != nil {
			exec, err = tool.Execution{}, b.crashed(p)
		}
		err = b.after(err)
	}()
	exec, err = b.d.agent.Execute(ctx, b.prepared.Call, b.enter)
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
	return tool.After(b.c.Tool, b.c.Effect, err)
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
	if _, err := llm.Arguments(b.args); err != nil {
		return err
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
	prepare := d.agent.Tools().Prepare
	if c.Answer != nil && c.Answer.Mode != tool.ModeReenter {
		prepare = d.agent.Tools().PrepareAnswered
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
		answer = &tool.Answer{Pause: a.Pause, By: a.By, At: a.At}
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
			d.Arguments = b.d.agent.Tools().Derived(b.c.Tool, d.Arguments)
		}
		decisions = append(decisions, d)
	}
	return answer, decisions, nil
}

// enter is the innermost handler: it checks what was decided, claims the call, and enters the body; or it returns the answer
// that is the output.
func (b *body) enter(ctx context.Context, call tool.Call) (tool.Execution, error) {
	exec, admitted, err := b.admit(b.d.lasting, call)
	if !admitted {
		return exec, err
	}
	return b.into(ctx, call)
}

// admit checks what was decided, and claims the call. Store is how long the store is waited for.
func (b *body) admit(store context.Context, call tool.Call) (exec tool.Execution, admitted bool, err error) {
	if err := approved(b.prepared.Call.Decisions, b.prepared.Call.Arguments, call.Arguments); err != nil {
		return exec, false, err
	}
	if answered, err := b.begin(call.Tool); answered || err != nil {
		if answered {
			exec.Output = b.prepared.Call.Answer.Payload
		}
		return exec, false, err
	}
	if claimed, err := b.claim(store); err != nil {
		return exec, false, b.putOff(store, claimed, err)
	}
	return exec, true, nil
}

// begin notes that the call is about to be claimed, unless it is answered already, or must not be.
func (b *body) begin(name string) (answered bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false, fmt.Errorf("the layers around tool %s have returned: it is too late to enter it", name)
	}
	if a := b.c.Answer; a != nil && a.Mode != tool.ModeReenter {
		b.derived = true
		return true, nil
	}
	if b.ctx.Err() != nil { // a layer that didn't look at its own has taken its time
		return false, context.Cause(b.ctx)
	}
	if b.claimed && b.c.Effect.NeedsClaim() {
		return false, fmt.Errorf("tool %s was entered already, and must not be entered twice", name)
	}
	b.claimed, b.put = true, false
	return false, nil
}

// claim makes it durable that the body is about to be entered, where that is needed; and then looks again at all that could have
// changed while it waited. Claimed: it is, or may be, also where the body must not be entered.
func (b *body) claim(store context.Context) (claimed bool, err error) {
	if b.c.Effect.NeedsClaim() {
		if err := b.lease.Update(store, func(tx *session.Tx) error { return tx.Claim(b.c.ID) }); err != nil {
			return errors.Is(err, session.ErrGoesOn) || errors.Is(err, kvstore.ErrUncertain), err
		}
	}
	return true, b.lease.MayEnter(store, b.c.ID)
}

// into enters the tool's body, after the last look.
func (b *body) into(ctx context.Context, call tool.Call) (tool.Execution, error) {
	if err := b.lastLook(ctx); err != nil {
		return tool.Execution{}, b.putOff(b.d.lasting, true, err)
	}
	exec, err := b.prepared.Enter(ctx, call)
	if err == nil && !exec.Await.AsksAgain() {
		b.mu.Lock()
		b.returned = true
		b.mu.Unlock()
	}
	return exec, err
}

// lastLook is the last thing before code of the tool's own runs: it reports why it must not.
func (b *body) lastLook(ctx context.Context) error {
	if err := b.lease.Stands(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return fmt.Errorf("the layers around tool %s have returned: it is too late to enter it", b.c.Tool)
	case b.ctx.Err() != nil:
		return context.Cause(b.ctx)
	case ctx.Err() != nil:
		return &layerEnded{context.Cause(ctx)}
	}
	b.entered, b.derived = true, false
	return nil
}

// layerEnded is why a body is not entered whose own context lasts: a layer has ended the one that it passed on.
type layerEnded struct{ error }

func (e *layerEnded) Unwrap() error { return e.error }

// putOff takes back the claim of a body that was not entered after all. What then becomes of the call is for the loop: it begins anew, or
// settles as cancelled; a layer that has ended it itself says so. Where the claim can't be taken back, since the lease is lost, the next
// drive finds a call that is.
func (b *body) putOff(store context.Context, claimed bool, why error) error {
	b.mu.Lock()
	if b.entered || b.over { // by another next of the same layer; the layers have said what becomes of it
		b.mu.Unlock()
		return why
	}
	var layer *layerEnded
	b.claimed, b.put = false, !errors.As(why, &layer)
	if b.put && failsRun(why) && b.ctx.Err() == nil {
		b.runtime = why
	}
	b.mu.Unlock()
	if claimed && b.c.Effect.NeedsClaim() {
		was := b.c
		if err := b.lease.Update(store, func(tx *session.Tx) error { return tx.Unclaim(&was) }); err != nil && !errors.Is(err, session.ErrStale) {
			b.d.rn.options.Logger.Warn("a claim was not taken back", "session", b.d.session, "tool", b.c.Tool, "call", b.c.ID, "error", err)
		}
	}
	return why
}

// failsRun reports whether a body's not being entered is the store's failure, rather than what a run goes on, or ends, with.
func failsRun(why error) bool {
	for _, e := range []error{session.ErrFenced, session.ErrDeleted, session.ErrSettled, session.ErrUnknownCall, session.ErrCancelled, session.ErrGoesOn} {
		if errors.Is(why, e) {
			return false
		}
	}
	return true
}

// approved says whether the arguments that are about to run are those that were decided on: each decision is bound to those it
// was shown, and an edit takes their place for those that come after.
func approved(decisions []tool.Decision, asked, running json.RawMessage) error {
	if len(decisions) == 0 {
		return nil
	}
	current := tool.HashArguments(asked)
	for i, d := range decisions {
		switch {
		case !d.Approved:
			return tool.Denied(d.Reason)
		case i == 0 && d.Shown != current:
			current = d.Shown // a layer outside the gate changed them before they were shown
		case d.Shown != current:
			return interceptor.ErrChanged
		}
		if len(d.Arguments) > 0 {
			current = tool.HashArguments(d.Arguments)
		}
	}
	if tool.HashArguments(running) != current {
		return interceptor.ErrChanged
	}
	return nil
}

// settle commits what came of the call: its result, or its pause. What follows from what is stored rides with the next commit.
func (b *body) settle(ctx context.Context, out tool.Outcome) {
	if out.Err != nil {
		b.log(out.Err)
	}
	var err error
	if out.Status == tool.StatusPaused {
		err = b.pause(ctx, out)
	} else {
		err = b.result(ctx, out)
	}
	if err != nil {
		b.fail(err)
	}
}

// log tells the programmer what the model can't do anything about.
func (b *body) log(err error) {
	log := b.d.rn.options.Logger.With("session", b.d.session, "tool", b.c.Tool, "call", b.c.ID)
	var p *tool.PanicError
	if errors.As(err, &p) {
		log.Error("a tool panicked", "panic", p.Error(), "stack", string(p.Stack()))
	}
	if errors.Is(err, tool.ErrMayNotPause) {
		log.Error("a tool may not pause", "error", err)
	}
	if errors.Is(err, tool.ErrInvalidAwait) {
		log.Error("a pause makes no sense", "error", err)
	}
}

// result commits a final outcome.
func (b *body) result(ctx context.Context, out tool.Outcome) error {
	o := &session.Outcome{Status: statusOf(out.Status), Body: true}
	if out.Status == tool.StatusDenied {
		o.By = b.deniedBy()
	}
	if b.c.Begun() {
		out.Output = b.begunBefore(out)
	}
	if err := b.output(o, out); err != nil { // a layer made it
		return b.refuse(ctx, fmt.Errorf("what a layer made of %s can't be kept: %w", b.c.Tool, err))
	}
	failed := out.Status == tool.StatusFailed && b.entered
	commit := b.lease.Update
	if b.derived && out.Status == tool.StatusDone && len(out.Actions) == 0 {
		commit = b.lease.Ride
		o.By = b.c.Answer.By
	}
	b.d.outcomes.made(b.c.ID, out.Actions)
	err := commit(b.store, func(tx *session.Tx) error {
		settled := o
		if c := tx.Call(b.c.ID); failed && (ctx.Err() != nil || c != nil && c.Cancel != nil) {
			settled = b.stopped(tx, context.Cause(ctx))
		}
		if err := tx.Settle(b.c.ID, settled); err != nil {
			return err
		}
		if out.Status == tool.StatusFatal {
			tx.End(event.FinishFailed, "", out.Err.Error())
		}
		// Here, not after the commit: the loop may find the call settled as soon as it is.
		b.d.outcomes.put(b.c.ID, known{status: settled.Status, output: settled.Output.JSON(), by: settled.By})
		return nil
	})
	if err != nil {
		b.d.outcomes.forget(b.c.ID)
	}
	if out.Status == tool.StatusFatal {
		b.d.outcomes.end(out.Err)
	}
	return err
}

// begunBefore is what the model reads of a call whose work had begun before this attempt, which may not have come as far.
func (b *body) begunBefore(out tool.Outcome) json.RawMessage {
	refusal, refused := out.Err.(*tool.Refusal) // this tool's own; a wrapped one is another's
	switch {
	case refused:
		return tool.Text(session.OutdatedText(&b.c, refusal))
	case !b.entered && out.Status == tool.StatusDenied:
		return tool.Text(session.DeniedText(&b.c, tool.DeniedReason(out.Err)))
	case !b.entered && out.Status == tool.StatusFailed:
		return tool.Text(session.BegunText(&b.c, out.Err.Error()))
	}
	return out.Output
}

// deniedBy is who denied the call; nobody, where a layer did so by itself.
func (b *body) deniedBy() string {
	if b.prepared == nil { // what reads the arguments may deny them, too
		return ""
	}
	for _, d := range b.prepared.Call.Decisions {
		if !d.Approved {
			return d.By
		}
	}
	return ""
}

// stopped is how the call ends whose body was told to end, and did.
func (b *body) stopped(tx *session.Tx, cause error) *session.Outcome {
	by, why := "", errLeft.Error() // why else its context ended, a store that failed for one, is none of the model's business
	if c := tx.Call(b.c.ID); c != nil && c.Cancel != nil {
		by, why = c.Cancel.By, c.Cancel.Why
	} else if errors.Is(cause, errRunEnded) {
		by, why = tx.EndedBy()
	} else if errors.Is(cause, errCallCancelled) {
		why = cause.Error()
	}
	begun := b.c
	if b.entered {
		begun.Attempt = max(begun.Attempt, 1)
	}
	return session.CancelledOutcome(&begun, by, why, b.turn.opened)
}

func (b *body) output(o *session.Outcome, out tool.Outcome) (err error) {
	if o.Output, err = session.NewBlob(llm.CleanJSON(out.Output)); err != nil {
		return err
	}
	o.Actions, err = actionsBlob(out.Actions)
	o.Media = hasMedia(out.Actions)
	return err
}

func hasMedia(actions []tool.Action) bool {
	return slices.ContainsFunc(actions, func(a tool.Action) bool { return a.Media != nil })
}

func actionsBlob(actions []tool.Action) (*session.Blob, error) {
	if len(actions) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(actions)
	if err != nil {
		return nil, err
	}
	return session.NewBlob(b)
}

// pause commits a pause. A call that is being cancelled does not pause.
func (b *body) pause(ctx context.Context, out tool.Outcome) error {
	await, err := out.Await.Normalize()
	if err == nil {
		err = b.mayPause(&await, len(out.Actions) > 0)
	}
	if err != nil {
		b.log(err)
		return b.refuse(ctx, err)
	}
	h, err := b.hold(await)
	if err != nil {
		return err
	}
	if h.Actions, err = actionsBlob(out.Actions); err != nil {
		return err
	}
	h.Media = hasMedia(out.Actions)
	b.d.outcomes.made(b.c.ID, out.Actions)
	err = b.lease.Update(b.store, func(tx *session.Tx) error {
		if c := tx.Call(b.c.ID); c != nil && c.Status != session.Settled && (c.Cancel != nil || tx.Ending != nil) {
			return tx.Settle(c.ID, b.stopped(tx, errRunEnded))
		}
		return tx.Pause(b.c.ID, h)
	})
	if err != nil {
		b.d.outcomes.forget(b.c.ID)
	}
	return err
}

// refuse ends the call whose result, or pause, can't be taken.
func (b *body) refuse(ctx context.Context, err error) error {
	return b.result(ctx, tool.Resolve(tool.Execution{}, b.after(err)))
}

// hold makes a pause of what the tool or a layer asked for, in its normal form. Its error is the runtime's, not the tool's.
func (b *body) hold(await tool.Await) (h *session.Hold, err error) {
	h = &session.Hold{Await: await, Prompt: session.StringBlob(await.Prompt)}
	if h.Data, err = session.NewBlob(await.Data); err != nil {
		return nil, err
	}
	schema, checks := await.Schema, b.d.agent.Tools().Checks(b.c.Tool)
	switch {
	case await.Gate != "":
		schema = checks.Input // what edited arguments must fit
		if string(await.Arguments) != string(b.args) {
			h.Args, err = session.NewBlob(await.Arguments)
		}
	case len(schema) == 0 && await.Mode != tool.ModeReenter:
		schema = checks.Output
	}
	if err == nil {
		h.Schema, err = b.d.rn.store.PutSchema(b.store, schema)
	}
	return h, err
}

func statusOf(s tool.Status) event.Status {
	switch s {
	case tool.StatusDone:
		return event.Done
	case tool.StatusDenied:
		return event.Denied
	}
	return event.Failed
}
