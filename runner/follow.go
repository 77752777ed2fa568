package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// followEvery is how often a follower looks at a session without a signal:
// commits and progress of other processes give none.
const followEvery = 250 * time.Millisecond

// FollowOptions configure one Follow. Nil means the defaults.
type FollowOptions struct {
	// From is the number of the first message to show; default 0, the session's
	// first.
	From int
	// After is the cursor of the event that the caller saw last, see
	// event.Cursor: Follow goes on behind it, and From doesn't count. One that no
	// event of the session had is ErrInvalidCursor.
	After string
	// ThroughWaits: go on while calls wait, until the run is over. Otherwise
	// Follow ends, with event.FinishPaused, when calls wait and no drive holds
	// the session.
	ThroughWaits bool
	// Stay: go on over waits, ends of runs and new messages, until ctx or the
	// runner ends, or the session is deleted. An event.End is shown each time
	// that the session has come to rest: its run is over, or calls wait.
	Stay bool
}

// Follow shows a session without driving it: its messages, the results and
// pauses of its turns, as they are committed, and the progress of calls that
// run or wait. A user's message is shown once it is said; one that waits in the
// queue is shown when it is taken, and Show lists it until then. Progress that
// is reported in this process is shown at once. Of other progress the latest
// that is stored is shown, within 250 ms. Only the driver of a session sees what
// its model says as it streams.
//
// If work is due that no drive takes up, Follow shows an event.Undriven; with
// ThroughWaits or Stay also, in an event.Nested, for the sessions below this
// one. It ends with an event.End when the session is at rest, and with an error
// when ctx or the runner ends. Of turns that were over before it began, it shows
// the messages alone; with After, also the results that came behind it.
func (rn *Runner) Follow(
	ctx context.Context, sessionID string, actor Actor, o *FollowOptions,
) iter.Seq2[event.Event, error] {
	var own FollowOptions
	if o != nil {
		own = *o
	}
	return func(yield func(event.Event, error) bool) {
		op := Operation{Kind: OpFollow, Actor: actor, Session: sessionID}
		f, err := rn.follower(ctx, op, &own)
		if err != nil {
			yield(nil, err)
			return
		}
		f.yield = func(ev event.Event, _ error) bool {
			if f.marks {
				ev = event.At(ev, f.place.String())
			}
			return yield(ev, nil)
		}
		if err := f.follow(ctx); err != nil && !f.left {
			yield(nil, err)
		}
	}
}

// follower is one Follow. The goroutine that ranges over its events owns it.
type follower struct {
	display
	rn       *Runner
	session  string
	place    place
	marks    bool              // the next event tells of something committed
	through  bool              // waits are no end
	stays    bool              // ends of runs are none either
	began    bool              // it has looked once, or goes on behind a cursor
	reported map[string]report // by call: the progress that was shown last
	undriven time.Time         // since when work is due that no drive takes up, or zero
	told     bool              // that was shown
	below    below             // of the sessions below it
}

// follower returns a follower of a session, if the caller may follow it.
func (rn *Runner) follower(
	ctx context.Context, op Operation, o *FollowOptions,
) (*follower, error) {
	st, err := rn.visible(ctx, op)
	if err != nil {
		return nil, err
	}
	f := &follower{
		rn: rn, session: op.Session, through: o.ThroughWaits || o.Stay, stays: o.Stay,
		place: place{number: max(0, o.From)}, reported: map[string]report{},
	}
	if f.from = f; o.After != "" {
		f.began = true
		if f.place, err = parsePlace(o.After); err == nil && f.place.number > st.Messages {
			err = fmt.Errorf("%w: %.40q is behind its last message", ErrInvalidCursor, o.After)
		}
	}
	return f, err
}

// mark emits an event that tells of something committed.
func (f *follower) mark(ev event.Event) bool {
	f.marks = true
	defer func() { f.marks = false }()
	return f.emit(ev)
}

func (f *follower) pause(ctx context.Context, c *session.Call) (tool.Pause, error) {
	return f.rn.store.Find(ctx, f.session, session.PauseID(c.ID, c.Pauses))
}

func (f *follower) result(ctx context.Context, c *session.Call) (known, error) {
	r, err := f.record(ctx, c.ID)
	if err != nil {
		return known{}, err
	}
	return f.rn.known(ctx, f.session, c, &r)
}

func (f *follower) record(ctx context.Context, call string) (session.Record, error) {
	r, _, err := f.rn.store.Record(ctx, f.session, call)
	return r, err
}

// made returns nothing: artifacts are shown by the drive.
func (f *follower) made(string) []tool.Action { return nil }

// report is progress that was shown.
type report struct {
	tool.Progress
	live bool // as it was reported, and not from the store
}

func (r report) same(p tool.Progress) bool {
	return r.At.Equal(p.At) && r.Message == p.Message && r.Fraction == p.Fraction &&
		bytes.Equal(r.Data, p.Data)
}

// follow looks at the session after each signal, and otherwise each
// followEvery.
func (f *follower) follow(ctx context.Context) error {
	changed, stop := f.rn.store.WatchAll(f.session)
	defer stop()
	progress, stopProgress := f.rn.live.subscribe(f.session)
	defer stopProgress()
	poll := time.NewTicker(followEvery)
	defer poll.Stop()
	for {
		if atRest, err := f.look(ctx, progress); atRest || f.left || err != nil {
			return err
		}
		select {
		case <-changed:
		case p := <-progress:
			f.live(p)
		case <-poll.C:
		case <-f.rn.closing.Done():
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look shows what is new, and reports whether that is the end.
func (f *follower) look(ctx context.Context, progress <-chan liveEvent) (over bool, err error) {
	st, err := f.rn.store.Load(ctx, f.session)
	if err == nil && !st.Deleted.IsZero() {
		err = fmt.Errorf("%w: %q", session.ErrDeleted, f.session)
	}
	if err != nil {
		return false, err
	}
	for range len(progress) { // it was reported before what is shown next
		f.live(<-progress)
	}
	if err := f.messages(ctx, st); err != nil || f.left {
		return false, err
	}
	if err := f.calls(ctx, st); err != nil || f.left {
		return false, err
	}
	if err := f.stored(ctx, st); err != nil || f.left {
		return false, err
	}
	f.began = true
	step := f.rn.store.Next(st)
	driven, _ := f.rn.store.Driven(st)
	if f.noteUndriven(st, step.Working() && !driven); f.left {
		return false, nil
	}
	if f.through && step.Kind == session.StepWait {
		if err := f.noteBelow(ctx, st); err != nil || f.left {
			return false, err
		}
	}
	waits := step.Kind == session.StepWait
	if driven || step.HasWork() || f.through && !f.stays && waits {
		return false, nil
	}
	return !f.stays, f.rests(ctx, st)
}

// rests shows how the session rests, if that was not shown.
func (f *follower) rests(ctx context.Context, st *session.State) error {
	end, err := f.rn.standing(ctx, st, nil, nil)
	if err == nil && end.Finish == event.FinishPaused {
		var gone []event.Parked
		gone, err = f.rn.lackingAs(ctx, st)
		end.Parked = append(end.Parked, gone...)
	}
	if err != nil {
		return err
	}
	rest := restOf(st, &end)
	if f.stays && f.place.rest == rest {
		return nil
	}
	f.place.rest = rest
	f.mark(end)
	return nil
}

// undrivenAfter is how long work may be due before a follower is told that no
// drive takes it up. A worker takes it up within a second.
const undrivenAfter = 2 * time.Second

// noteUndriven notes whether work is due that no drive takes up. After a while
// it shows that, once.
func (f *follower) noteUndriven(st *session.State, undone bool) {
	switch now := time.Now(); {
	case !undone:
		f.undriven, f.told = time.Time{}, false
	case f.undriven.IsZero():
		f.undriven = now
	case !f.told && now.Sub(f.undriven) >= undrivenAfter:
		f.told = true
		f.emit(event.Undriven{Agent: st.Agent, Since: f.undriven})
	}
}

// below is what a follower knows of work that is due below its session.
type below struct {
	looked time.Time
	undone map[string]undone // by session
}

// undone is work that no drive has taken up.
type undone struct {
	due  time.Time // since when, by its session
	told bool
}

// noteBelow is noteUndriven for the sessions below. It looks at them now and
// then: each look reads all that wait.
func (f *follower) noteBelow(ctx context.Context, st *session.State) error {
	now := time.Now()
	if st.Children == 0 || now.Sub(f.below.looked) < undrivenAfter {
		return nil
	}
	before := f.below.undone
	f.below = below{now, map[string]undone{}}
	err := f.rn.eachBusy(ctx, st, func(child *session.State, is doing) {
		if is != works && is != lacks {
			return
		}
		u := undone{due: child.DueSince()}
		if was, ok := before[child.ID]; ok && was.due.Equal(u.due) {
			u.told = true
			if !was.told {
				l := lack{event.Parked{Agent: child.Agent, Session: child.ID, Since: u.due},
					child.Parent.Path}
				f.emit(event.Clone(l.undriven()))
			}
		}
		f.below.undone[child.ID] = u
	})
	if unreadable(err) {
		err = nil
	}
	return err
}

// messages shows the new messages. A turn that was closed since the last look
// may have results that no head showed; they are shown first.
func (f *follower) messages(ctx context.Context, st *session.State) error {
	if f.place.number >= st.Messages {
		return nil
	}
	messages, err := f.rn.store.History(ctx, st, f.place.number)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if f.began && m.Role == llm.RoleTool {
			if err := f.results(ctx, m); err != nil || f.left {
				return err
			}
		}
		number := f.place.number
		f.place.passed()
		if !f.mark(event.Message{Number: number, Message: m}) {
			return nil
		}
	}
	return nil
}

// calls shows what is new of the open turn.
func (f *follower) calls(ctx context.Context, st *session.State) error {
	for i := range st.Calls {
		c := st.Calls[i]
		if f.place.sees(i, &c) {
			continue
		}
		f.place.saw(i, sightOf(&c))
		f.marks = true
		err := f.showCall(ctx, &c)
		if f.marks = false; err != nil || f.left {
			return err
		}
	}
	return nil
}

// results shows those of a closed turn that were not shown while it was open.
func (f *follower) results(ctx context.Context, m llm.Message) error {
	for i, p := range m.Parts {
		r, ok := p.(llm.ToolResult)
		if !ok {
			continue
		}
		c := session.Call{
			ID: r.Call, Tool: r.Name, Status: session.Settled, Settled: event.Done,
			Media: len(r.Media) > 0,
		}
		if r.Error {
			c.Settled = event.Failed
		}
		if i < len(f.place.turn) && f.place.turn[i].settled != "" {
			continue
		}
		f.place.saw(i, sightOf(&c))
		switch record, err := f.record(ctx, r.Call); {
		case err == nil:
			f.mark(event.Result{Status: record.Status, Actor: record.Actor, Result: r.Clone()})
		case errors.Is(err, session.ErrUnknownCall): // one beyond the limit of a turn has no record
			f.mark(event.Result{Status: c.Settled, Result: r.Clone()})
		default:
			return err
		}
		if f.left {
			return nil
		}
	}
	return nil
}

// live shows progress as it is reported, unless the store was faster.
func (f *follower) live(p liveEvent) {
	last, ok := f.reported[p.Call]
	if ok && (p.Progress.At.Before(last.At) || !last.live && last.same(p.Progress)) {
		return
	}
	f.reported[p.Call] = report{p.Progress, true}
	f.emit(event.Clone(p))
}

// stored shows the stored progress of open calls where it is newer than what
// was shown.
func (f *follower) stored(ctx context.Context, st *session.State) error {
	for i := range st.Calls {
		c := &st.Calls[i]
		if c.Status == session.Settled {
			continue
		}
		p, err := f.rn.store.LatestProgress(ctx, f.session, c.ID)
		if err != nil {
			return err
		}
		if p == nil || !p.At.After(f.reported[c.ID].At) {
			continue
		}
		f.reported[c.ID] = report{*p, false}
		if !f.emit(event.Clone(event.Progress{Call: c.ID, Tool: c.Tool, Progress: *p})) {
			return nil
		}
	}
	return nil
}
