package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// display shows what is committed of a session's open turn, whoever committed it.
type display struct {
	rn       *Runner
	session  string
	shown    map[string]sight // what was last shown of each call
	fresh    []session.Call   // what news returns
	outcomes outcomes         // of bodies of this process
	emit     func(event.Event) bool
	left     bool // whoever ranged over the events has gone
	record   func(ctx context.Context, call string) (session.Record, error)
	pause    func(ctx context.Context, c *session.Call) (tool.Pause, error) // one without Await is over already
}

// sight is what there is to show of a call: its open pause, by number, or its result, by how it settled.
type sight struct {
	pause   int
	settled event.Status
	parked  bool
}

func sightOf(c *session.Call) (s sight) {
	switch c.Status {
	case session.Settled:
		s.settled = c.Settled
	case session.Pending:
		s.pause = c.Pauses
	default:
		s.parked = c.Parked != nil
	}
	return s
}

// news lists the calls of the open turn that have settled or paused since they were last shown, in call order. The list is good
// until this is asked again.
func (d *display) news(st *session.State) []session.Call {
	d.fresh = d.fresh[:0]
	for i := range st.Calls {
		c := &st.Calls[i]
		if s := sightOf(c); s != (sight{}) && s != d.shown[c.ID] {
			d.fresh = append(d.fresh, *c)
		}
	}
	return d.fresh
}

// show emits the results and pauses of calls. Those that it doesn't come to are still to be shown: whoever listened has left, or panics, or
// one can't be read.
func (d *display) show(ctx context.Context, news []session.Call) error {
	for i := 0; i < len(news) && !d.left; i++ {
		if err := d.showCall(ctx, &news[i]); err != nil {
			return err
		}
		d.shown[news[i].ID] = sightOf(&news[i])
	}
	return nil
}

// show emits what is new of the open turn.
func (d *drive) show() error {
	var news []session.Call
	d.lease.View(func(st *session.State) { news = d.news(st) })
	if len(news) > 0 {
		d.catchUp()
	}
	err := d.display.show(d.commitCtx(), news)
	if session.Moved(err) { // a result that rode was dropped while the news was told, and has no record
		return d.lookAgain(decided(err))
	}
	return err
}

// noteShown has it noted which results were shown that nobody could be shown before. They matter only while the turn is open.
func (d *drive) noteShown() error {
	shown, _ := d.marks()
	if len(shown) == 0 {
		return nil
	}
	return d.lease.Ride(d.commitCtx(), func(tx *session.Tx) error { return tx.Seen(shown, nil) })
}

// noteSeen is for a drive that ends before it has shown everything: it has noted what the next one is to show, and what not.
func (d *drive) noteSeen() []session.Transition {
	shown, unseen := d.marks()
	if len(shown)+len(unseen) == 0 {
		return nil
	}
	return []session.Transition{func(tx *session.Tx) error { return tx.Seen(shown, unseen) }}
}

// noteSeenAlone is for a drive whose message was refused before anything was
// written: nothing is written of it, but which results were shown that could not
// be shown before.
func (d *drive) noteSeenAlone(ctx context.Context) []session.Transition {
	shown, _ := d.marks()
	if len(shown) == 0 || d.lease.Drop(ctx) != nil {
		return nil
	}
	return []session.Transition{func(tx *session.Tx) error { return tx.Seen(shown, nil) }}
}

// marks lists the settled calls of the open turn that were shown, and those that were not, where the head says otherwise.
func (d *drive) marks() (shown, unseen []string) {
	d.lease.View(func(st *session.State) {
		for i := range st.Calls {
			c := &st.Calls[i]
			switch was := d.shown[c.ID] == sightOf(c); {
			case c.Status != session.Settled || was != c.Unshown:
			case was:
				shown = append(shown, c.ID)
			default:
				unseen = append(unseen, c.ID)
			}
		}
	})
	return shown, unseen
}

// catchUp emits the progress that is there: it was reported before what is shown next.
func (d *drive) catchUp() {
	for range len(d.progress) {
		d.emit(<-d.progress)
	}
}

func (d *display) showCall(ctx context.Context, c *session.Call) error {
	if c.Status == session.Pending {
		d.showActions(c)
		p, err := d.pause(ctx, c)
		if err != nil {
			return err
		}
		if p.Await.Reason != "" { // otherwise its result will be shown
			d.emit(event.Pause{Pause: p})
		}
		return nil
	}
	if c.Parked != nil {
		d.emit(c.ShowParked())
		return nil
	}
	k, err := d.result(ctx, c)
	if err != nil {
		return err
	}
	d.showActions(c)
	d.emit(event.Result{Status: k.status, By: k.by, Result: toolResult(c.ID, c.Tool, k).Clone()})
	return nil
}

// showPause is a pause as this drive's head has it.
func (d *drive) showPause(ctx context.Context, c *session.Call) (p tool.Pause, err error) {
	if err := d.loadTurn(); err != nil {
		return p, err
	}
	return d.rn.store.Pause(ctx, d.lease.State(), c, session.Arguments(d.asked, c.ID))
}

func (d *display) showActions(c *session.Call) {
	for _, a := range d.outcomes.takeActions(c.ID) {
		if a.Artifact != nil {
			d.emit(event.Artifact{Call: c.ID, Tool: c.Tool, Artifact: *a.Artifact})
		}
	}
}

// result is how a settled call ended: as this drive saw it, or as it is stored.
func (d *display) result(ctx context.Context, c *session.Call) (known, error) {
	if k, ok := d.outcomes.get(c.ID); ok && k.status == c.Settled && (!c.Media || k.media != nil) { // or else somebody was faster than the body
		return k, nil
	}
	r, err := d.record(ctx, c.ID)
	if err != nil {
		return known{}, err
	}
	k := known{status: r.Status, by: r.By}
	if k.output, err = d.rn.store.Value(ctx, d.session, r.Output); err != nil {
		return known{}, err
	}
	if c.Media {
		actions, err := d.rn.actions(ctx, d.session, c.ID, r.Actions)
		if err != nil {
			return known{}, err
		}
		for _, a := range actions {
			if a.Media != nil {
				k.media = append(k.media, *a.Media)
			}
		}
	}
	d.outcomes.put(c.ID, k)
	return k, nil
}

func toolResult(id, name string, k known) llm.ToolResult {
	return llm.ToolResult{Call: id, Name: name, Output: k.output, Error: k.status != event.Done, Media: k.media}
}

// results is the message with the results of the open turn, in call order, and how its calls ended.
func (d *drive) results() (m llm.Message, ends []event.Status, err error) {
	m.Role = llm.RoleTool
	settled, _ := d.openCalls()
	opened := min(len(d.asked), agentcore.MaxCalls)
	if len(settled) < opened { // a renewal of the lease has found that another drive closed the turn
		return m, nil, decided(fmt.Errorf("%w: the turn is closed", session.ErrStale))
	}
	for i := range settled {
		k, err := d.result(d.commitCtx(), &settled[i])
		if err != nil {
			return m, nil, decided(err)
		}
		m.Parts = append(m.Parts, toolResult(settled[i].ID, settled[i].Tool, k))
		ends = append(ends, k.status)
	}
	for _, c := range d.asked[opened:] {
		k := known{status: event.Failed, output: tooMany}
		m.Parts = append(m.Parts, toolResult(c.ID, c.Name, k))
		d.emit(event.Result{Status: k.status, Result: toolResult(c.ID, c.Name, k).Clone()})
	}
	return m, ends, nil
}

// tooMany is what the model reads of a call beyond the limit of a turn.
var tooMany = json.RawMessage(fmt.Sprintf(`"The tool was not run: a turn holds at most %d tool calls. Ask again for what is missing."`,
	agentcore.MaxCalls))

// showUnseen shows the results of a turn that was closed by a drive without
// a listener.
func (d *drive) showUnseen() error {
	var unseen *session.Unseen
	d.lease.View(func(st *session.State) { unseen = st.Unseen })
	if unseen == nil || d.heard != nil {
		return nil
	}
	for _, id := range unseen.Calls {
		r, err := d.lease.Record(d.commitCtx(), id)
		if errors.Is(err, session.ErrUnknownCall) { // swept, by an older version
			continue
		}
		if err != nil {
			return err
		}
		c := session.Call{ID: id, Tool: r.Tool, Status: session.Settled, Settled: r.Status}
		if err := d.showCall(d.commitCtx(), &c); err != nil || d.left {
			return err
		}
	}
	if err := d.loadHistory(); err != nil {
		return err
	}
	if unseen.Message < len(d.history) {
		d.emit(event.Message{Number: unseen.Message, Message: d.history[unseen.Message].Clone()})
	}
	if d.left {
		return nil
	}
	if err := d.lease.Ride(d.commitCtx(), (*session.Tx).SeenBefore); err != nil {
		return err
	}
	// It is stored at once, since the message that the drive is for may be
	// refused. Where that fails it rides on, and what comes next fails, too.
	_ = d.lease.Update(d.commitCtx())
	return nil
}

// unheard lists the settled calls that this drive would be the first to show,
// if it had a listener.
func (d *drive) unheard() (calls []string) {
	if d.heard == nil {
		return nil
	}
	settled, _ := d.openCalls()
	for i := range settled {
		if c := &settled[i]; d.heard[c.ID] != sightOf(c) {
			calls = append(calls, c.ID)
		}
	}
	return calls
}
