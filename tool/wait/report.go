package wait

import (
	"context"
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// Report returns one more tool, report_wait_handle, by which a model tells how
// far a handle of the set is: wait_for and list_wait_handles show the latest.
func (s *Set) Report() tool.Tool { return &report{s.base(waits.Report)} }

// report notes how far a handle is.
type report struct{ base }

type reportInput struct {
	ID       string          `json:"handleId"`
	Progress json.RawMessage `json:"progress"`
}

// Acts tells the runner which handle a call is about: it comes after the call of
// its turn that makes the handle.
func (t *report) Acts(arguments json.RawMessage) (action, handle string) {
	return waits.ActionComplete, idOf(arguments)
}

// Execute notes the progress.
func (t *report) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	in, err := input[reportInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	switch n := len(in.Progress); {
	case string(in.Progress) == "null":
		return tool.Execution{}, waits.Errorf("progress is null: tell how far the handle is.")
	case n > waits.MaxProgress:
		return tool.Execution{}, waits.Errorf("progress has %d bytes, at most %d are taken.", n,
			waits.MaxProgress)
	}
	host, err := waits.HostOf(c)
	if err != nil {
		return tool.Execution{}, err
	}
	w, step, err := host.ReportWait(ctx, c, t.config.Scope, in.ID, in.Progress)
	if err != nil {
		return tool.Execution{}, worded(err)
	}
	w.Progress = in.Progress
	exec, err := reply(waits.ReportedOf(&w, waits.Now(c)))
	exec.Handle = step
	return exec, err
}
