package runner

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/tool"
)

// ReportWait notes how far a wait handle is that has not ended.
func (h host) ReportWait(
	ctx context.Context, c tool.Call, scope tool.WaitScope, id string, progress json.RawMessage,
) (w tool.Wait, step *tool.HandleStep, err error) {
	if scope != tool.SessionScope {
		w, err = h.reportWide(ctx, c, scope, id, progress)
		return w, nil, waitFailure(ctx, err)
	}
	if w, err = h.lookAtWait(ctx, c, id); err != nil {
		return w, nil, waitFailure(ctx, err)
	}
	if w.Ended() {
		return w, nil, &waits.ConflictError{First: w}
	}
	return w, &tool.HandleStep{Name: w.ID, Child: w.Session, Progress: progress}, nil
}

// reportWide notes how far a handle of a wider scope is.
func (h host) reportWide(
	ctx context.Context, c tool.Call, scope tool.WaitScope, name string, progress json.RawMessage,
) (w tool.Wait, err error) {
	id, err := h.asks(ctx, OpReportWait, c, scope, name)
	if err != nil {
		return w, err
	}
	err = h.rn.wide.Report(ctx, id, progress)
	if other, is := errors.AsType[*wide.EndedError](err); is {
		return w, &waits.ConflictError{First: wideWait(other.Handle)}
	}
	if err != nil {
		return w, h.unknownWide(ctx, c, scope, name, err)
	}
	got, err := h.rn.wide.Get(ctx, id)
	if err != nil {
		return w, err
	}
	return wideWait(got), nil
}
