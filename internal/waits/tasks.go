package waits

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// A task is a wait handle whose metadata has it. Its status is that of the
// handle; where the handle is open, its progress tells more.

// The names of the tools.
const (
	CreateTask = "create_task"
	UpdateTask = "update_task_status"
	ListTasks  = "list_tasks"
)

// TaskStatus is where a task is.
type TaskStatus string

// The statuses. The last three are ends, and final.
const (
	TaskPending    TaskStatus = "pending"
	TaskInProgress TaskStatus = "in_progress"
	TaskBlocked    TaskStatus = "blocked"
	TaskCompleted  TaskStatus = "completed"
	TaskFailed     TaskStatus = "failed"
	TaskCancelled  TaskStatus = "cancelled"
)

// TaskStatuses returns all statuses.
func TaskStatuses() []TaskStatus {
	return []TaskStatus{TaskPending, TaskInProgress, TaskBlocked, TaskCompleted, TaskFailed,
		TaskCancelled}
}

// Filters of a list of tasks, beside the statuses and [All].
const (
	OpenTasks    = "open"    // that have not ended
	OverdueTasks = "overdue" // open, and their due time has passed
)

// Task is what a handle's metadata has of a task.
type Task struct {
	Title       string    `json:"title"`
	Description string    `json:"description,omitzero"`
	Due         time.Time `json:"due,omitzero"`
	// Handles are the wait handles that end with the task.
	Handles []string `json:"handleIds,omitempty"`
}

// MaxTaskHandles is how many handles end with one task.
const MaxTaskHandles = 20

// taskData is the metadata of a task's handle.
type taskData struct {
	Task *Task `json:"task"`
}

// Metadata returns the task as its handle has it.
func (t *Task) Metadata() (json.RawMessage, error) { return strictjson.Append(nil, taskData{t}) }

// TaskOf returns the task that a handle is; nil: it is none.
func TaskOf(w *tool.Wait) *Task {
	var d taskData
	if len(w.Metadata) == 0 || json.Unmarshal(w.Metadata, &d) != nil || d.Task == nil ||
		d.Task.Title == "" {
		return nil
	}
	return d.Task
}

// TaskProgress is what the progress of a task's handle has.
type TaskProgress struct {
	Status TaskStatus `json:"status"`
	Note   string     `json:"note,omitzero"`
}

// cancelledWords begin the error of a handle whose task was cancelled.
const cancelledWords = "Cancelled"

// TaskEnd returns how the handles end that wait for a task; ok is false for a
// status that is no end. The same again is the same end: it has no time.
func TaskEnd(id string, status TaskStatus, note string, result json.RawMessage) (e End, ok bool, err error) {
	switch status {
	case TaskCompleted:
		e.Result, err = strictjson.Append(nil, struct {
			ID     string          `json:"taskId"`
			Status TaskStatus      `json:"status"`
			Note   string          `json:"note,omitzero"`
			Result json.RawMessage `json:"result,omitzero"`
		}{id, status, note, result})
	case TaskFailed:
		e.Error = worded("The task "+id+" has failed", note)
	case TaskCancelled:
		e.Error = worded(cancelledWords, note)
	default:
		return e, false, nil
	}
	return e, true, err
}

// worded returns a sentence.
func worded(what, why string) string {
	if why != "" {
		what += ": " + strings.TrimRight(why, ".")
	}
	return what + "."
}

// TaskReply is a task as a model reads it.
type TaskReply struct {
	Success     bool         `json:"success,omitzero"`
	ID          string       `json:"taskId"`
	Title       string       `json:"title"`
	Description string       `json:"description,omitzero"`
	Status      TaskStatus   `json:"status"`
	Due         *string      `json:"due"`
	Overdue     bool         `json:"overdue"`
	Note        string       `json:"note,omitzero"`
	Created     string       `json:"createdTime"`
	Updated     string       `json:"updatedTime,omitzero"`
	End         string       `json:"endTime,omitzero"`
	Error       string       `json:"error,omitzero"`
	Handles     []string     `json:"handleIds,omitempty"`
	Ended       []TaskHandle `json:"endedHandles,omitempty"`
}

// TaskHandle is a handle that has ended with a task, or why it has not.
type TaskHandle struct {
	ID     string          `json:"handleId"`
	Status tool.WaitStatus `json:"status,omitzero"`
	Error  string          `json:"error,omitzero"`
}

// TaskShown returns the reply that shows a task, which its handle is.
func TaskShown(w *tool.Wait, now time.Time) TaskReply {
	t := TaskOf(w)
	r := TaskReply{ID: w.ID, Title: t.Title, Description: t.Description, Status: TaskPending,
		Created: Time(w.Start), Handles: t.Handles}
	if !t.Due.IsZero() {
		due := Time(t.Due)
		r.Due, r.Overdue = &due, !w.Ended() && !t.Due.After(now)
	}
	var p TaskProgress
	if len(w.Progress) > 0 && json.Unmarshal(w.Progress, &p) == nil && p.Status != "" {
		r.Status, r.Note, r.Updated = p.Status, p.Note, Time(w.ProgressAt)
	}
	if !w.Ended() {
		return r
	}
	r.End, r.Error, r.Note = Time(w.End), excerpt.InBrief(w.Error), ""
	switch {
	case w.Status == tool.WaitCompleted:
		r.Status = TaskCompleted
	case strings.HasPrefix(w.Error, cancelledWords):
		r.Status = TaskCancelled
	default:
		r.Status = TaskFailed
	}
	return r
}

// TaskList is the reply of list_tasks.
type TaskList struct {
	Filter string      `json:"filter"`
	Count  int         `json:"count"` // of this page
	Tasks  []TaskReply `json:"tasks"`
	Next   *string     `json:"nextCursor"`
}
