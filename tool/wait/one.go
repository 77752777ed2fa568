package wait

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// waitFor waits for a handle.
type waitFor struct{ base }

type waitForInput struct {
	ID      string  `json:"handleId"`
	Timeout *millis `json:"timeoutMs"`
}

// Acts tells the runner that a call is none that layers are asked about.
func (t *waitFor) Acts(json.RawMessage) (action, handle string) { return waits.ActionAwait, "" }

// Awaits names the handle of a call, for the runner.
func (t *waitFor) Awaits(arguments json.RawMessage) []string {
	if id := idOf(arguments); id != "" {
		return []string{id}
	}
	return nil
}

// Execute waits, or tells what has come.
func (t *waitFor) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	in, err := input[waitForInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	host, err := waits.HostOf(c)
	if err != nil {
		return tool.Execution{}, err
	}
	p, err := patienceOf(c, in.Timeout)
	if err != nil {
		return tool.Execution{}, err
	}
	all, err := host.LookAtWaits(ctx, c, t.config.Scope, []string{in.ID})
	if err != nil {
		return tool.Execution{}, worded(err)
	}
	w := &all[0]
	now := waits.Now(c)
	if t.config.TimeoutEnds && !w.Ended() && p.over(c, now) && !p.interrupted(c) {
		*w, err = host.TimeWaitOut(ctx, c, t.config.Scope, in.ID, p.since.Add(p.limit))
		if err != nil {
			return tool.Execution{}, worded(err)
		}
		now = waits.Now(c)
	}
	r := waits.WaitedFor(w, p.since, now)
	switch {
	case w.Ended():
		exec, err := reply(r)
		exec.Handle = told(w)
		return exec, err
	case !p.over(c, now):
		return p.await(t.config.Scope, c, &tool.HandleWait{All: []string{in.ID}})
	}
	why := p.words(c)
	r.Error = &why
	if !p.interrupted(c) {
		took := r.Waited
		r.Status, r.Elapsed = tool.WaitTimeout, &took
	}
	return reply(r)
}

// told notes that a call's result tells of the end of a handle.
func told(w *tool.Wait) *tool.HandleStep {
	if w.Session == "" {
		return nil
	}
	return &tool.HandleStep{Name: w.ID, Child: w.Session, Told: true}
}

// patience is how long a call waits, and since when.
type patience struct {
	since   time.Time
	limit   time.Duration
	bounded bool
}

// patienceOf returns that of a call. What is waited for is kept with the pause,
// so that it counts from the first entry.
func patienceOf(c tool.Call, limit *millis) (p patience, err error) {
	p.since = waits.Now(c)
	if c.Answer != nil {
		err = json.Unmarshal(c.Answer.Data, &p.since)
	}
	if limit != nil {
		p.limit, p.bounded = limit.duration(), true
	}
	return p, err
}

// over reports whether the call waits no longer, whatever has not come.
func (p *patience) over(c tool.Call, now time.Time) bool {
	if a := c.Answer; a != nil && (a.TimedOut || a.Interrupted) {
		return true
	}
	return p.bounded && !now.Before(p.since.Add(p.limit))
}

// interrupted reports whether a message, or a cancellation, ended the wait.
func (p *patience) interrupted(c tool.Call) bool { return c.Answer != nil && c.Answer.Interrupted }

// words tells why the call waits no longer.
func (p *patience) words(c tool.Call) string {
	if p.interrupted(c) {
		return "The wait was interrupted, and what it waits for goes on."
	}
	return fmt.Sprintf("Wait timed out after %dms", waits.MS(p.limit))
}

// await returns the pause of a call that waits.
func (p *patience) await(
	scope tool.WaitScope, c tool.Call, w *tool.HandleWait,
) (tool.Execution, error) {
	since, err := json.Marshal(p.since)
	w.Scope = scope
	a := &tool.Await{Reason: tool.ReasonHandles, Handles: w, Data: since}
	if p.bounded {
		a.Deadline, a.OnTimeout = p.since.Add(p.limit), tool.ReenterOnTimeout
	}
	return tool.Execution{Await: a}, err
}
