package wait

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// Tasks returns three more tools, of a list of tasks in the set's scope:
// create_task, update_task_status and list_tasks. A task is a wait handle: the
// other tools of the set wait for it, and list it. It ends with its status.
func (s *Set) Tasks() []tool.Tool {
	of := func(name string) base { return base{s.config, waits.TaskSpec(name)} }
	return []tool.Tool{&createTask{of(waits.CreateTask)}, &updateTask{of(waits.UpdateTask)},
		&listTasks{of(waits.ListTasks)}}
}

// createTask makes tasks.
type createTask struct{ base }

type createTaskInput struct {
	ID          string          `json:"taskId"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Due         json.RawMessage `json:"due"`
	DueIn       *millis         `json:"dueMs"`
	Handles     []string        `json:"handleIds"`
}

// Acts tells the runner which handle a call makes. Without an id its name isn't
// known yet.
func (t *createTask) Acts(arguments json.RawMessage) (action, handle string) {
	return waits.ActionCreate, taskID(arguments)
}

// Policy tells the runner that tasks go on when a turn ends.
func (t *createTask) Policy() tool.HandlePolicy { return tool.HandlePolicy{AtEnd: tool.KeepAtEnd} }

// Execute makes a task, or, in the session of its handle, waits for its end.
func (t *createTask) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	if begun, err := waits.Begun(ctx, c); err != nil || begun != nil {
		return pending(begun), err
	}
	in, err := input[createTaskInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	if in.ID == "" {
		in.ID = generated("task", in.Title, c.ID)
	}
	task, err := in.task(waits.Now(c))
	if err != nil {
		return tool.Execution{}, err
	}
	host, err := waits.HostOf(c)
	if err != nil {
		return tool.Execution{}, err
	}
	if len(task.Handles) > 0 {
		if _, err := host.LookAtWaits(ctx, c, t.config.Scope, task.Handles); err != nil {
			return tool.Execution{}, worded(err)
		}
	}
	n := waits.New{Scope: t.config.Scope, ID: in.ID, Type: tool.CustomWait}
	if n.Metadata, err = task.Metadata(); err != nil {
		return tool.Execution{}, err
	}
	if err := waits.CheckMetadata(n.Metadata); err != nil {
		return tool.Execution{}, waits.Errorf("The task is too long: %v.", err)
	}
	w, step, err := host.CreateWait(ctx, c, n)
	if err != nil {
		return tool.Execution{}, worded(err)
	}
	w.Metadata = n.Metadata
	r := waits.TaskShown(&w, waits.Now(c))
	r.Success = true
	exec, err := reply(r)
	exec.Handle = step
	return exec, err
}

// task returns what is asked for.
func (in *createTaskInput) task(now time.Time) (*waits.Task, error) {
	if err := waits.CheckID(in.ID); err != nil {
		return nil, waits.Errorf("taskId: %v.", err)
	}
	t := &waits.Task{Title: in.Title, Description: in.Description}
	for _, id := range in.Handles {
		if err := waits.CheckID(id); err != nil {
			return nil, waits.Errorf("handleIds: %v.", err)
		}
		if id == in.ID {
			return nil, waits.Errorf("handleIds has the task itself, which ends anyway.")
		}
		if !slices.Contains(t.Handles, id) {
			t.Handles = append(t.Handles, id)
		}
	}
	due := len(in.Due) > 0 && string(in.Due) != "null"
	switch {
	case len(t.Handles) > waits.MaxTaskHandles:
		return nil, waits.Errorf("handleIds has %d ids, at most %d are taken.", len(t.Handles),
			waits.MaxTaskHandles)
	case due && in.DueIn != nil:
		return nil, waits.Errorf("There are due and dueMs: give one of them.")
	case due:
		at, err := readTime(in.Due)
		if err != nil {
			return nil, waits.Errorf("due: %v", err)
		}
		t.Due = at.UTC()
	case in.DueIn != nil:
		t.Due = now.Add(in.DueIn.duration()).UTC()
	}
	if t.Due.Year() > tool.MaxYear {
		return nil, waits.Errorf("The task is due after the year %d.", tool.MaxYear)
	}
	return t, nil
}

// taskID returns the task that arguments name, for the runner.
func taskID(arguments json.RawMessage) string {
	var in struct {
		ID string `json:"taskId"`
	}
	if json.Unmarshal(arguments, &in) != nil || waits.CheckID(in.ID) != nil {
		return ""
	}
	return in.ID
}

// taskHandle returns the handle that is a task.
func taskHandle(
	ctx context.Context, c tool.Call, host waits.Host, scope tool.WaitScope, id string,
) (*tool.Wait, error) {
	all, err := host.LookAtWaits(ctx, c, scope, []string{id})
	if err != nil {
		return nil, worded(err)
	}
	if waits.TaskOf(&all[0]) == nil {
		return nil, waits.Errorf("%q is a wait handle, and no task.", id)
	}
	return &all[0], nil
}
