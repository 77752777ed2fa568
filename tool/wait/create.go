package wait

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// create makes wait handles. In the session's scope a handle is a session below
// the caller's, of one call of this same tool, which waits there.
type create struct{ base }

type createInput struct {
	ID       string          `json:"handleId"`
	Type     tool.WaitType   `json:"type"`
	Metadata json.RawMessage `json:"metadata"`
	Timeout  *millis         `json:"timeoutMs"`
}

// Acts tells the runner which handle a call makes.
func (t *create) Acts(arguments json.RawMessage) (action, handle string) {
	return waits.ActionCreate, idOf(arguments)
}

// Policy tells the runner that wait handles go on when a turn ends.
func (t *create) Policy() tool.HandlePolicy { return tool.HandlePolicy{AtEnd: tool.KeepAtEnd} }

// Execute makes a handle, or, in the handle's own session, waits for its end.
func (t *create) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	if begun, err := waits.Begun(ctx, c); err != nil || begun != nil {
		return pending(begun), err
	}
	in, err := input[createInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	n, err := t.wanted(in)
	if err != nil {
		return tool.Execution{}, err
	}
	host, err := waits.HostOf(c)
	if err != nil {
		return tool.Execution{}, err
	}
	w, step, err := host.CreateWait(ctx, c, n)
	if err != nil {
		return tool.Execution{}, worded(err)
	}
	url := ""
	if t.config.Webhook != nil && w.Token != "" {
		url = t.config.Webhook(w.Token)
	}
	exec, err := reply(waits.CreatedBy(&w, n.Timeout, url))
	exec.Handle = step
	return exec, err
}

// wanted returns the handle that a call asks for.
func (t *create) wanted(in createInput) (n waits.New, err error) {
	if string(in.Metadata) == "null" {
		in.Metadata = nil
	}
	n = waits.New{Scope: t.config.Scope, ID: in.ID, Type: in.Type, Metadata: in.Metadata}
	if err := waits.CheckID(in.ID); err != nil {
		return n, waits.Errorf("%v.", err)
	}
	if err := waits.CheckMetadata(in.Metadata); err != nil {
		return n, waits.Errorf("%v.", err)
	}
	if n.Timeout, err = timeout(in.Timeout, &t.config); err != nil {
		return n, err
	}
	if n.Type == tool.TimerWait && n.Timeout == 0 {
		return n, waits.Errorf("A timer needs timeoutMs: after how long it completes.")
	}
	return n, nil
}

// timeout returns after how long a handle ends by itself; zero: it doesn't.
func timeout(given *millis, c *Config) (time.Duration, error) {
	if given == nil {
		return 0, nil
	}
	switch d := given.duration(); {
	case d <= 0:
		return 0, waits.Errorf("timeoutMs must be positive.")
	case d > c.MaxSleep:
		return 0, waits.Errorf("timeoutMs is too long: at most %d (%s) are taken.",
			waits.MS(c.MaxSleep), waits.Duration(c.MaxSleep))
	default:
		return d, nil
	}
}

// pending returns the pause of a handle's own call; nothing without a handle.
func pending(begun *tool.WaitStep) tool.Execution {
	if begun == nil {
		return tool.Execution{}
	}
	a := tool.Await{Reason: tool.ReasonExternal, Mode: tool.ModeOutput, Deadline: begun.Deadline}
	if begun.Type == tool.TimerWait {
		a.Reason = tool.ReasonTimer
	}
	return tool.Execution{Await: &a}
}
