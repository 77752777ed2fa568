package histories

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// look looks at a call: at how it stands, and at its receipts. These are two
// reads.
func (c *client) look(ctx context.Context, runner int, call string) {
	in := operation{name: "call", call: call, runner: runner}
	b := c.begin()
	st, err := c.runners[runner].Call(ctx, chat, call, user)
	shows := callState{status: st.Status, settled: st.Settled, pauses: st.Pauses}
	if st.Mail != nil {
		shows.box = mailbox{count: st.Mail.Count, shown: st.Mail.Shown}
	}
	if st.Settled == event.Done {
		shows.output = textOf(st.Output)
	}
	out, happened := c.outcome(shows.shows(), err)
	if !happened {
		return
	}
	c.ended(b, in, out)
	if err != nil {
		return
	}
	c.mu.Lock()
	c.tools[call] = st.Tool
	c.mu.Unlock()
	var all []string
	for _, r := range st.Receipts {
		all = append(all, receiptText(r.Pause, r.Actor, r.Fate))
	}
	if takes(st.Tool) {
		c.received(ctx, b, in)
	}
	in.name = "receipts"
	c.ended(b, in, outcome{text: receiptsText(all)})
}

// find looks for a pause, by its id or by the key of its job.
func (c *client) find(ctx context.Context, in operation) {
	in.name, in.by, in.pause = "find", "", 1+c.r.IntN(2)
	c.do(in, func() (string, error) {
		p, err := c.runners[in.runner].Find(ctx,
			runner.Ref{Pause: session.PauseID(in.call, in.pause)}, user)
		switch {
		case errors.Is(err, session.ErrUnknownPause):
			return "unknown", nil
		case err != nil || p.Await.Reason == "":
			return "over", err
		}
		return c.waits(p), nil
	})
}

func (c *client) waits(p tool.Pause) string { return waitsText(p.Number, c.hourOf(p.Deadline)) }

// show looks at what waits.
func (c *client) show(ctx context.Context, runner int) {
	b, known := c.begin(), c.calls()
	t, err := c.runners[runner].Show(ctx, chat, user)
	if _, happened := c.outcome("", err); happened && err == nil {
		c.waiting(b, runner, known, t.Pending)
	}
}

// waiting records, of all calls that were known, that these wait and no others
// do.
func (c *client) waiting(b began, runner int, known []string, pending []tool.Pause) {
	for _, p := range pending {
		c.ended(b, operation{name: "waits", call: p.Call, runner: runner},
			outcome{text: c.waits(p)})
	}
	for _, id := range known {
		if !slices.ContainsFunc(pending, func(p tool.Pause) bool { return p.Call == id }) {
			c.ended(b, operation{name: "waits", call: id, runner: runner},
				outcome{text: callState{}.waits()})
		}
	}
}

// errNotToTheEnd is what watch says of a drive that the client left, or that
// others ended.
var errNotToTheEnd = errors.New("the drive was not seen to its end")

// watch records what a drive shows: each result and each pause was there at
// some moment between the drive's begin and then.
func (c *client) watch(runner int, events iter.Seq2[event.Event, error]) (failure error) {
	leave := math.MaxInt
	if c.number < clients && c.r.IntN(6) == 0 {
		leave = 1 + c.r.IntN(8)
	}
	b, known := c.begin(), c.calls()
	for ev, err := range events {
		if err != nil {
			failure = err
			var pending *session.PendingError
			if errors.As(err, &pending) {
				c.waiting(b, runner, known, pending.Pending)
			}
			continue
		}
		switch ev := ev.(type) {
		case event.Call:
			c.mu.Lock()
			c.tools[ev.Call.ID] = ev.Call.Name
			c.mu.Unlock()
			c.start()
		case event.Pause:
			c.ended(b, operation{name: "waits", call: ev.Pause.Call, runner: runner},
				outcome{text: c.waits(ev.Pause)})
		case event.Result:
			s := callState{status: session.Settled, settled: ev.Status}
			if ev.Status == event.Done {
				s.output = textOf(ev.Result.Output)
			}
			c.ended(b, operation{name: "result", call: ev.Result.Call, runner: runner},
				outcome{text: s.result()})
		case event.End:
			if failure == nil && (ev.Finish == event.FinishPaused ||
				ev.Finish == event.FinishStop) {
				c.waiting(b, runner, known, ev.Pending)
			} else if failure == nil {
				failure = errNotToTheEnd
			}
		}
		if leave--; leave == 0 {
			return errNotToTheEnd
		}
	}
	return failure
}
