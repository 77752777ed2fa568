package wait

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// PermitOptions are what a call needs a permit of, and how it waits for one.
type PermitOptions struct {
	// Scope and Handle name the wait handle whose permits they are. It is made
	// with Most permits where it isn't there. Scope must not be the session's.
	Scope  tool.WaitScope
	Handle string
	Most   int
	// Priority, if set, returns how urgent a call is, from -1000 to 1000. The
	// greatest gets the next permit, and among equals the one that waits longest.
	Priority func(arguments json.RawMessage) int
	// Timeout is how long a call waits; zero: for ever. Then it fails, and the
	// model may try again.
	Timeout time.Duration
}

// WithPermit returns a tool that is t, whose calls each hold a permit while they
// go on, in all processes on the store. A call waits for its permit in the store,
// and holds no goroutine. It has the permit until it settles, however it does, or
// calls [ReleasePermit]. While it waits for something else, for an answer say, it
// has it too.
func WithPermit(t tool.Tool, o PermitOptions) (tool.Tool, error) {
	if t == nil {
		return nil, errors.New("wait: WithPermit: the tool is nil")
	}
	name := t.Spec().Name
	switch _, acts := tool.As[tool.Acting](t); {
	case acts:
		return nil, fmt.Errorf("wait: WithPermit: the calls of tool %q act on handles: "+
			"have what a handle does hold a permit", name)
	case o.Scope != tool.UserScope && o.Scope != tool.StoreScope:
		return nil, fmt.Errorf("wait: WithPermit: of tool %q: the scope is %q, and may be %q or %q",
			name, o.Scope, tool.UserScope, tool.StoreScope)
	case o.Most < 1 || o.Timeout < 0:
		return nil, fmt.Errorf("wait: WithPermit: of tool %q: %d permits, and a time-out of %v", name,
			o.Most, o.Timeout)
	}
	if err := waits.CheckID(o.Handle); err != nil {
		return nil, fmt.Errorf("wait: WithPermit: of tool %q: %w", name, err)
	}
	return &permitted{t, o}, nil
}

// permitted is a tool whose calls hold a permit.
type permitted struct {
	tool.Tool
	o PermitOptions
}

// Unwrap returns the tool that holds the permit.
func (p *permitted) Unwrap() tool.Tool { return p.Tool }

// Spec is the tool's own; in addition, it waits.
func (p *permitted) Spec() tool.Spec {
	s := p.Tool.Spec()
	s.MayPause = true
	return s
}

// permitHost is how a call reaches its permits.
type permitHost interface {
	Permit(ctx context.Context, c tool.Call, scope tool.WaitScope, handle string) (
		waits.Permit, error)
	ReleasePermit(ctx context.Context, c tool.Call, scope tool.WaitScope, handle string) error
}

// permitData is the data of a pause for a permit. By Wait such a pause is told
// from the tool's own.
type permitData struct {
	Wait   string         `json:"wait"`
	Scope  tool.WaitScope `json:"scope"`
	Handle string         `json:"handle"`
	Tried  int            `json:"tried,omitzero"` // the tries before the one that waits
}

// permitWait is what permitData.Wait is.
const permitWait = "permit"

// waited returns for which permit a call has waited last, if for one.
func waited(c tool.Call) (d permitData, is bool) {
	is = c.Answer != nil && json.Unmarshal(c.Answer.Data, &d) == nil && d.Wait == permitWait
	return d, is
}

// Execute waits for the permit, and enters the tool once the call has it. A try
// of the call that got none in an earlier try waits again, and so does one that
// is of an entry which has given it back. Entries that come after that one, by
// answers to the tool's own pauses, go on without.
func (p *permitted) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	last, is := waited(c)
	answered := c.Answer != nil && !is
	if answered && c.Effect.NeedsClaim() && c.Tried.Count == 0 {
		return p.Tool.Execute(ctx, c) // there was no entry by this answer
	}
	host, ok := c.Host.(permitHost)
	if !ok {
		return tool.Execution{}, waits.ErrNoWaits
	}
	permit, err := host.Permit(ctx, c, p.o.Scope, p.o.Handle)
	own := is && last.Scope == p.o.Scope && last.Handle == p.o.Handle
	switch {
	case err != nil:
		return tool.Execution{}, err
	case permit.Held && own:
		c.Answer = nil // which was for the permit alone
		return p.Tool.Execute(ctx, c)
	case permit.Held, answered && !permit.GivenBack:
		return p.Tool.Execute(ctx, c)
	case !permit.Open:
		return tool.Execution{}, fmt.Errorf("%s was not begun: the wait handle %q gives no permits",
			c.Tool, p.o.Handle)
	case own && c.Answer.TimedOut && last.Tried == c.Tried.Count:
		return tool.Execution{}, fmt.Errorf("%s was not begun: all permits of %q were taken for %v",
			c.Tool, p.o.Handle, p.o.Timeout)
	}
	return p.await(c, answered)
}

// await waits for the permit. A call that was answered has that answer again
// when it has the permit. If its time is over before, it has expired.
func (p *permitted) await(c tool.Call, answered bool) (tool.Execution, error) {
	w := &tool.PermitWait{Most: p.o.Most, Before: true}
	if p.o.Priority != nil {
		w.Priority = min(max(p.o.Priority(c.Arguments), -tool.MaxPriority), tool.MaxPriority)
	}
	data, err := json.Marshal(permitData{permitWait, p.o.Scope, p.o.Handle, c.Tried.Count})
	a := &tool.Await{Reason: tool.ReasonHandles, Data: data,
		Handles: &tool.HandleWait{Scope: p.o.Scope, All: []string{p.o.Handle}, Permit: w}}
	if a.Timeout = p.o.Timeout; a.Timeout > 0 && !answered {
		a.OnTimeout = tool.ReenterOnTimeout
	}
	return tool.Execution{Await: a}, err
}

// ReleasePermit gives back the permit of the call whose body has ctx, before the
// call is over. To give it back twice is no error. If the body's entry is cut off
// then, or tried again, it waits for the permit anew.
func ReleasePermit(ctx context.Context, scope tool.WaitScope, handle string) error {
	c := tool.CallFrom(ctx)
	host, ok := c.Host.(permitHost)
	if !ok {
		return waits.ErrNoWaits
	}
	return host.ReleasePermit(ctx, c, scope, handle)
}
