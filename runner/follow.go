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
// pauses of its turns, as they are committed, the progress of calls that run or
// wait, and what its model says as it streams. A user's message is shown once it
// is said; one that waits in the queue is shown when it is taken, and Show lists
// it until then.
//
// A follower who comes in the middle of a message is shown all that was said of
// it so far first. One that reads slowly is shown more at once; no drive waits
// for it. It begins with no such text: one who follows again forgets what it was
// shown of a message that is not committed. Text is void with a Retry, with the
// Start of a TextDelta, with the model's Message, which has it all, and with an
// End.
//
// What is said and reported in this process is shown at once. Where several
// processes share the engine, what is committed and reported in another one is
// shown within 250 ms while something happens in the session, and otherwise
// within a second, or a bit later if very many are followed. What its model says
// there is shown with the commit, or with Options.FanOut at once.
//
// If work is due that no drive takes up, Follow shows an event.Undriven; with
// ThroughWaits or Stay also, in an event.Nested, for the sessions below this
// one. It ends with an event.End when the session is at rest, and with an error
// when ctx or the runner ends. Of turns that were over before it began, it shows
// the messages and artifacts alone; with After, also the results that came behind
// it.
//
// However many follow a session in a process, the session is looked at once.
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
			ev = event.Clone(ev) // other followers are shown the same
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

// MayFollow returns why the actor may not follow a session; nil: it may. It asks
// what Follow asks before it begins, and no more: for a program that shows a
// stream which lasts, and asks from time to time whether it still may.
func (rn *Runner) MayFollow(ctx context.Context, sessionID string, actor Actor) error {
	_, err := rn.visible(ctx, Operation{Kind: OpFollow, Actor: actor, Session: sessionID})
	return err
}

// follower is one Follow. The goroutine that ranges over its events owns it.
type follower struct {
	display
	rn       *Runner
	session  string
	place    place
	marks    bool                 // the next event tells of something committed
	through  bool                 // waits are no end
	stays    bool                 // ends of runs are none either
	began    bool                 // it has looked once, or goes on behind a cursor
	reported map[string]report    // by call: the progress that was shown last
	told     time.Time            // of which undriven work it has told
	below    map[string]time.Time // by session: the same of those below
	tap      *tap
	view     *view // that it shows
	begun    begun
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
	return f.view.pause(ctx, c)
}

func (f *follower) result(ctx context.Context, c *session.Call) (known, error) {
	return f.view.result(ctx, c)
}

// made returns nothing: a follower has shown it before, see artifacts.
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

// follow shows what is new whenever there is something.
func (f *follower) follow(ctx context.Context) error {
	look, leave := f.rn.looks.join(f.rn, f.session, f.through)
	defer leave()
	f.tap = look.feed.tap()
	defer f.tap.close()
	ticket, asked := look.ask(), 0
	for {
		if v := look.seen(ticket); v != nil {
			over, err := f.see(ctx, v)
			if over || f.left || err != nil {
				return err
			}
			// What the model says comes behind the messages before it.
			events, ahead := f.tap.heard(f.place.number, asked)
			if ahead > 0 {
				ticket, asked = look.ask(), ahead
			} else if f.hear(events); f.left {
				return nil
			}
		}
		select {
		case <-f.tap.wake:
		case <-f.rn.closing.Done():
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// see shows what is new of a view, and reports whether that is the end.
func (f *follower) see(ctx context.Context, v *view) (over bool, err error) {
	if v == f.view {
		return false, nil
	}
	if v.err != nil {
		return false, v.err
	}
	f.view = v
	f.hear(f.tap.told()) // it was reported before what is shown next
	for _, show := range []func(context.Context, *view) error{
		f.messages, f.calls, f.stored, f.undriven,
	} {
		if err := show(ctx, v); err != nil || f.left {
			return false, err
		}
	}
	f.began = true
	waits := v.step.Kind == session.StepWait
	switch {
	case v.driven, v.step.HasWork(), f.through && !f.stays && waits, f.stays && v.below.busy:
		return false, nil
	}
	return !f.stays, f.rests(ctx, v)
}

// rests shows how the session rests, if that was not shown.
func (f *follower) rests(ctx context.Context, v *view) error {
	end, err := v.end(ctx)
	if err != nil {
		return err
	}
	rest := restOf(v.st, &end)
	if f.stays && f.place.rest == rest {
		return nil
	}
	f.place.rest = rest
	f.mark(end)
	f.tap.again()
	return nil
}

// undriven tells of work that is due and that no drive takes up, here and
// below, once.
func (f *follower) undriven(_ context.Context, v *view) error {
	if since := v.undriven; !since.IsZero() && !since.Equal(f.told) {
		f.told = since
		f.emit(event.Undriven{Agent: v.st.Agent, Since: since})
	}
	if !f.through {
		return nil
	}
	told := map[string]time.Time{}
	for id, u := range v.below.undone {
		if !u.told || f.left {
			continue
		}
		if told[id] = u.due; !f.below[id].Equal(u.due) {
			f.emit(u.lack.undriven())
		}
	}
	f.below = told
	return nil
}

// messages shows the new messages. A turn that was closed since the last look
// may have results that no head showed; they are shown first.
func (f *follower) messages(ctx context.Context, v *view) error {
	if f.place.number >= v.st.Messages {
		return nil
	}
	messages, err := v.history(ctx, f.place.number)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if m.Role == llm.RoleTool {
			if err := f.results(ctx, m); err != nil || f.left {
				return err
			}
		}
		number := f.place.number
		f.place.passed()
		if m.Role == llm.RoleAssistant {
			f.tap.again()
		}
		if !f.mark(event.Message{Number: number, Message: m}) {
			return nil
		}
	}
	return nil
}

// calls shows what is new of the open turn.
func (f *follower) calls(ctx context.Context, v *view) error {
	for i := range v.st.Calls {
		c := v.st.Calls[i]
		f.begins(c.ID)
		if err := f.callMade(ctx, i, &c); err != nil || f.left {
			return err
		}
		if f.place.sees(i, &c) {
			continue
		}
		f.place.saw(i, sightOf(&c))
		f.marks = true
		err := f.showCall(ctx, i, &c)
		if f.marks = false; err != nil || f.left {
			return err
		}
	}
	return nil
}

// results shows those of a closed turn that were not shown while it was open,
// and what their calls made. Of a turn that was over before the follower began,
// it shows the latter alone.
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
		f.begins(r.Call)
		record, err := f.view.record(ctx, r.Call, f.place.number)
		if err == nil {
			c.Background = record.Background
			err = f.artifacts(ctx, i, &c, record.Actions)
		}
		if f.left {
			return nil
		}
		f.place.saw(i, sightOf(&c))
		switch {
		case !f.began && (err == nil || errors.Is(err, session.ErrUnknownCall)):
		case err == nil && record.Background:
		case err == nil:
			f.mark(event.Result{Index: i, Status: record.Shown(), Actor: record.Actor,
				Duration: record.Ran.For(), Result: r.Clone()})
		case errors.Is(err, session.ErrUnknownCall): // one beyond the limit of a turn has no record
			f.mark(event.Result{Index: i, Status: c.Settled, Result: r.Clone()})
		default:
			return err
		}
		if f.left {
			return nil
		}
	}
	return nil
}

// hear shows what was heard from the feed.
func (f *follower) hear(events []event.Event) {
	for _, ev := range events {
		if f.left {
			return
		}
		if s, is := ev.(event.Started); is {
			f.begun.add(s)
			continue
		}
		f.allBegin() // before what is reported of them
		p, is := ev.(event.Progress)
		if !is {
			f.emit(ev)
			continue
		}
		last, ok := f.reported[p.Call]
		if ok && (p.Progress.At.Before(last.At) || !last.live && last.same(p.Progress)) {
			continue // the store was faster
		}
		f.reported[p.Call] = report{p.Progress, true}
		f.emit(p)
	}
	f.allBegin()
}

// stored shows the stored progress of open calls where it is newer than what
// was shown.
func (f *follower) stored(_ context.Context, v *view) error {
	if len(v.st.Calls) == 0 {
		clear(f.reported)
	}
	for _, p := range v.progress {
		if !p.At.After(f.reported[p.call].At) {
			continue
		}
		f.reported[p.call] = report{p.Progress, false}
		if !f.emit(event.Progress{Call: p.call, Tool: p.tool, Progress: p.Progress}) {
			return nil
		}
	}
	return nil
}
