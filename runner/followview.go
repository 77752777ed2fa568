package runner

import (
	"context"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// view is what a look has seen of its session. It doesn't change, but for what
// was read of it: what one follower has read, the others needn't. Of messages
// that the view before had, it keeps nothing: a session may be long, and its
// view the last one for days.
type view struct {
	look *look
	err  error           // why there is no more to see
	ctx  context.Context // of the look, for reads
	st   *session.State
	seen session.Seen

	fresh    int // the number of the first message that the view before had not
	step     session.Step
	driven   bool
	undriven time.Time // since when work is due, if no drive takes it up
	below    below
	progress []progressOf // of open calls, that is stored

	mu    sync.Mutex // guards reads; held over no call
	reads map[readName]*read
}

// progressOf is progress of a call.
type progressOf struct {
	call, tool string
	tool.Progress
}

// tells reports whether a view tells all that a later one does.
func (v *view) tells(later *view) bool {
	if v.err != nil || v.seen != later.seen || v.driven != later.driven ||
		v.step.Kind != later.step.Kind || !v.undriven.Equal(later.undriven) ||
		!v.below.looked.Equal(later.below.looked) || len(v.progress) != len(later.progress) {
		return false
	}
	for i := range v.progress {
		if !v.progress[i].At.Equal(later.progress[i].At) {
			return false
		}
	}
	return true
}

// readName names what was read: the kind, and which one.
type readName struct {
	kind string
	id   string
	from int
	old  bool // it is about messages that the view before had
}

// read is one read of the store.
type read struct {
	done  chan struct{}
	value any
	err   error
}

// shared reads something of a view, once for all followers; what is old, once
// for those that want it at the same time. A follower waits for it no longer than
// ctx lasts. The value is not the caller's own.
func shared[T any](
	ctx context.Context, v *view, name readName, do func(context.Context) (T, error),
) (value T, err error) {
	v.mu.Lock()
	r := v.reads[name]
	if r == nil {
		r = &read{done: make(chan struct{})}
		if v.reads == nil {
			v.reads = map[readName]*read{}
		}
		v.reads[name] = r
		go func() {
			defer close(r.done)
			r.value, r.err = do(v.ctx)
			if name.old {
				v.mu.Lock()
				defer v.mu.Unlock()
				delete(v.reads, name)
			}
		}()
	}
	v.mu.Unlock()
	select {
	case <-r.done:
		value, _ = r.value.(T)
		return value, r.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// history returns the messages from number from on.
func (v *view) history(ctx context.Context, from int) ([]llm.Message, error) {
	return shared(ctx, v, readName{kind: "history", from: from, old: from < v.fresh},
		func(ctx context.Context) ([]llm.Message, error) {
			return v.look.rn.store.History(ctx, v.st, from)
		})
}

// record returns the record of a settled call, whose result stands in the message
// of that number.
func (v *view) record(ctx context.Context, call string, number int) (session.Record, error) {
	return shared(ctx, v, readName{kind: "record", id: call, old: number < v.fresh},
		func(ctx context.Context) (session.Record, error) {
			r, _, err := v.look.rn.store.Record(ctx, v.st.ID, call)
			return r, err
		})
}

// result returns how a settled call ended.
func (v *view) result(ctx context.Context, c *session.Call) (known, error) {
	return shared(ctx, v, readName{kind: "result", id: c.ID},
		func(ctx context.Context) (known, error) {
			r, err := v.record(ctx, c.ID, v.st.Messages)
			if err != nil {
				return known{}, err
			}
			return v.look.rn.known(ctx, v.st.ID, c, &r)
		})
}

// actions returns a list of what a call made. It is not kept: it may be large.
func (v *view) actions(
	ctx context.Context, call string, number int, list *session.Blob,
) ([]tool.Action, error) {
	return shared(ctx, v, readName{kind: "actions", id: call, from: number, old: true},
		func(ctx context.Context) ([]tool.Action, error) {
			return v.look.rn.actions(ctx, v.st.ID, call, []*session.Blob{list})
		})
}

// pause returns the open pause of a call; one without an Await is over.
func (v *view) pause(ctx context.Context, c *session.Call) (tool.Pause, error) {
	return shared(ctx, v, readName{kind: "pause", id: c.ID},
		func(ctx context.Context) (tool.Pause, error) {
			return v.look.rn.store.Find(ctx, v.st.ID, session.PauseID(c.ID, c.Pauses))
		})
}

// end returns how the session rests.
func (v *view) end(ctx context.Context) (event.End, error) {
	return shared(ctx, v, readName{kind: "end"}, func(ctx context.Context) (event.End, error) {
		end, err := v.look.rn.standing(ctx, v.st, nil, nil)
		if err == nil && end.Finish == event.FinishPaused {
			var gone []event.Parked
			gone, err = v.look.rn.lackingAs(ctx, v.st)
			end.Parked = append(end.Parked, gone...)
		}
		return end, err
	})
}
