package waits

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// Host is how a call reaches wait handles. The Host of a call that has them
// implements it.
type Host interface {
	// CreateWait makes a handle. The same call again finds the one that it has
	// made. In the session's scope the handle is made with the commit that
	// stores the call's result, by the step that is returned.
	CreateWait(context.Context, tool.Call, New) (tool.Wait, *tool.HandleStep, error)
	// LookAtWaits returns handles in the order of the ids. One that isn't there
	// is an *UnknownError.
	LookAtWaits(context.Context, tool.Call, tool.WaitScope, []string) ([]tool.Wait, error)
	// CompleteWait ends a handle, and returns it. The same end again is
	// acknowledged. Another one is a *ConflictError.
	CompleteWait(context.Context, tool.Call, tool.WaitScope, string, End) (tool.Wait, error)
	// TimeWaitOut ends a handle that is open as one whose time was over at that
	// time, and returns it as it is. Where it can't be ended just now, or may not
	// be, it is open.
	TimeWaitOut(context.Context, tool.Call, tool.WaitScope, string, time.Time) (tool.Wait, error)
	// ReportWait notes how far a handle that is open is, and returns it as it was.
	// In the session's scope that is stored with the call's result, by the step
	// that is returned.
	ReportWait(context.Context, tool.Call, tool.WaitScope, string, json.RawMessage) (
		tool.Wait, *tool.HandleStep, error)
	// ListWaits returns a page of the handles of a scope.
	ListWaits(context.Context, tool.Call, Filter) (Page, error)
}

// New is a handle in the making, as a model's call wishes for it.
type New struct {
	Scope    tool.WaitScope
	ID       string
	Type     tool.WaitType
	Metadata json.RawMessage
	Timeout  time.Duration // from now; zero: none
}

// End is how a handle is ended: with a result, or else with an error.
type End struct {
	Result json.RawMessage // empty: it fails
	Error  string
}

// Filter selects handles. Empty fields select all.
type Filter struct {
	Scope  tool.WaitScope
	Status tool.WaitStatus
	Type   tool.WaitType
	Limit  int
	Cursor string
}

// Page is what ListWaits returns.
type Page struct {
	Total    int // of the scope
	Filtered int // that the filter selects
	ByStatus map[tool.WaitStatus]int
	ByType   map[tool.WaitType]int
	Waits    []tool.Wait
	Next     string // the Cursor of the next page; empty: it is the last one
}

// Permit is how a call stands to the permits of a handle.
type Permit struct {
	Held bool // it has one
	Open bool // the handle may give one
	// GivenBack: the entry of its body that goes on has given one back before it was
	// cut off, or tried again.
	GivenBack bool
}

// ErrNoWaits refuses a call that has no Host with wait handles, as in a unit
// test.
var ErrNoWaits = errors.New("wait: this call can't have wait handles")

// HostOf returns how a call reaches wait handles.
func HostOf(c tool.Call) (Host, error) {
	if h, ok := c.Host.(Host); ok {
		return h, nil
	}
	return nil, ErrNoWaits
}

// Begun returns, where the call is the one call of a wait handle's session, how
// that handle was begun; nil: it is another call.
func Begun(ctx context.Context, c tool.Call) (*tool.WaitStep, error) {
	if h, ok := c.Host.(interface {
		Begun(context.Context, tool.Call) (*tool.WaitStep, error)
	}); ok {
		return h.Begun(ctx, c)
	}
	return nil, nil
}

// Now returns the time by the runtime's clock.
func Now(c tool.Call) time.Time {
	if h, ok := c.Host.(interface{ Now() time.Time }); ok {
		return h.Now()
	}
	return time.Now()
}

// What a call does to handles, as the runner knows it.
const (
	ActionCreate   = "create"   // it makes one
	ActionComplete = "complete" // it ends one
	ActionAwait    = "await"    // it waits for some
)
