package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

// How an attempt's outcome is committed: by the loop's goroutine, if the
// attempt was handed to it, and otherwise by the attempt's own.

// conclude commits what came of the call: its result, or its pause. What
// follows from what is stored rides with the next commit.
func (a *attempt) conclude(to *committer) {
	if a.out.Err != nil {
		a.report(a.out.Err)
	}
	var err error
	if a.out.Status == toolbox.Paused {
		err = a.pause(to)
	} else {
		err = a.result(to, a.out)
	}
	a.tried(err)
}

// report logs an error that the programmer can mend, and the model can't.
func (a *attempt) report(err error) {
	var p *tool.PanicError
	if errors.As(err, &p) {
		a.log().Error("a tool panicked", "panic", p.Error(), "stack", string(p.Stack()))
	}
	if errors.Is(err, tool.ErrMayNotPause) {
		a.log().Error("a tool may not pause", "error", err)
	}
	if errors.Is(err, tool.ErrInvalidAwait) {
		a.log().Error("a pause makes no sense", "error", err)
	}
}

// pause commits a pause. A call that is being cancelled does not pause.
func (a *attempt) pause(to *committer) error {
	await, err := a.out.Await.Normalize()
	if err == nil {
		err = mayPause(&a.call, &await, len(a.out.Actions) > 0, a.rn.store.Now())
	}
	if err != nil {
		a.report(err)
		return a.refuse(to, err)
	}
	h, err := a.hold(to.waiting, &a.call, a.args, await)
	if err != nil {
		return err
	}
	if h.Actions, err = actionsBlob(a.out.Actions); err != nil {
		return err
	}
	if await.Gate == "" {
		if h.Undo, err = a.undoable(to.waiting, a.door.arguments); err != nil {
			return err
		}
	}
	h.Media = hasMedia(a.out.Actions)
	if h.Shown = shows(a.out.Handle); a.out.Handle != nil {
		if h.Begins, err = a.begins(a.out.Handle); err != nil {
			return err
		}
	}
	switch h.Awaited, err = a.awaitedHandles(await.Handles); {
	case a.beginsAnew(err):
		return err
	case err != nil:
		return a.refuse(to, err)
	}
	if h.AwaitedList, err = listBlob(h.Awaited); err != nil {
		return err
	}
	if w := await.Handles; w != nil && w.Scope != tool.SessionScope {
		a.own.lease.View(func(st *session.State) { h.Scope = session.WaitScope(w.Scope, st.User) })
	}
	a.product.made(a.out.Actions)
	var root, child string
	judges := make([]judge, 1)
	pause := func(tx *session.Tx) error {
		if err := a.outrun(tx); err != nil {
			return err
		}
		c := tx.Call(a.call.ID)
		if c != nil && c.Pauses != a.call.Pauses { // by an earlier try, whose fate was unknown
			return fmt.Errorf("%w: call %s has paused already", session.ErrStale, c.ID)
		}
		if c != nil && c.Status != session.Settled && (c.Cancel != nil || tx.Ending != nil) {
			return tx.Abandon(c.ID, h, a.stopped(tx, errRunEnded))
		}
		h.Fits = judges[0].fits(to.waiting, a.rn, tx.Agent) // what was kept for its key
		err := tx.Pause(a.call.ID, h)
		if err == nil {
			root, child = tx.Root(), c.Child
		}
		return err
	}
	err = judged(judges, func() error { return to.commit(pause) })
	switch {
	case errors.Is(err, session.ErrTooDeep):
		a.product.forget()
		return a.result(to, toolbox.Resolve(tool.Execution{}, fmt.Errorf("the agent %s was not "+
			"begun: %w. Do not call it again from here", await.Child.Agent, err)))
	case isAny(err, session.ErrUsedUp, session.ErrNameTaken):
		// no child was made
		a.product.forget()
		return a.refuse(to, err)
	case err != nil:
		a.product.forget()
	case child != "" && a.rn.agents[await.Child.Agent] != nil:
		a.rn.children.start(root, child)
	default:
		a.begun(h.Begins)
	}
	return err
}

// refuse ends the call with an error: its result, or its pause, can't be taken.
func (a *attempt) refuse(to *committer, err error) error {
	return a.result(to, toolbox.Resolve(tool.Execution{}, a.after(err)))
}

// result commits a final outcome.
func (a *attempt) result(to *committer, out toolbox.Outcome) error {
	o := &session.Outcome{Status: statusOf(out.Status), Body: true, HandTo: out.HandTo}
	if a.door.entered {
		o.Ran = session.Ran{NS: int64(a.product.ran()),
			TimedOut: out.Status == toolbox.Failed && errors.Is(out.Err, tool.ErrTimeout)}
	}
	if out.Status == toolbox.Denied {
		o.Actor = a.deniedBy()
	}
	if a.call.Begun() {
		out.Output = a.begunBefore(out)
	}
	if err := fill(o, out); err != nil { // a layer made it
		err = fmt.Errorf("what a layer made of %s can't be kept: %w", a.call.Tool, err)
		return a.refuse(to, err)
	}
	o.Shown = shows(out.Handle)
	if out.Status == toolbox.Failed {
		o.Failure = handles.Told(out.Err)
	}
	begins, err := a.begins(out.Handle)
	if err != nil {
		return err
	}
	o.Begins = begins
	failed := out.Status == toolbox.Failed && a.door.entered
	settling := func(tx *session.Tx) error {
		if err := a.outrun(tx); err != nil {
			return err
		}
		settled := o
		if c := tx.Call(a.call.ID); failed && (a.cut != nil || c != nil && c.Cancel != nil) {
			settled = a.stopped(tx, a.cut)
			settled.Ran.NS = o.Ran.NS
		}
		if err := tx.Settle(a.call.ID, settled); err != nil {
			return err
		}
		if content, here := a.rn.produced.at(callName{a.session, a.call.ID}); here {
			content.Question = nil // what has ended asks nothing
			tx.PutContent(a.call.ID, &content)
		}
		if out.Status == toolbox.Fatal {
			tx.End(event.FinishFailed, "", out.Err.Error())
		}
		// Here, not after the commit: the loop may find the call settled as
		// soon as it is.
		a.product.ends(known{
			status: settled.Status, output: settled.Output.JSON(), by: settled.Actor,
			ran: settled.Ran,
		})
		return nil
	}
	a.product.made(out.Actions)
	follows := out.Status == toolbox.Done && len(out.Actions) == 0 // from what is stored
	switch {
	case follows && a.door.derived:
		o.Actor = a.call.Answer.Actor
		err = to.ride(settling)
	case follows && a.call.Answer != nil && a.call.Answer.Interrupted:
		err = to.ride(func(tx *session.Tx) error {
			// What rode before may be void since: then an end may have counted.
			if c := tx.Call(a.call.ID); c != nil && (c.Answer == nil || !c.Answer.Interrupted) {
				return fmt.Errorf("%w: call %s was not interrupted", session.ErrStale, a.call.ID)
			}
			return settling(tx)
		})
	default:
		err = to.commit(settling)
	}
	switch {
	case isAny(err, session.ErrUsedUp, session.ErrTooDeep, session.ErrNameTaken):
		a.product.forget()
		return a.refuse(to, err)
	case err != nil:
		a.product.forget()
	default:
		a.begun(begins)
		a.rn.produced.ended(callName{a.session, a.call.ID})
	}
	if out.Status == toolbox.Fatal && !session.IsOutage(err) {
		a.product.endsRun(out.Err)
	}
	return err
}

// begunBefore returns what the model reads of a call whose work had begun
// before this attempt. The attempt itself may not have entered the body.
func (a *attempt) begunBefore(out toolbox.Outcome) json.RawMessage {
	refusal, refused := out.Err.(*tool.Refusal) // this tool's own; a wrapped one is another's
	switch {
	case refused:
		return toolbox.Text(session.OutdatedText(&a.call, refusal))
	case !a.door.entered && out.Status == toolbox.Denied:
		return toolbox.Text(session.DeniedText(&a.call, toolbox.DenialReason(out.Err)))
	case !a.door.entered && out.Status == toolbox.Failed:
		return toolbox.Text(session.BegunText(&a.call, out.Err.Error()))
	}
	return out.Output
}

// deniedBy returns the actor that denied the call; empty, if a layer denied it
// by itself.
func (a *attempt) deniedBy() string {
	if a.prepared == nil { // what reads the arguments may deny them, too
		return ""
	}
	for _, d := range a.prepared.Call.Decisions {
		if !d.Approved {
			return d.Actor
		}
	}
	return ""
}

// stopped returns how the call ends whose body was told to end, and ended.
func (a *attempt) stopped(tx *session.Tx, cause error) *session.Outcome {
	// The model isn't told of any other reason, such as a store that failed.
	by, why := "", errLeft.Error()
	if c := tx.Call(a.call.ID); c != nil && c.Cancel != nil {
		by, why = c.Cancel.Actor, c.Cancel.Why
	} else if errors.Is(cause, errRunEnded) {
		by, why = tx.EndedBy()
	} else if errors.Is(cause, errCallCancelled) {
		why = cause.Error()
	}
	begun := a.call
	if a.door.entered {
		begun.Attempt = max(begun.Attempt, 1)
	}
	return session.CancelledOutcome(&begun, by, why, a.turn.opened)
}

// fill puts what came of a body into the outcome that is stored.
func fill(o *session.Outcome, out toolbox.Outcome) (err error) {
	if o.Output, err = session.NewBlob(modeltext.CleanJSON(out.Output)); err != nil {
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

func statusOf(s toolbox.Status) event.Status {
	switch s {
	case toolbox.Done:
		return event.Done
	case toolbox.Denied:
		return event.Denied
	}
	return event.Failed
}
