package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// The handles of a session, as its calls and its callers reach them. What is
// done to a handle is done to its child, by the operations that any caller has.

// Handle returns a handle of the call's session.
func (h host) Handle(ctx context.Context, c tool.Call, name string) (tool.Handle, error) {
	rec, err := h.named(ctx, c, name)
	if err != nil {
		return tool.Handle{}, failure(ctx, err)
	}
	out, err := h.rn.handle(ctx, rec)
	h.seen.note(rec, &out)
	if err == nil && out.State == tool.HandleStopped && !out.Told {
		err = h.rn.knowsEnd(ctx, c.Session, &out)
	}
	return out, failure(ctx, err)
}

// knowsEnd makes sure that a session knows of the end of a handle, of which one
// of its calls is told: from then on the name is free.
func (rn *Runner) knowsEnd(ctx context.Context, sessionID string, h *tool.Handle) error {
	rec, err := rn.store.Handle(ctx, sessionID, h.Name)
	if err != nil || !rec.Open() || rec.Child != h.Session {
		return err
	}
	_, err = rn.store.Deliver(ctx, rec.Child)
	if errors.Is(err, session.ErrUnknownSession) {
		err = nil
	}
	return err
}

// Apply gives a handle input in the name of the session's agent.
func (h host) Apply(ctx context.Context, c tool.Call, name string, input json.RawMessage) error {
	in := Input{Handle: name, Value: input, Actor: h.actor, Delivery: c.ID}
	rec, err := h.acted(ctx, c, name)
	if err == nil {
		_, err = h.rn.apply(ctx, c.Session, rec, in, false)
	}
	return failure(ctx, err)
}

// Abort ends a handle in the name of the session's agent.
func (h host) Abort(ctx context.Context, c tool.Call, name string) error {
	rec, err := h.acted(ctx, c, name)
	if err == nil {
		err = h.rn.abort(ctx, rec, h.actor, "aborted")
	}
	return failure(ctx, err)
}

// Names lists the handles of the call's session.
func (h host) Names(ctx context.Context, c tool.Call) (names []string, err error) {
	for rec, err := range h.rn.store.AllHandles(ctx, c.Session) {
		if err != nil {
			return nil, failure(ctx, err)
		}
		names = append(names, rec.Name)
	}
	return names, nil
}

// handle returns a handle as it is just now. The child's own head tells the
// state, also where its end is still on the way to its parent. If the drive of
// the child has died, the handle is carried on first.
func (rn *Runner) handle(ctx context.Context, rec *session.Handle) (tool.Handle, error) {
	out, dead, err := rn.lookAt(ctx, rec)
	if err != nil || dead == 0 {
		return out, err
	}
	rn.awaitCarried(ctx, rec, dead)
	return rn.handleOf(ctx, rec)
}

// handleOf is handle, of the child that a record has. It waits for no drive.
func (rn *Runner) handleOf(ctx context.Context, rec *session.Handle) (tool.Handle, error) {
	out, _, err := rn.lookAt(ctx, rec)
	return out, err
}

// lookAt returns the handle that a record has as it is just now. If no drive
// has its child, which has work, it has one begin; see revive for dead.
func (rn *Runner) lookAt(
	ctx context.Context, rec *session.Handle,
) (out tool.Handle, dead int, err error) {
	st, err := rn.store.Load(ctx, rec.Child)
	if err == nil {
		dead = rn.revive(st)
	}
	out, err = rn.handleIn(ctx, rec, st, err)
	return out, dead, err
}

// handleIn is the handle that a record has, by its child's head, or by the error
// of reading that.
func (rn *Runner) handleIn(
	ctx context.Context, rec *session.Handle, st *session.State, err error,
) (out tool.Handle, _ error) {
	out = shownBy(rec)
	switch {
	case errors.Is(err, session.ErrUnknownSession), err == nil && !st.Deleted.IsZero():
		goneHandle(&out, rec)
		return out, nil
	case err != nil:
		return out, err
	}
	c := st.Call(rec.Call)
	if c == nil {
		return out, fmt.Errorf("%w: session %q has no call %s", session.ErrCorrupt, st.ID, rec.Call)
	}
	if err := rn.content(ctx, &out, st, c); err != nil {
		return out, err
	}
	switch {
	case c.Status == session.Settled:
		return out, rn.stoppedHandle(ctx, &out)
	case st.Halt != nil && st.Ending == nil && st.Halt.Finish != event.FinishInterrupted:
		out.State, out.Status, out.Ended = tool.HandleStopped, string(c.GivenUp()), st.Halt.At
		out.Output = session.StringBlob("It was given up: " + st.Halt.Why).JSON()
	case c.Status == session.Pending && session.WaitsForWord(c.Pause.Reason):
		out.State = tool.HandleWaiting
		asked, err := rn.store.Asked(ctx, st)
		if err != nil {
			return out, err
		}
		p, err := rn.store.Pause(ctx, st, c, session.Arguments(asked, c.ID))
		out.Pause = &p
		return out, err
	case out.Content.Question != nil:
		out.State = tool.HandleWaiting
	}
	return out, nil
}

// goneHandle adds how a handle stands whose session is gone. What it came to is
// not known any more, whatever that was.
func goneHandle(out *tool.Handle, rec *session.Handle) {
	if !rec.Open() {
		stoppedBy(out, rec, "is no longer kept: its session was deleted")
		return
	}
	out.State, out.Status = tool.HandleStopped, string(event.Cancelled)
	out.Output = session.StringBlob("Its session was deleted.").JSON()
}

// stoppedHandle adds how a handle ended.
func (rn *Runner) stoppedHandle(ctx context.Context, out *tool.Handle) error {
	r, _, err := rn.store.Record(ctx, out.Session, out.Call)
	if err != nil {
		return err
	}
	out.State, out.Status, out.Actor = tool.HandleStopped, string(r.Shown()), r.Actor
	out.Ended = r.End()
	out.Failure = r.Failure
	out.Output, err = rn.store.Value(ctx, out.Session, r.Output)
	return err
}

// apply gives a handle input: an event for its running call, or the answer to
// its question. What was given before under the same id is a duplicate,
// whatever the handle has come to since. Anyone reports whether the actor may
// answer any question, as a person's.
func (rn *Runner) apply(
	ctx context.Context, sessionID string, rec *session.Handle, in Input, anyone bool,
) (rc session.Receipt, err error) {
	h, err := rn.handle(ctx, rec)
	if err != nil {
		return rc, err
	}
	before, err := rn.store.HasMail(ctx, h.Session, h.Call, tool.InputEvent, in.Delivery)
	switch {
	case err != nil:
		return rc, err
	case before: // its receipt tells what it was
		return rn.feed(ctx, &h, in)
	case h.State == tool.HandleStopped:
		return rc, &HandleError{ErrHandleStopped, handles.NothingToApply(in.Handle)}
	case h.State == tool.HandleWaiting && h.Pause == nil && (anyone || h.Content.Question.Assistant):
		rc, err = rn.answerLive(ctx, &h, in, anyone)
	case h.State == tool.HandleWaiting && h.Pause != nil &&
		(anyone || h.Pause.Await.Reason == tool.ReasonAssistant):
		rc, err = rn.answerFor(ctx, &h, in)
	case h.State == tool.HandleWaiting:
		return rc, &HandleError{ErrNotYours, handles.NotYours(in.Handle) + " It waits for " +
			decider(h.Pause) + "."}
	default:
		if err = rn.checkInput(ctx, sessionID, &h, in.Value); err == nil {
			rc, err = rn.feed(ctx, &h, in)
		}
	}
	if err == nil {
		rn.attend(h.Session)
	}
	return rc, err
}

// answerFor answers the pause of a handle. A text that doesn't fit may be the
// JSON that does.
func (rn *Runner) answerFor(
	ctx context.Context, h *tool.Handle, in Input,
) (session.Receipt, error) {
	value, err := handles.Answer(in.Value, h.Pause.Await.Schema)
	var hash string
	if err == nil {
		hash, err = hashContent(modeltext.CleanJSON(in.Value))
	}
	if err != nil {
		return session.Receipt{}, &HandleError{session.ErrInvalidResumePayload, err.Error()}
	}
	answer := Complete(h.Pause.ID, in.Actor, value)
	answer.Delivery = in.Delivery
	give := func(tx *session.Tx, a *session.Incoming, fits session.Fits) (session.Receipt, error) {
		return tx.Give(a, hash, fits)
	}
	return only(rn.answered(ctx, h.Session, []Resumption{answer}, give))
}

// only returns the receipt of the one thing that was delivered.
func only(r *Resumed, err error) (rc session.Receipt, _ error) {
	if r != nil && len(r.Receipts) == 1 {
		rc = r.Receipts[0]
	}
	return rc, err
}

// The refusals of what is done to a handle.
var (
	ErrHandleStopped = errors.New("runner: the handle has stopped")
	ErrNotYours      = errors.New("runner: the handle waits for another one's answer")
	ErrNoInput       = errors.New("runner: the handle takes no input while it runs")
)

// HandleError refuses what is done to a handle, in words for the model. Err is
// one of those above.
type HandleError struct {
	Err  error
	Text string
}

func (e *HandleError) Error() string { return e.Text }
func (e *HandleError) Unwrap() error { return e.Err }

// decider names who answers a pause, for the model.
func decider(p *tool.Pause) string {
	switch {
	case p == nil: // its body runs, and asks
	case p.Await.Gate != "":
		return "a person's approval"
	case p.Await.Reason == tool.ReasonUnknown:
		return "an operator's word"
	}
	return "a person's answer"
}

// abort ends a handle. One that waits stops at once, and a body that runs is
// told to end.
func (rn *Runner) abort(
	ctx context.Context, rec *session.Handle, by Actor, why string,
) error {
	_, err := rn.Cancel(ctx, rec.Child, rec.Call, by, why)
	if isAny(err, session.ErrSettled, session.ErrDeleted, session.ErrUnknownSession,
		session.ErrResumeConflict) {
		return nil // it has stopped, or is being stopped, by another's word
	}
	if err == nil {
		rn.attend(rec.Child)
	}
	return err
}
