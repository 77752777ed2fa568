package runner

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// Wait handles of a session: each is a child of one call, which waits for an
// answer from outside, for an agent, or for its time.

// createWait returns a handle in the making. It is made with the commit that
// stores the call's result.
func (h host) createWait(
	ctx context.Context, c tool.Call, n waits.New,
) (w tool.Wait, step *tool.HandleStep, err error) {
	switch rec, err := h.rn.store.Handle(ctx, c.Session, n.ID); {
	case err == nil && rec.Wait != nil:
		return w, nil, &waits.DuplicateError{ID: n.ID}
	case err == nil && rec.Open():
		return w, nil, &waits.DuplicateError{ID: n.ID, Tool: rec.Tool}
	case err == nil: // the name of a handle that has stopped is free
	case !errors.Is(err, session.ErrUnknownHandle):
		return w, nil, err
	}
	w = tool.Wait{ID: n.ID, Type: n.Type, Status: tool.WaitPending, Metadata: n.Metadata,
		Start: h.rn.store.Now(), Session: session.HandleID(c.ID), Call: session.WaitCall(c.ID)}
	if n.Timeout > 0 {
		w.Deadline = w.Start.Add(n.Timeout)
	}
	if n.Type == tool.HookWait {
		w.Token = h.mint(Token{Session: w.Session, Call: w.Call, Pause: 1,
			Permits: []tool.Permit{tool.PermitComplete, tool.PermitFail, tool.PermitProgress},
			Expires: h.turn.asked.Add(h.rn.options.TokenLifetime).Unix()})
	}
	return w, &tool.HandleStep{Name: n.ID, Begin: slices.Clone(c.Arguments), Wait: &tool.WaitStep{
		Type: w.Type, Metadata: w.Metadata, Start: w.Start, Deadline: w.Deadline}}, nil
}

// newWait returns the wait handle that a call makes. The id of its call is known
// before: a token may have it.
func (a *attempt) newWait(step *tool.HandleStep) (*session.NewHandle, error) {
	n, err := a.newHandle(a.own.waiting, session.WaitCall(a.call.ID), step.Name, a.call.Tool,
		step.Begin)
	if err != nil {
		return nil, err
	}
	n.Call.Action = session.ActionWait
	w := step.Wait
	n.Wait = &session.Wait{Type: w.Type, Start: w.Start.UTC(), Metadata: w.Metadata}
	if !w.Deadline.IsZero() {
		n.Wait.Deadline = w.Deadline.UTC()
	}
	return n, nil
}

// waitRecord returns what the call's session keeps of a wait handle. A call that
// has waited means the handle that it has waited for.
func (h host) waitRecord(ctx context.Context, c tool.Call, id string) (*session.Handle, error) {
	rec, err := h.rn.store.Handle(ctx, c.Session, id)
	if err == nil && rec.Wait != nil {
		return rec, nil
	}
	if err != nil && !errors.Is(err, session.ErrUnknownHandle) {
		return nil, err
	}
	unknown := &waits.UnknownError{ID: id}
	for rec, err := range h.rn.store.AllHandles(ctx, c.Session) {
		if err != nil {
			return nil, err
		}
		if rec.Wait != nil {
			unknown.Known = append(unknown.Known, rec.Name)
		}
	}
	return nil, unknown
}

// lookAtWait returns a handle as it is just now. Of its end the session knows
// then, too.
func (h host) lookAtWait(ctx context.Context, c tool.Call, id string) (w tool.Wait, err error) {
	rec, err := h.waitRecord(ctx, c, id)
	if err != nil {
		return w, err
	}
	if err := h.rn.applyDeadline(ctx, rec); err != nil {
		return w, err
	}
	now, err := h.rn.handle(ctx, rec)
	h.seen.note(rec, &now)
	if err == nil && now.State == tool.HandleStopped && !now.Told {
		err = h.rn.knowsEnd(ctx, c.Session, &now)
	}
	if err != nil {
		return w, err
	}
	w = waitOf(rec, &now)
	return w, h.rn.withProgress(ctx, &w)
}

// withProgress adds to an open handle what was told of it last by those outside:
// as the progress of its call. A call of its parent may have told another one.
func (rn *Runner) withProgress(ctx context.Context, w *tool.Wait) error {
	if w.Ended() {
		return nil
	}
	p, err := rn.store.LatestProgress(ctx, w.Session, w.Call)
	if err != nil || p == nil || p.At.Before(w.ProgressAt) {
		return err
	}
	w.ProgressAt, p.At = p.At, time.Time{}
	w.Progress, err = json.Marshal(p)
	return err
}

// applyDeadline ends a handle whose time is over, and to which no drive has come
// yet. Each commit of a session applies its deadlines first.
func (rn *Runner) applyDeadline(ctx context.Context, rec *session.Handle) error {
	d := rec.Wait.Deadline
	if !rec.Open() || d.IsZero() || d.After(rn.store.Now()) {
		return nil
	}
	err := rn.store.Update(ctx, rec.Child, func(*session.Tx) error { return nil })
	if isAny(err, session.ErrUnknownSession, session.ErrDeleted) {
		return nil // it is shown as such
	}
	return err
}

// waitOf returns a wait handle, by its record and as it is now.
func waitOf(rec *session.Handle, now *tool.Handle) tool.Wait {
	w := shownWait(rec)
	if now.State != tool.HandleStopped {
		w.Status, w.End = tool.WaitPending, time.Time{}
		return w
	}
	w.Status, w.End, w.Actor = session.WaitStatus(event.Status(now.Status)), now.Ended, now.Actor
	switch w.Status {
	case tool.WaitCompleted:
		w.Result = now.Output
	case tool.WaitTimeout:
		w.Error = timedOut(&w)
	default:
		if json.Unmarshal(now.Output, &w.Error) != nil {
			w.Error = string(now.Output)
		}
	}
	return w
}

// shownWait is what a record alone tells of a wait handle.
func shownWait(rec *session.Handle) tool.Wait {
	return tool.Wait{ID: rec.Name, Type: rec.Wait.Type, Status: session.WaitStatus(rec.Status),
		Metadata: slices.Clone(rec.Wait.Metadata), Start: rec.Wait.Start,
		Progress: slices.Clone(rec.Wait.Progress), ProgressAt: rec.Wait.ProgressAt,
		Deadline: rec.Wait.Deadline, End: rec.WaitEnd(), Session: rec.Child, Call: rec.Call,
		Told: rec.Told}
}

// completeWait ends a handle: it answers the pause of its call.
func (h host) completeWait(
	ctx context.Context, c tool.Call, id string, end waits.End,
) (w tool.Wait, err error) {
	rec, err := h.waitRecord(ctx, c, id)
	if err != nil {
		return w, err
	}
	pause := session.PauseID(rec.Call, 1)
	answer := Complete(pause, h.actor, end.Result)
	if len(end.Result) == 0 {
		answer = Fail(pause, h.actor, end.Error, false)
	}
	answer.Delivery = c.ID
	rc, err := only(h.rn.Resume(ctx, rec.Child, answer))
	if isAny(err, session.ErrResumeConflict, session.ErrSettled) {
		w, err = h.lookAtWait(ctx, c, id)
		if err == nil {
			err = &waits.ConflictError{First: w}
		}
		return w, err
	}
	if err != nil {
		return w, err
	}
	h.rn.attend(rec.Child)
	h.awaitEnd(ctx, c.Session, rec)
	w, err = h.lookAtWait(ctx, c, id)
	if err == nil && !w.Ended() { // it is stored, and takes effect later
		w.Status, w.Result, w.Error, w.End = tool.WaitCompleted, end.Result, end.Error, rc.At
		if len(end.Result) == 0 {
			w.Status = tool.WaitFailed
		}
	}
	return w, err
}

// endsWithin is how long a call that has ended a handle waits for the end to
// take effect.
const endsWithin = 5 * time.Second

// awaitEnd waits until a handle that was ended has stopped, so that the calls
// that come next see it. It waits a moment only: the end is stored.
func (h host) awaitEnd(ctx context.Context, sessionID string, rec *session.Handle) {
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	watch := handleWatch{h.rn, map[string]*session.Handle{rec.Name: rec}, map[string]tool.Handle{}}
	_ = watch.until(ctx, sessionID, &tool.HandleWait{All: []string{rec.Name}})
}

// listWaits returns a page of a session's wait handles, by their names. The
// counts stand in the head. What is overdue is shown as ended, and nothing is
// written.
func (rn *Runner) listWaits(
	ctx context.Context, sessionID string, f waits.Filter,
) (p waits.Page, err error) {
	st, err := rn.store.Load(ctx, sessionID)
	if err != nil {
		return p, err
	}
	now := rn.store.Now()
	counts, err := rn.store.Waits(ctx, st, now)
	if err != nil {
		return p, err
	}
	p.ByStatus, p.ByType = map[tool.WaitStatus]int{}, map[tool.WaitType]int{}
	for _, n := range counts {
		p.Total += n.N
		p.ByStatus[n.Status] += n.N
		p.ByType[n.Type] += n.N
		if (f.Status == "" || f.Status == n.Status) && (f.Type == "" || f.Type == n.Type) {
			p.Filtered += n.N
		}
	}
	page, more, err := rn.store.WaitHandles(ctx, st,
		session.WaitFilter{Type: f.Type, Status: f.Status, After: f.Cursor}, f.Limit, now)
	if err != nil {
		return p, err
	}
	for i := range page {
		w := shownWait(&page[i])
		if err := rn.withProgress(ctx, &w); err != nil {
			return p, err
		}
		p.Waits = append(p.Waits, w)
	}
	if more {
		p.Next = page[len(page)-1].Name
	}
	return p, nil
}
