package session

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// A wait handle of a session is a handle whose call waits for what comes from
// outside. Its record has more, so that a list needs to read no child.

// Wait is what the record of a wait handle has beside that of another handle.
type Wait struct {
	Type tool.WaitType `json:"type"`
	// Start is when its maker has made it, and Deadline when it ends by itself;
	// zero: it doesn't.
	Start    time.Time       `json:"start"`
	Deadline time.Time       `json:"deadline,omitzero"`
	Metadata json.RawMessage `json:"metadata,omitzero"`
	// Progress is the latest that was told of it, by a call of its parent.
	Progress   json.RawMessage `json:"progress,omitzero"`
	ProgressAt time.Time       `json:"progress_at,omitzero"`
	// End is when what ended it came. The record's own Ended is when the parent
	// was told, from which on it is kept for its retention; zero: that one.
	End time.Time `json:"end,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (w *Wait) check() error {
	switch {
	case w == nil:
	case w.Type == "" || w.Start.IsZero():
		return errors.New("it is a wait handle, and has no type, or no start")
	case (len(w.Progress) == 0) != w.ProgressAt.IsZero():
		return errors.New("it is a wait handle, and its progress is incomplete")
	}
	return nil
}

// What a call does to wait handles, see Call.Action. A call that makes one, or
// ends one, goes through the layers as any other; the call of a wait handle's
// own session doesn't: it does nothing but wait.
const (
	ActionCreate   = "create"
	ActionComplete = "complete"
	ActionWait     = "wait"
)

// MakesHandle reports whether a call is to make a handle.
func (c *Call) MakesHandle() bool { return c.Action == ActionSpawn || c.Action == ActionCreate }

// PassesLayers reports whether a call goes through the layers that ask for no
// actions.
func (c *Call) PassesLayers() bool {
	return c.Action == "" || c.Action == ActionCreate || c.Action == ActionComplete
}

// WaitCall returns the id of the one call of the wait handle that a call makes.
// It is known before that handle is there, and so is its token.
func WaitCall(call string) string { return call + "-wait" }

// WaitStatus returns what the end of a handle's call is for a wait handle.
func WaitStatus(s event.Status) tool.WaitStatus {
	switch s {
	case "":
		return tool.WaitPending
	case event.Done:
		return tool.WaitCompleted
	case event.Expired:
		return tool.WaitTimeout
	}
	return tool.WaitFailed
}
