package handle

import (
	"context"
	"time"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/tool"
)

// action is a call that acts on a handle.
type action struct {
	*stateful
	host tool.Handles
	call tool.Call
	handles.Request
}

// spawn begins a handle. With a moment it waits for what comes of it first.
func (a action) spawn(ctx context.Context) (tool.Execution, error) {
	if a.call.Answer != nil { // the moment is over
		return a.standing(ctx)
	}
	begin := &tool.HandleStep{Name: a.ID, Begin: a.Own}
	if a.o.Moment > 0 {
		return tool.Execution{Await: a.await(a.o.Moment), Handle: begin}, nil
	}
	out, err := handles.Reply{ID: a.ID, State: tool.HandleRunning}.MarshalJSON()
	return tool.Execution{Output: out, Handle: begin}, err
}

// await waits until the handle stops, for so long at most.
func (a action) await(atMost time.Duration) *tool.Await {
	return &tool.Await{
		Reason: tool.ReasonHandles, Handles: &tool.HandleWait{All: []string{a.ID}},
		Timeout: atMost, OnTimeout: tool.ReenterOnTimeout,
	}
}

// apply gives the handle input. What is applied again, after a crash, arrives
// once.
func (a action) apply(ctx context.Context) (tool.Execution, error) {
	if err := a.host.Apply(ctx, a.call, a.ID, a.Input); err != nil {
		return tool.Execution{}, handles.Missing(ctx, a.host, a.call, a.ID, err)
	}
	return a.standing(ctx)
}

// abortWait is how long abort waits for a body to end.
const abortWait = 30 * time.Second

// abort ends the handle, and waits until it has stopped.
func (a action) abort(ctx context.Context) (tool.Execution, error) {
	if a.call.Answer == nil {
		if err := a.host.Abort(ctx, a.call, a.ID); err != nil {
			return tool.Execution{}, handles.Missing(ctx, a.host, a.call, a.ID, err)
		}
		h, err := a.host.Handle(ctx, a.call, a.ID)
		if err == nil && h.State != tool.HandleStopped {
			return tool.Execution{Await: a.await(abortWait)}, nil
		}
	}
	return a.standing(ctx)
}

// standing replies how the handle stands, and notes what that tells.
func (a action) standing(ctx context.Context) (tool.Execution, error) {
	h, err := a.host.Handle(ctx, a.call, a.ID)
	if err != nil {
		return tool.Execution{}, handles.Missing(ctx, a.host, a.call, a.ID, err)
	}
	r, shown := handles.Standing(&h, a.o.Whole, a.o.Content)
	if r, err = r.Within(a.call.ResultLimit() + tool.HandleRoom); err != nil {
		return tool.Execution{}, err
	}
	out, err := r.MarshalJSON()
	return tool.Execution{Output: out, Handle: &tool.HandleStep{
		Name: a.ID, Child: h.Session, Shown: shown, Told: h.State == tool.HandleStopped,
	}}, err
}
