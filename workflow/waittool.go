package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// waitCall waits for steps, and for delays before tries.
type waitCall struct {
	Steps  []string `json:"steps,omitempty"` // one of them, or with All each
	All    bool     `json:"all,omitzero"`
	Abort  []string `json:"abort,omitempty"` // are ended first
	Delays []delay  `json:"delays,omitempty"`
}

// delay is how long after its end a step is begun again.
type delay struct {
	Step string `json:"step"`
	MS   int64  `json:"ms"`
}

// waitResult is what a wait has come to.
type waitResult struct {
	Ended []endedStep `json:"ended,omitempty"` // in the order of their ends
	Due   []string    `json:"due,omitempty"`   // whose delay is over
}

type endedStep struct {
	Step   string `json:"step"`
	Status status `json:"status"`
}

// waiting is the tool that waits. Its results tell of no times and no outputs: a
// history of many steps stays small, and reads the same whenever it was cut off.
type waiting struct{}

func (waiting) Spec() tool.Spec {
	return tool.Spec{Name: waitTool, Description: "Waits for steps of the workflow.",
		Effect: tool.Idempotent, MayPause: true}
}

// Awaits names the steps of a call, for the runner.
func (waiting) Awaits(arguments json.RawMessage) []string {
	var c waitCall
	if strictjson.Read(arguments, &c) != nil {
		return nil
	}
	return c.Steps
}

// Acts tells the runner that a call is none that layers are asked about.
func (waiting) Acts(json.RawMessage) (action, handle string) { return "await", "" }

// Execute waits, or tells what has come.
func (waiting) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	var in waitCall
	if err := strictjson.Read(c.Arguments, &in); err != nil {
		return tool.Execution{}, err
	}
	host, err := c.Handles()
	if err != nil {
		return tool.Execution{}, err
	}
	w := &wait{ctx: ctx, call: c, host: host, in: in}
	if c.Answer == nil {
		if err := w.abort(in.Abort); err != nil {
			return tool.Execution{}, err
		}
	}
	return w.look()
}

// wait is one entry of a wait.
type wait struct {
	ctx  context.Context
	call tool.Call
	host tool.Handles
	in   waitCall

	ended []ended
	open  []string
	asks  bool // one asks a model, and there is none
}

type ended struct {
	endedStep
	at time.Time
}

// abort ends steps. One that may not be ended, by the rules of who may do what,
// is waited for. If the store fails, the runtime enters the call again.
func (w *wait) abort(steps []string) error {
	for _, name := range steps {
		err := w.host.Abort(w.ctx, w.call, name)
		_, failed := errors.AsType[interface {
			error
			StoreFailed()
		}](err)
		if failed || w.ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// look finds out which steps have ended. A step that asks a model is ended: a
// workflow has none.
func (w *wait) look() (tool.Execution, error) {
	for _, name := range w.in.Steps {
		h, err := w.host.Handle(w.ctx, w.call, name)
		if err == nil && asksModel(&h) {
			if err := w.abort([]string{name}); err != nil {
				return tool.Execution{}, err
			}
			if h, err = w.host.Handle(w.ctx, w.call, name); err == nil {
				w.asks = w.asks || asksModel(&h)
			}
		}
		switch {
		case errors.Is(err, tool.ErrUnknownHandle): // it was not begun
			w.ended = append(w.ended, ended{endedStep{name, unknown}, time.Time{}})
		case err != nil:
			return tool.Execution{}, err
		case h.State == tool.HandleStopped:
			w.ended = append(w.ended, ended{endedStep{name, status(h.Status)}, h.Ended})
		default:
			w.open = append(w.open, name)
		}
	}
	until, due, err := w.delays()
	if err != nil {
		return tool.Execution{}, err
	}
	come := len(w.ended)+len(due) > 0
	if w.in.All {
		come = len(w.open) == 0
	}
	if a := w.call.Answer; come || a != nil && a.Interrupted {
		return w.reply(due)
	}
	return tool.Execution{Await: w.pause(until)}, nil
}

// delays returns when the first delay is over, and those that are: as the answer
// to a pause of this call tells, and no clock, so that each entry finds the same.
func (w *wait) delays() (first time.Time, due []string, err error) {
	for _, d := range w.in.Delays {
		h, err := w.host.Handle(w.ctx, w.call, d.Step)
		if err != nil {
			return first, nil, err
		}
		at := h.Ended.Add(time.Duration(d.MS) * time.Millisecond)
		if a := w.call.Answer; a != nil && (a.TimedOut || len(w.in.Steps) == 0) && !at.After(a.At) {
			due = append(due, d.Step)
		} else if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first, due, nil
}

// pause returns what is waited for.
func (w *wait) pause(until time.Time) *tool.Await {
	switch {
	case w.asks: // its body takes a moment to end
		return &tool.Await{Reason: tool.ReasonTimer, Timeout: time.Second}
	case len(w.open) == 0:
		return &tool.Await{Reason: tool.ReasonTimer, Deadline: until}
	}
	a := &tool.Await{Reason: tool.ReasonHandles, Handles: &tool.HandleWait{Any: w.open}}
	if w.in.All {
		a.Handles = &tool.HandleWait{All: w.open}
	}
	if !until.IsZero() {
		a.Deadline, a.OnTimeout = until, tool.ReenterOnTimeout
	}
	return a
}

func (w *wait) reply(due []string) (tool.Execution, error) {
	slices.SortStableFunc(w.ended, func(a, b ended) int { return a.at.Compare(b.at) })
	r := waitResult{Due: due}
	for _, e := range w.ended {
		r.Ended = append(r.Ended, e.endedStep)
	}
	out, err := strictjson.Append(nil, &r)
	return tool.Execution{Output: out}, err
}

// asksModel reports whether a step waits for an answer that is a model's.
func asksModel(h *tool.Handle) bool {
	switch {
	case h.State != tool.HandleWaiting:
		return false
	case h.Pause == nil:
		return h.Content.Question != nil && h.Content.Question.Assistant
	}
	return h.Pause.Await.Reason == tool.ReasonAssistant && h.Pause.Await.Gate == ""
}
