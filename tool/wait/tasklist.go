package wait

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// listTasks lists tasks.
type listTasks struct{ base }

type listTasksInput struct {
	Filter string `json:"filter"`
	Limit  millis `json:"limit"`
	Cursor string `json:"cursor"`
}

// maxTaskPages is how many pages of handles one call goes through. A page has no
// task where other handles are many.
const maxTaskPages = 20

// Execute returns a page: the tasks among a page of handles, or of the first
// that has one.
func (t *listTasks) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	in, err := input[listTasksInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	host, err := waits.HostOf(c)
	if err != nil {
		return tool.Execution{}, err
	}
	in.Filter = cmp.Or(in.Filter, waits.All)
	f := waits.Filter{Scope: t.config.Scope, Type: tool.CustomWait, Status: handleStatus(in.Filter),
		Limit: cmp.Or(int(in.Limit), waits.DefaultLimit), Cursor: in.Cursor}
	now, list := waits.Now(c), waits.TaskList{Filter: in.Filter, Tasks: []waits.TaskReply{}}
	for range maxTaskPages {
		p, err := host.ListWaits(ctx, c, f)
		if err != nil {
			return tool.Execution{}, worded(err)
		}
		if list.Tasks, err = t.among(ctx, c, host, p.Waits, in.Filter, now); err != nil {
			return tool.Execution{}, worded(err)
		}
		list.Next, f.Cursor = nil, p.Next
		if p.Next != "" {
			list.Next = &p.Next
		}
		if len(list.Tasks) > 0 || p.Next == "" {
			break
		}
	}
	list.Count = len(list.Tasks)
	return reply(list)
}

// handleStatus returns what handles have that are such tasks; empty: anything.
func handleStatus(filter string) tool.WaitStatus {
	switch s := waits.TaskStatus(filter); s {
	case waits.TaskCompleted:
		return tool.WaitCompleted
	case waits.TaskFailed, waits.TaskCancelled:
		return tool.WaitFailed
	case waits.All:
		return ""
	}
	return tool.WaitPending
}

// among returns the tasks among handles that the filter selects: those first
// that are due first. A list tells less of a handle that has ended than a look
// at it.
func (t *listTasks) among(
	ctx context.Context, c tool.Call, host waits.Host, all []tool.Wait, filter string, now time.Time,
) ([]waits.TaskReply, error) {
	tasks := []waits.TaskReply{}
	for i := range all {
		w := &all[i]
		if waits.TaskOf(w) == nil {
			continue
		}
		if w.Ended() && w.Status != tool.WaitCompleted && w.Error == "" {
			whole, err := host.LookAtWaits(ctx, c, t.config.Scope, []string{w.ID})
			if err != nil {
				return nil, err
			}
			w = &whole[0]
		}
		if r := waits.TaskShown(w, now); selects(filter, &r) {
			tasks = append(tasks, r)
		}
	}
	slices.SortStableFunc(tasks, func(a, b waits.TaskReply) int { return byDue(&a, &b) })
	return tasks, nil
}

// selects reports whether a filter selects a task.
func selects(filter string, r *waits.TaskReply) bool {
	switch filter {
	case waits.All:
		return true
	case waits.OpenTasks:
		return r.End == ""
	case waits.OverdueTasks:
		return r.Overdue
	}
	return r.Status == waits.TaskStatus(filter)
}

// byDue orders tasks: those without a due time come last. All times have one
// form, whose order is theirs.
func byDue(a, b *waits.TaskReply) int {
	switch {
	case a.Due == nil && b.Due == nil:
		return 0
	case a.Due == nil:
		return 1
	case b.Due == nil:
		return -1
	}
	return cmp.Compare(*a.Due, *b.Due)
}
