package runner

import (
	"context"
	"encoding/json"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// display shows a listener what is committed of the calls of a session's open
// turn, whichever process committed it. A drive has one, and so has a Follow.
// The listener's goroutine owns it.
type display struct {
	listener
	from  source
	fresh []fresh // what news returns
}

// fresh is a call of which something is new.
type fresh struct {
	call  session.Call
	index int // its place in the turn
}

// source is where a display reads what it shows of a call.
type source interface {
	// pause returns the open pause of a call. One without an Await is over
	// already, and its result will be shown.
	pause(ctx context.Context, c *session.Call) (tool.Pause, error)
	// result returns how a settled call ended.
	result(ctx context.Context, c *session.Call) (known, error)
	// made returns what a call made since the last call of made.
	made(call string) []tool.Action
}

// news lists the calls of the open turn that have settled, paused or been
// parked since they were last shown, in call order. The list is good until the
// next call.
func (d *display) news(st *session.State) []fresh {
	d.fresh = d.fresh[:0]
	seen := d.now()
	for i := range st.Calls {
		c := &st.Calls[i]
		if s := sightOf(c); s != (sight{}) && s != seen.calls[c.ID] {
			d.fresh = append(d.fresh, fresh{*c, i})
		}
	}
	return d.fresh
}

// show emits the results and pauses of calls. If the caller leaves or panics,
// or a call can't be read, the rest is still to be shown.
func (d *display) show(ctx context.Context, news []fresh) error {
	for i := 0; i < len(news) && !d.left; i++ {
		c := &news[i].call
		if err := d.showCall(ctx, news[i].index, c); err != nil {
			return err
		}
		d.now().calls[c.ID] = sightOf(c)
	}
	return nil
}

// showCall emits what is new of one call, which has that place in its turn.
func (d *display) showCall(ctx context.Context, index int, c *session.Call) error {
	switch {
	case c.Status == session.Pending:
		d.showMade(c)
		p, err := d.from.pause(ctx, c)
		if err != nil {
			return err
		}
		if p.Await.Reason != "" {
			d.emit(event.Pause{Pause: p})
		}
		return nil
	case c.Parked != nil:
		d.emit(c.ShowParked())
		return nil
	}
	k, err := d.from.result(ctx, c)
	if err != nil {
		return err
	}
	d.showMade(c)
	if !c.Background {
		d.emit(k.event(index, c.ID, c.Tool))
	}
	return nil
}

// showMade shows the artifacts of a call.
func (d *display) showMade(c *session.Call) {
	for _, a := range d.from.made(c.ID) {
		if a.Artifact != nil && !c.Background {
			d.emit(event.Artifact{Call: c.ID, Tool: c.Tool, Artifact: *a.Artifact})
		}
	}
}

// known is how a call ended, as far as that is shown.
type known struct {
	status event.Status
	output json.RawMessage
	media  []llm.Media
	by     string
	ran    session.Ran
}

// event returns the event of the end of a call, which has that place in its
// turn.
func (k *known) event(index int, id, name string) event.Result {
	ev := event.Result{Index: index, Status: k.status, Actor: k.by, Duration: k.ran.For(),
		Result: k.toolResult(id, name).Clone()}
	if k.ran.TimedOut && k.status == event.Failed {
		ev.Status = event.TimedOut
	}
	return ev
}

// tells reports whether k is the end of a settled call. If it isn't, another
// end was committed first.
func (k *known) tells(c *session.Call) bool {
	return k.status != "" && k.status == c.Settled && (!c.Media || k.media != nil)
}

// toolResult returns the result as the model reads it.
func (k *known) toolResult(id, name string) llm.ToolResult {
	return llm.ToolResult{
		Call: id, Name: name, Output: k.output, Error: k.status != event.Done, Media: k.media,
	}
}

// known reads how a call ended from its record.
func (rn *Runner) known(
	ctx context.Context, id string, c *session.Call, r *session.Record,
) (known, error) {
	k := known{status: r.Status, by: r.Actor, ran: r.Ran}
	var err error
	if k.output, err = rn.store.Value(ctx, id, r.Output); err != nil || !c.Media {
		return k, err
	}
	actions, err := rn.actions(ctx, id, c.ID, r.Actions)
	for _, a := range actions {
		if a.Media != nil {
			k.media = append(k.media, *a.Media)
		}
	}
	return k, err
}
