package tool

import (
	"encoding/json"
	"time"
)

// A wait handle stands for something that happens outside: it has a name, ends
// once, and calls wait for it. Package tool/wait has the tools by which a model
// makes and awaits them. What is here is what those tools, the runner and a
// program's own code tell each other.

// WaitType is what a wait handle stands for.
type WaitType string

// The types.
const (
	AgentWait    WaitType = "agent"
	WorkflowWait WaitType = "workflow"
	TimerWait    WaitType = "timer" // it completes by its time
	HookWait     WaitType = "hook"  // its maker gets a token, for an outside system
	CustomWait   WaitType = "custom"
)

// WaitTypes returns all types.
func WaitTypes() []WaitType {
	return []WaitType{AgentWait, WorkflowWait, TimerWait, HookWait, CustomWait}
}

// WaitStatus is where a wait handle is.
type WaitStatus string

// The statuses. All but the first are ends, and final.
const (
	WaitPending   WaitStatus = "pending"
	WaitCompleted WaitStatus = "completed"
	WaitFailed    WaitStatus = "failed"
	WaitTimeout   WaitStatus = "timeout" // its own time was over
)

// WaitStatuses returns all statuses.
func WaitStatuses() []WaitStatus {
	return []WaitStatus{WaitPending, WaitCompleted, WaitFailed, WaitTimeout}
}

// WaitScope is who shares a set's wait handles.
type WaitScope string

// The scopes.
const (
	// SessionScope: each session has its own, as its children.
	SessionScope WaitScope = ""
	UserScope    WaitScope = "user"  // all sessions of a user
	StoreScope   WaitScope = "store" // all sessions of a store
)

// Wait is a wait handle. Its JSON is good for an HTTP API.
type Wait struct {
	ID     string     `json:"id"`
	Type   WaitType   `json:"type"`
	Status WaitStatus `json:"status"`
	// Metadata is its maker's: a JSON object; empty: none.
	Metadata json.RawMessage `json:"metadata,omitzero"`
	Start    time.Time       `json:"start"`
	Deadline time.Time       `json:"deadline,omitzero"` // zero: none
	// How it ended, with a status other than WaitPending: Result with
	// WaitCompleted, and otherwise Error.
	End    time.Time       `json:"end,omitzero"`
	Result json.RawMessage `json:"result,omitzero"`
	Error  string          `json:"error,omitzero"`
	Actor  string          `json:"by,omitzero"` // who ended it
	// Token lets an outside system end it. Only who makes a HookWait gets it.
	Token string `json:"token,omitzero"`
	// Progress is the latest that was told of it; empty: nothing.
	Progress   json.RawMessage `json:"progress,omitzero"`
	ProgressAt time.Time       `json:"progress_at,omitzero"`
	// Permits are, of a handle that calls may hold, how many do; nil: it has none.
	Permits *WaitPermits `json:"permits,omitzero"`
	// Session and Call are, of a handle of SessionScope, the session that runs
	// it, and that session's one call.
	Session string `json:"session,omitzero"`
	Call    string `json:"call,omitzero"`
	// Told: a call of that session was told of its end.
	Told bool `json:"told,omitzero"`
}

// WaitPermits are those of a wait handle: how many there are, how many calls hold
// one, and how many wait for one.
type WaitPermits struct {
	Most   int `json:"most"`
	Held   int `json:"held"`
	Queued int `json:"queued"`
}

// Ended reports whether the handle has ended.
func (w *Wait) Ended() bool { return w.Status != WaitPending }

// WaitStep is, in a HandleStep that begins a handle, that it is a wait handle.
type WaitStep struct {
	Type     WaitType
	Metadata json.RawMessage
	Start    time.Time
	Deadline time.Time // zero: none
}
