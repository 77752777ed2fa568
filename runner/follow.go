package runner

import (
	"context"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// followEvery is how often a session is looked at whose commits no signal tells of.
const followEvery = 250 * time.Millisecond

// Follow shows a session that is driven elsewhere: its messages from number from on, the results and pauses of its open turn,
// as they are committed, and progress. It ends with an event.End when the session is at rest.
func (rn *Runner) Follow(ctx context.Context, sessionID string, from int) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if _, err := rn.visible(ctx, OpFollow, sessionID); err != nil {
			yield(nil, err)
			return
		}
		f := &follower{display: display{rn: rn, session: sessionID, shown: map[string]string{}}, number: from}
		f.record = func(ctx context.Context, call string) (session.Record, error) {
			r, _, err := rn.store.Record(ctx, sessionID, call)
			return r, err
		}
		f.pause = func(ctx context.Context, c *session.Call) (tool.Pause, error) {
			return rn.store.Find(ctx, sessionID, tool.PauseID(c.ID, c.Pauses))
		}
		f.emit = func(ev event.Event) bool {
			f.left = f.left || !yield(ev, nil)
			return !f.left
		}
		if err := f.follow(ctx); err != nil && !f.left {
			yield(nil, err)
		}
	}
}

// follower is one Follow.
type follower struct {
	display
	number int  // of the next message to show
	left   bool // whoever ranged over the events has gone
}

func (f *follower) follow(ctx context.Context) error {
	changed, stop := f.rn.store.WatchAll(f.session)
	defer stop()
	progress, stopProgress := f.rn.live.subscribe(f.session)
	defer stopProgress()
	poll := time.NewTicker(followEvery)
	defer poll.Stop()
	for {
		if atRest, err := f.look(ctx); atRest || f.left || err != nil {
			return err
		}
		select {
		case <-changed:
		case p := <-progress:
			f.emit(p)
		case <-poll.C:
		case <-f.rn.closing.Done():
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look shows what is new, and says whether the session is at rest.
func (f *follower) look(ctx context.Context) (atRest bool, err error) {
	st, err := f.rn.store.Load(ctx, f.session)
	if err != nil {
		return false, err
	}
	if f.number < st.Messages {
		messages, err := f.rn.store.History(ctx, st, f.number)
		if err != nil {
			return false, err
		}
		for _, m := range messages {
			if !f.emit(event.Message{Number: f.number, Message: m}) {
				return false, nil
			}
			f.number++
		}
	}
	if err := f.show(ctx, f.news(st)); err != nil || f.left {
		return false, err
	}
	driven, _ := f.rn.store.Driven(st)
	if driven || session.Next(st, f.rn.store.Now()).Left() {
		return false, nil
	}
	end, err := f.rn.ending(ctx, f.session, nil)
	if err == nil {
		f.emit(end)
	}
	return true, err
}
