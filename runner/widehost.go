package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/tool"
)

// Wait handles of wider scopes, as calls reach them. The Authorizer is asked,
// since they are other sessions' as well.

// asks asks the Authorizer for what a call does to a wait handle, and returns
// which that is.
func (h host) asks(
	ctx context.Context, kind OperationKind, c tool.Call, scope tool.WaitScope, id string,
) (wide.ID, error) {
	op := Operation{Kind: kind, Actor: h.actor, Session: c.Session, Call: c.ID, User: c.User,
		Tool: c.Tool, Wait: WaitName{Scope: scope, User: c.User, ID: id}}
	if scope != tool.UserScope {
		op.Wait.User = ""
	}
	return op.Wait.id(), h.rn.authorize(ctx, op)
}

// createWide makes a handle. A call that is cut off finds the one that it has
// made.
func (h host) createWide(ctx context.Context, c tool.Call, n waits.New) (w tool.Wait, err error) {
	id, err := h.asks(ctx, OpCreateWait, c, n.Scope, n.ID)
	if err != nil {
		return w, err
	}
	made, _, err := h.rn.wide.Create(ctx, id, wide.NewHandle{Type: string(n.Type),
		Metadata: n.Metadata, Timeout: n.Timeout,
		Maker: wide.Maker{Session: c.Session, Call: c.ID, Actor: string(h.actor)}})
	switch {
	case errors.Is(err, wide.ErrTaken):
		return w, &waits.DuplicateError{ID: n.ID}
	case err != nil:
		return w, err
	}
	if w = wideWait(made); n.Type == tool.HookWait {
		w.Token = h.mint(waitToken(h.rn, made))
	}
	return w, nil
}

// lookAtWide returns handles.
func (h host) lookAtWide(
	ctx context.Context, c tool.Call, scope tool.WaitScope, ids []string,
) (all []tool.Wait, err error) {
	for _, name := range ids {
		id, err := h.asks(ctx, OpWait, c, scope, name)
		if err != nil {
			return nil, err
		}
		got, err := h.rn.wide.Get(ctx, id)
		if err != nil {
			return nil, h.unknownWide(ctx, c, scope, name, err)
		}
		all = append(all, wideWait(got))
	}
	return all, nil
}

// unknownWide returns the error of a look at a handle. If there is none of the
// name, it has some that there are, as far as the session may list them.
func (h host) unknownWide(
	ctx context.Context, c tool.Call, scope tool.WaitScope, name string, err error,
) error {
	if !isAny(err, wide.ErrUnknown) && !isType[*waits.UnknownError](err) {
		return err
	}
	unknown := &waits.UnknownError{ID: name, Unlisted: true}
	id, err := h.asks(ctx, OpWaits, c, scope, "")
	if errors.Is(err, ErrNotAllowed) {
		return unknown
	}
	if err != nil {
		return err
	}
	p, err := h.rn.wide.List(ctx, id.Scope, wide.Filter{})
	if err != nil {
		return err
	}
	unknown.Unlisted = false
	for _, h := range p.Handles {
		unknown.Known = append(unknown.Known, h.Name)
	}
	return unknown
}

// completeWide ends a handle in the name of the session's agent.
func (h host) completeWide(
	ctx context.Context, c tool.Call, scope tool.WaitScope, name string, end waits.End,
) (w tool.Wait, err error) {
	id, err := h.mayCompleteWide(ctx, c, scope, name)
	if err != nil {
		return w, err
	}
	w, err = h.rn.completeWide(ctx, id, end.Result, end.Error, h.actor)
	if err != nil {
		err = h.unknownWide(ctx, c, scope, name, err)
	}
	return w, err
}

// mayCompleteWide refuses to end a handle that no model may end, and returns
// which it is.
func (h host) mayCompleteWide(
	ctx context.Context, c tool.Call, scope tool.WaitScope, name string,
) (wide.ID, error) {
	id, err := h.asks(ctx, OpCompleteWait, c, scope, name)
	if err != nil {
		return id, err
	}
	got, err := h.rn.wide.Get(ctx, id)
	switch {
	case err != nil:
		return id, h.unknownWide(ctx, c, scope, name, err)
	case got.Permits != nil:
		return id, &waits.InvalidError{
			Err: fmt.Errorf("%q gives permits to calls, and no model ends it", name)}
	}
	return id, nil
}

// completeWide ends a handle.
func (rn *Runner) completeWide(
	ctx context.Context, id wide.ID, result json.RawMessage, text string, actor Actor,
) (w tool.Wait, err error) {
	h, _, err := rn.wide.Complete(ctx, id, wide.Outcome{Result: result, Error: text, Actor: string(actor)})
	if other, is := errors.AsType[*wide.EndedError](err); is {
		return wideWait(other.Handle), &waits.ConflictError{First: wideWait(other.Handle)}
	}
	if errors.Is(err, wide.ErrUnknown) {
		return w, &waits.UnknownError{ID: id.Name, Unlisted: true}
	}
	if err != nil {
		return w, err
	}
	return wideWait(h), nil
}

// listWide returns a page of the handles of a scope.
func (h host) listWide(ctx context.Context, c tool.Call, f waits.Filter) (p waits.Page, err error) {
	id, err := h.asks(ctx, OpWaits, c, f.Scope, "")
	if err != nil {
		return p, err
	}
	return h.rn.listWide(ctx, id.Scope, f)
}

func (rn *Runner) listWide(ctx context.Context, scope string, f waits.Filter) (p waits.Page, err error) {
	counts, err := rn.wide.Counts(ctx, scope)
	if err != nil {
		return p, err
	}
	p.ByStatus, p.ByType = map[tool.WaitStatus]int{}, map[tool.WaitType]int{}
	for _, c := range counts {
		kind, status := tool.WaitType(c.Type), tool.WaitStatus(c.Status)
		p.Total, p.ByStatus[status] = p.Total+c.Now, p.ByStatus[status]+c.Now
		p.ByType[kind] += c.Now
		if (f.Status == "" || f.Status == status) && (f.Type == "" || f.Type == kind) {
			p.Filtered += c.Now
		}
	}
	got, err := rn.wide.List(ctx, scope, wide.Filter{Status: string(f.Status), Type: string(f.Type),
		Limit: f.Limit, Cursor: f.Cursor})
	if err != nil {
		return p, err
	}
	for _, h := range got.Handles {
		p.Waits = append(p.Waits, wideWait(h))
	}
	p.Next = got.Next
	return p, nil
}

// wideWait returns a handle as tools and programs see it.
func wideWait(h *wide.Handle) tool.Wait {
	w := tool.Wait{ID: h.Name, Type: tool.WaitType(h.Type), Status: tool.WaitStatus(h.Status()),
		Metadata: h.Metadata, Start: h.Created, Deadline: h.Deadline}
	if h.Progress != nil {
		w.Progress, w.ProgressAt = h.Progress.Value, h.Progress.At
	}
	if p := h.Permits; p != nil {
		w.Permits = &tool.WaitPermits{Most: p.Most, Held: p.Held, Queued: p.Queued}
	}
	if e := h.End; e != nil {
		w.End, w.Result, w.Error, w.Actor = e.At, e.Result, e.Error, e.Actor
		if w.Status == tool.WaitTimeout {
			w.Error = timedOut(&w)
		}
	}
	return w
}

// Permit returns how a call stands to the permits of a handle.
func (h host) Permit(
	ctx context.Context, c tool.Call, scope tool.WaitScope, name string,
) (p waits.Permit, err error) {
	st, err := h.rn.store.Load(ctx, c.Session)
	if err != nil {
		return p, failureBeforeBody(ctx, err)
	}
	in := session.WaitScope(scope, c.User)
	of := func(p session.HeldPermit) bool { return p.Scope == in && p.Name == name }
	if call := st.Call(c.ID); call != nil {
		p.Held = slices.ContainsFunc(call.Permits, of)
		p.GivenBack = call.Answer != nil && slices.ContainsFunc(call.Answer.GivenBack, of)
	}
	if p.Held {
		p.Open = true
		return p, nil
	}
	got, err := h.rn.wide.Get(ctx, wide.ID{Scope: in, Name: name})
	if errors.Is(err, wide.ErrUnknown) {
		p.Open = true // it is made by the claim
		return p, nil
	}
	p.Open = err == nil && got.End == nil && got.Permits != nil
	return p, failureBeforeBody(ctx, err)
}

// ReleasePermit gives back a permit that a call has, before the call is over.
func (h host) ReleasePermit(ctx context.Context, c tool.Call, scope tool.WaitScope, name string) error {
	in := session.WaitScope(scope, c.User)
	return failure(ctx, h.rn.store.ReleasePermit(ctx, c.Session, c.ID, in, name))
}
