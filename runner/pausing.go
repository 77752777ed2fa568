package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// The bounds of how often a call pauses.
const (
	// maxMade is how many of a call's pauses may come with artifacts. The
	// call's record, which is bounded, holds where they lie.
	maxMade = 200
	// A call's first freeTimers pauses may be timers of any length, or
	// deadlines that have the tool entered again. From then on such a pause
	// takes timerFloor at least, and after shortTimers pauses a shorter one is
	// the call's error: a tool that doesn't look at its answer asks for the
	// same each time that it is entered, without end.
	freeTimers  = 20
	shortTimers = 200
	timerFloor  = time.Second
)

// mayPause refuses a pause that the call can't have. It lengthens one that ends
// by itself and is too short for a call that has paused often.
func mayPause(c *session.Call, a *tool.Await, made bool, now time.Time) error {
	lasts := a.Timeout
	if !a.Deadline.IsZero() {
		lasts = a.Deadline.Sub(now)
	}
	what, endsByItself := "timer", a.Reason == tool.ReasonTimer
	if a.Reason == tool.ReasonRetry {
		what, endsByItself = "retry", true
	}
	if a.OnTimeout == tool.ReenterOnTimeout {
		what, endsByItself = "time-out", true
	}
	if a.Child != nil {
		if err := sayable(a.Child.Message.Clean()); err != nil {
			return fmt.Errorf("%s has nothing to tell the agent %s: %w", c.Tool, a.Child.Agent, err)
		}
	}
	switch {
	case made && len(c.Actions) >= maxMade:
		return fmt.Errorf("%s has paused %d times with artifacts, which is as often as a call may",
			c.Tool, maxMade)
	case a.Gate != "" && !c.MayBeDecided():
		return fmt.Errorf("%s was held by layers %d times, "+
			"which is as often as what is decided about it can be kept", c.Tool, len(c.Decisions))
	case len(a.Schema) > tool.MaxSchema && a.Gate == "":
		return fmt.Errorf("%s asked to pause: the answer's schema has %d bytes, "+
			"at most %d are taken", c.Tool, len(a.Schema), tool.MaxSchema)
	case !endsByItself || lasts >= timerFloor || c.Pauses < freeTimers:
		return nil
	case c.Pauses >= shortTimers:
		return fmt.Errorf("%w: %s has paused %d times, and asks for a %s of %v again: "+
			"after so many, one takes %v at least",
			tool.ErrInvalidAwait, c.Tool, c.Pauses, what, lasts, timerFloor)
	}
	a.Timeout, a.Deadline = timerFloor, time.Time{}
	return nil
}

// hold makes a pause of an Await in its normal form. An error is the runtime's,
// and not the tool's.
func (s *subject) hold(
	ctx context.Context, c *session.Call, args json.RawMessage, await tool.Await,
) (h *session.Hold, err error) {
	h = &session.Hold{Await: await, Prompt: session.StringBlob(await.Prompt)}
	if h.Data, err = session.NewBlob(await.Data); err != nil {
		return nil, err
	}
	if await.Child != nil {
		if h.Child, err = s.newChild(ctx, await.Child); err != nil {
			return nil, err
		}
	}
	schema, checks := await.Schema, s.core.Tools.Checks(c.Tool)
	switch {
	case await.Gate != "":
		schema = s.editable(c, checks.Input)
		if string(await.Arguments) != string(args) {
			h.Args, err = session.NewBlob(await.Arguments)
		}
	case len(schema) == 0 && await.Mode != tool.ModeReenter:
		schema = checks.Output
	}
	if err == nil {
		h.Schema, err = s.rn.store.PutSchema(ctx, schema)
	}
	return h, err
}

// newChild makes a child of what a tool wishes for.
func (s *subject) newChild(ctx context.Context, c *tool.Child) (*session.NewChild, error) {
	schema, err := s.rn.store.PutSchema(ctx, c.Schema)
	if err != nil {
		return nil, err
	}
	entry, err := session.NewEntry(c.Message.Clean())
	if err != nil {
		return nil, err
	}
	return &session.NewChild{Agent: c.Agent, Message: entry, Schema: schema,
		Planned: c.Planned, Most: s.core.Tools.Limits().Result, Limits: limitsOf(s.agent)}, nil
}

// limitsOf returns those of an agent's limits that its children share.
func limitsOf(a *agent.Agent) session.Left {
	l := a.Limits()
	return session.Left{Turns: l.Turns, Calls: l.ToolCalls, Tokens: l.Tokens}
}
