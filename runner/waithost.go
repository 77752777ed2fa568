package runner

import (
	"context"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// How the tools of package tool/wait reach the runner. Handles of a session are
// its children, see waits.go; those of wider scopes are no session's children.

var _ waits.Host = host{}

// CreateWait makes a wait handle.
func (h host) CreateWait(
	ctx context.Context, c tool.Call, n waits.New,
) (w tool.Wait, step *tool.HandleStep, err error) {
	if n.Scope != tool.SessionScope {
		w, err = h.createWide(ctx, c, n)
		return w, nil, waitFailure(ctx, err)
	}
	w, step, err = h.createWait(ctx, c, n)
	return w, step, waitFailure(ctx, err)
}

// LookAtWaits returns wait handles.
func (h host) LookAtWaits(
	ctx context.Context, c tool.Call, scope tool.WaitScope, ids []string,
) (all []tool.Wait, err error) {
	if scope != tool.SessionScope {
		all, err = h.lookAtWide(ctx, c, scope, ids)
		return all, waitFailure(ctx, err)
	}
	for _, id := range ids {
		w, err := h.lookAtWait(ctx, c, id)
		if err != nil {
			return nil, waitFailure(ctx, err)
		}
		all = append(all, w)
	}
	return all, nil
}

// CompleteWait ends a wait handle in the name of the session's agent.
func (h host) CompleteWait(
	ctx context.Context, c tool.Call, scope tool.WaitScope, id string, end waits.End,
) (w tool.Wait, err error) {
	if scope != tool.SessionScope {
		w, err = h.completeWide(ctx, c, scope, id, end)
		return w, waitFailure(ctx, err)
	}
	w, err = h.completeWait(ctx, c, id, end)
	return w, waitFailure(ctx, err)
}

// TimeWaitOut ends a wait handle as one whose time was over then.
func (h host) TimeWaitOut(
	ctx context.Context, c tool.Call, scope tool.WaitScope, id string, then time.Time,
) (w tool.Wait, err error) {
	if scope != tool.SessionScope {
		w, err = h.timeWideOut(ctx, c, scope, id, then)
	} else {
		w, err = h.timeWaitOut(ctx, c, id, then)
	}
	return w, waitFailure(ctx, err)
}

// ListWaits lists wait handles.
func (h host) ListWaits(ctx context.Context, c tool.Call, f waits.Filter) (p waits.Page, err error) {
	if f.Scope != tool.SessionScope {
		p, err = h.listWide(ctx, c, f)
		return p, waitFailure(ctx, err)
	}
	p, err = h.rn.listWaits(ctx, c.Session, f)
	return p, waitFailure(ctx, err)
}

// Now returns the time by the store's clock.
func (h host) Now() time.Time { return h.rn.store.Now() }

// Begun returns how the wait handle was begun of whose session a call is; nil:
// it is another call.
func (h host) Begun(ctx context.Context, c tool.Call) (*tool.WaitStep, error) {
	if !session.IsHandle(c.Session) {
		return nil, nil
	}
	st, err := h.rn.store.Load(ctx, c.Session)
	if err != nil || st.Parent == nil || st.Parent.Handle == "" {
		return nil, waitFailure(ctx, err)
	}
	parent := st.Parent.Path[len(st.Parent.Path)-1].Session
	rec, err := h.rn.store.Handle(ctx, parent, st.Parent.Handle)
	if err != nil || rec.Wait == nil || rec.Child != c.Session {
		return nil, waitFailure(ctx, err)
	}
	return &tool.WaitStep{Type: rec.Wait.Type, Metadata: rec.Wait.Metadata,
		Start: rec.Wait.Start, Deadline: rec.Wait.Deadline}, nil
}
