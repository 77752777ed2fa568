package wait

import (
	"context"
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// updateTask changes the status of a task.
type updateTask struct{ base }

type updateTaskInput struct {
	ID     string           `json:"taskId"`
	Status waits.TaskStatus `json:"status"`
	Note   string           `json:"note"`
	Result json.RawMessage  `json:"result"`
}

// Acts tells the runner which handle a call may end: it comes after the call of
// its turn that makes the task.
func (t *updateTask) Acts(arguments json.RawMessage) (action, handle string) {
	return waits.ActionComplete, taskID(arguments)
}

// Execute changes the status. One that is an end ends the task's own handle
// first: that decides between two ends. Those that end with it follow. All of
// them may be made again.
func (t *updateTask) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	in, err := input[updateTaskInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	if string(in.Result) == "null" {
		in.Result = nil
	}
	end, ends, err := waits.TaskEnd(in.ID, in.Status, in.Note, in.Result)
	switch {
	case err != nil:
		return tool.Execution{}, err
	case len(in.Result) > 0 && in.Status != waits.TaskCompleted:
		return tool.Execution{}, waits.Errorf("result goes with the status %s, not %s.",
			waits.TaskCompleted, in.Status)
	}
	host, err := waits.HostOf(c)
	if err != nil {
		return tool.Execution{}, err
	}
	w, err := taskHandle(ctx, c, host, t.config.Scope, in.ID)
	if err != nil {
		return tool.Execution{}, err
	}
	if !ends {
		return t.report(ctx, c, host, in)
	}
	metadata := w.Metadata
	ended, err := host.CompleteWait(ctx, c, t.config.Scope, in.ID, end)
	if err != nil {
		return tool.Execution{}, worded(err)
	}
	ended.Metadata = metadata
	r := waits.TaskShown(&ended, waits.Now(c))
	r.Success, r.Note = true, in.Note
	step := &tool.HandleStep{}
	if w.Session != "" {
		step.Ends = append(step.Ends, tool.HandleEnd{Name: in.ID, Child: w.Session})
	}
	for _, id := range waits.TaskOf(w).Handles {
		ended, err := t.end(ctx, c, host, id, end)
		if err != nil {
			return tool.Execution{}, err
		}
		r.Ended = append(r.Ended, ended)
	}
	exec, err := reply(r)
	if len(step.Ends) > 0 {
		exec.Handle = step
	}
	return exec, err
}

// end ends a handle that ends with a task. That it has ended otherwise is told,
// and keeps no other from its end.
func (t *updateTask) end(
	ctx context.Context, c tool.Call, host waits.Host, id string, end waits.End,
) (waits.TaskHandle, error) {
	w, err := host.CompleteWait(ctx, c, t.config.Scope, id, end)
	switch {
	case err == nil:
		return waits.TaskHandle{ID: id, Status: w.Status}, nil
	case waits.ForModel(err):
		return waits.TaskHandle{ID: id, Error: err.Error()}, nil
	}
	return waits.TaskHandle{}, err
}

// report notes the status of a task that goes on.
func (t *updateTask) report(
	ctx context.Context, c tool.Call, host waits.Host, in updateTaskInput,
) (tool.Execution, error) {
	progress, err := json.Marshal(waits.TaskProgress{Status: in.Status, Note: in.Note})
	if err != nil {
		return tool.Execution{}, err
	}
	w, step, err := host.ReportWait(ctx, c, t.config.Scope, in.ID, progress)
	if err != nil {
		return tool.Execution{}, worded(err)
	}
	now := waits.Now(c)
	w.Progress, w.ProgressAt = progress, now
	r := waits.TaskShown(&w, now)
	r.Success = true
	exec, err := reply(r)
	exec.Handle = step
	return exec, err
}
