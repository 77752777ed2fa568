package runner

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

// undoer has tools call off outside what calls had begun that ended while they
// waited. It needs no lease. The courier has it look at a session after each
// commit that leaves something to be called off, and so does a worker that
// finds the session due. Between two tries a timer of this process waits, and
// the wake index for any other process. All methods may be called from any
// goroutine.
type undoer struct {
	rn     *Runner
	slots  chan struct{} // as many tries are made at once
	timers timers

	mu       sync.Mutex      // guards underway; held over no call
	underway map[string]bool // calls
}

const (
	// undosAtOnce is how many tries a runner makes at once.
	undosAtOnce = 16
	// undoSlack is how much longer than its time a try is taken for: until
	// then its end is committed.
	undoSlack = 10 * time.Second
)

func newUndoer(rn *Runner) *undoer {
	return &undoer{rn: rn, slots: make(chan struct{}, undosAtOnce), underway: map[string]bool{}}
}

// look starts the tries of a session that are due, and waits for later ones.
func (u *undoer) look(id string) error {
	st, err := u.rn.store.Load(u.rn.closing, id)
	if err != nil {
		return err
	}
	if u.rn.agents[st.Agent] == nil {
		return nil // other processes have it
	}
	var next time.Time
	var due []session.Errand
	for _, e := range st.Outbox {
		is, at, err := u.lookAt(st, &e)
		if err != nil {
			return err
		}
		if is {
			due = append(due, e)
		}
		next = sooner(next, at)
	}
	u.wait(id, next) // first: a try that can't begin waits for another time
	for _, e := range due {
		u.start(id, e.Call, hold.Of(u.rn.agents[e.Undo.Agent]).Tools)
	}
	return nil
}

// lookAt reports whether a try is due, parks what can't be tried, or returns when
// it is to be looked at again.
func (u *undoer) lookAt(
	st *session.State, e *session.Errand,
) (due bool, again time.Time, err error) {
	if e.Undo == nil || !e.Undo.Tries.GaveUp.IsZero() {
		return false, time.Time{}, nil
	}
	can := u.rn.canUndo(e.Undo.Agent, e.Undo.Tool)
	if can == e.Undo.Tries.Parked {
		if err := u.park(st.ID, e, !can); err != nil {
			return false, time.Time{}, err
		}
	}
	switch {
	case !can:
		return false, time.Time{}, nil
	case e.At.After(u.rn.store.Now()):
		return false, e.At, nil
	}
	return true, time.Time{}, nil
}

// park notes that no tool here can do it, or that one can again.
func (u *undoer) park(id string, e *session.Errand, parked bool) error {
	if parked {
		u.log(id, e).Warn("what an ended call had begun can't be called off: " +
			"the tool is gone, or has no Cancel any more")
	}
	return unlessStale(u.rn.store.Update(u.rn.closing, id, func(tx *session.Tx) error {
		return tx.ParkUndo(e.Call, parked)
	}))
}

// unlessStale drops the error that another process, or an operator, was faster.
func unlessStale(err error) error {
	if isAny(err, session.ErrStale, session.ErrNoUndo, session.ErrUnknownSession) {
		return nil
	}
	return err
}

// wait looks at the session again at a time; zero: not by itself.
func (u *undoer) wait(id string, at time.Time) {
	if at.IsZero() {
		u.timers.unset(id)
		return
	}
	u.timers.set(id, at.Sub(u.rn.store.Now()),
		func() { u.rn.courier.send(session.Owing{Session: id}) })
}

// start makes a try in a goroutine of its own, unless one is under way here.
func (u *undoer) start(id, call string, tools *toolbox.Box) {
	u.mu.Lock()
	underway := u.underway[call]
	u.underway[call] = true
	u.mu.Unlock()
	if underway {
		return
	}
	over := func() {
		u.mu.Lock()
		delete(u.underway, call)
		u.mu.Unlock()
	}
	if !u.rn.drives.start(func() {
		again, later := false, false
		defer func() { // also where the engine has ended this goroutine
			over()
			switch {
			case again:
				u.rn.courier.send(session.Owing{Session: id})
			case later:
				u.wait(id, u.rn.store.Now().Add(maxErrandWait))
			}
		}()
		again, later = u.try(id, call, tools)
	}) {
		over()
	}
}

// try takes a try, makes it, and commits what came of it. A try whose end can't
// be committed is over at its time, and another one follows. What a try needs is
// read before it is taken: if that can't be read here and now, no try has failed.
// It reports whether the session is to be looked at again, now or later.
func (u *undoer) try(id, call string, tools *toolbox.Box) (again, later bool) {
	ctx := u.rn.closing
	select {
	case u.slots <- struct{}{}:
		defer func() { <-u.slots }()
	case <-ctx.Done():
		return false, false
	}
	var e session.Errand
	c, unread := u.cancelled(ctx, id, call)
	err := unread
	if err == nil || errors.Is(err, session.ErrCorrupt) { // what is damaged fails each try
		e, err = u.take(ctx, id, call, tools)
	}
	if err != nil {
		if err = unlessStale(err); err != nil && ctx.Err() == nil {
			later = true
			u.rn.options.Logger.Warn("what an ended call had begun is called off later",
				"session", id, "call", call, "error", err)
		}
		return false, later
	}
	if err = unread; err == nil {
		c.Try = e.Undo.Tries.Count
		err = tools.Cancel(ctx, e.Undo.Tool, c, u.rn.left)
	}
	u.conclude(id, &e, tools.Cancels(e.Undo.Tool), err)
	return err != nil, false
}

func (u *undoer) log(id string, e *session.Errand) *slog.Logger {
	return u.rn.options.Logger.With("session", id, "tool", e.Undo.Tool, "call", e.Call)
}

func (u *undoer) take(
	ctx context.Context, id, call string, tools *toolbox.Box,
) (e session.Errand, err error) {
	err = u.rn.store.Update(ctx, id, func(tx *session.Tx) error {
		owed, found := tx.Undo(call)
		if !found {
			return session.ErrNoUndo
		}
		bound := tools.Cancels(owed.Undo.Tool).Bound()
		e, err = tx.TakeUndo(call, tx.Now.Add(bound+undoSlack))
		return err
	})
	return e, err
}

// cancelled returns what the tool is to call off, but for the number of the try.
func (u *undoer) cancelled(
	ctx context.Context, id, call string,
) (c tool.Cancelled, err error) {
	st, err := u.rn.store.Load(ctx, id)
	if err != nil {
		return c, err
	}
	e, found := st.Undo(call)
	if !found {
		return c, session.ErrNoUndo
	}
	o, store := e.Undo, u.rn.store
	c = tool.Cancelled{
		Call: tool.Call{
			ID: e.Call, Session: id, User: st.User, Turn: o.Turn, Tool: o.Tool, Effect: o.Effect,
			Attempt: max(o.Attempt, 1), Pauses: o.Number,
		},
		Number: o.Number, Reason: o.Pause.Reason, Key: o.Pause.Key,
		Question: o.Pause.Question, Cause: o.Cause, Actor: e.Actor, Why: e.Why,
		At: o.Ended,
	}
	if c.Call.Arguments, err = store.Value(ctx, id, o.Pause.Undo); err != nil {
		return c, err
	}
	if c.Data, err = store.Value(ctx, id, o.Pause.Data); err != nil {
		return c, err
	}
	c.Call.Answer, err = u.rn.answer(ctx, id, o.Answer)
	return c, err
}

// conclude commits what came of a try.
func (u *undoer) conclude(id string, e *session.Errand, does tool.Cancel, failure error) {
	tries, try := e.Undo.Tries.Count, e.Undo.Tries.Number
	settle := func(tx *session.Tx) error { return tx.UndoDone(e.Call) }
	switch {
	case failure == nil:
	case u.rn.closing.Err() != nil:
		settle = func(tx *session.Tx) error { return tx.UndoInterrupted(e.Call, try) }
	default:
		why := modeltext.CleanString(failure.Error())
		wait, again := does.After(tries)
		u.report(id, e, failure, again)
		settle = func(tx *session.Tx) error {
			var next time.Time
			if again {
				next = tx.Now.Add(wait)
			}
			return tx.UndoFailed(e.Call, try, why, next)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.rn.closing), undoSlack)
	defer cancel()
	if err := unlessStale(u.rn.store.Update(ctx, id, settle)); err != nil {
		u.log(id, e).Warn("what came of calling off could not be stored", "error", err)
	}
}

func (u *undoer) report(id string, e *session.Errand, failure error, again bool) {
	log := u.log(id, e)
	var p *tool.PanicError
	if errors.As(failure, &p) {
		log.Error("a tool's Cancel panicked", "panic", p.Error(), "stack", string(p.Stack()))
	}
	if again {
		log.Warn("calling off failed, and is tried again", "try", e.Undo.Tries.Count,
			"error", failure)
		return
	}
	log.Error("calling off failed for the last time, and is given up: see Runner.Undos",
		"try", e.Undo.Tries.Count, "error", failure)
}

// undoable returns what a pause keeps so that what the call has begun can be
// called off: the arguments that ran, if the tool has a Cancel.
func (a *attempt) undoable(
	ctx context.Context, ran func(context.Context) (json.RawMessage, error),
) (*session.Blob, error) {
	if a.core.Tools.Cancels(a.call.Tool).Do == nil {
		return nil, nil
	}
	args, err := ran(ctx)
	if err != nil {
		return nil, err
	}
	return session.NewBlob(args)
}
