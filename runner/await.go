package runner

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// HandleFilter selects handles of a session. The zero value selects all.
type HandleFilter struct {
	Open  bool   // those that have not stopped
	After string // those whose names come after this one
	Limit int    // so many at most; 0: all
}

// Handles lists handles of a session, by name: of each name, the newest. With the
// error of one whose own session is damaged, the list goes on after it.
func (rn *Runner) Handles(
	ctx context.Context, sessionID string, f HandleFilter, actor Actor,
) iter.Seq2[tool.Handle, error] {
	return func(yield func(tool.Handle, error) bool) {
		op := Operation{Kind: OpHandles, Actor: actor, Session: sessionID}
		if _, err := rn.visible(ctx, op); err != nil {
			yield(tool.Handle{}, err)
			return
		}
		rn.eachHandle(ctx, sessionID, f, yield)
	}
}

// handlesAtOnce is how many records of handles are read at once.
const handlesAtOnce = 64

func (rn *Runner) eachHandle(
	ctx context.Context, sessionID string, f HandleFilter, yield func(tool.Handle, error) bool,
) {
	n := 0
	for more := true; more; {
		var page []session.Handle
		var err error
		if page, more, err = rn.store.Handles(ctx, sessionID, f.After, handlesAtOnce); err != nil {
			yield(tool.Handle{}, err)
			return
		}
		for i := range page {
			f.After = page[i].Name
			if f.Open && !page[i].Open() {
				continue
			}
			h, err := rn.handleOf(ctx, &page[i])
			if err == nil && f.Open && h.State == tool.HandleStopped {
				continue
			}
			if n++; !yield(h, err) || err != nil && !unreadable(err) || n == f.Limit {
				return
			}
		}
	}
}

// awaitEvery is how often a waiting caller looks at handles without a signal:
// commits of other processes give none.
const awaitEvery = time.Second

// Await waits until all handles of w.All have stopped, and one of w.Any if there
// are any (with w.Success: a success, or all of them), or until ctx ends. It
// returns all of them as they are then, each once, those of All first; also with
// the error of ctx. The names are those of the handles that have them when it
// begins.
//
// It stores nothing. Another process may drive the handles. One whose process
// has died is carried on by this runner, if it has the session's agent.
func (rn *Runner) Await(
	ctx context.Context, sessionID string, w tool.HandleWait, actor Actor,
) ([]tool.Handle, error) {
	op := Operation{Kind: OpAwait, Actor: actor, Session: sessionID}
	if _, err := rn.visible(ctx, op); err != nil {
		return nil, err
	}
	if len(w.All)+len(w.Any) == 0 {
		return nil, errNoneAwaited
	}
	watch := handleWatch{rn, map[string]*session.Handle{}, map[string]tool.Handle{}}
	for _, name := range slices.Concat(w.All, w.Any) {
		if watch.bound[name] != nil {
			continue
		}
		var err error
		if watch.bound[name], err = rn.store.Handle(ctx, sessionID, name); err != nil {
			return nil, err
		}
	}
	over := watch.until(ctx, sessionID, &w)
	var all []tool.Handle
	for _, name := range slices.Concat(w.All, w.Any) {
		if watch.bound[name] == nil {
			continue // it is there already
		}
		h, err := watch.look(context.WithoutCancel(ctx), name)
		if err != nil {
			return nil, err
		}
		all, watch.bound[name] = append(all, h), nil
	}
	return all, over
}

var errNoneAwaited = errors.New("runner: Await needs at least one handle")

// handleWatch looks at some handles until they have stopped. One that has is
// not read again: it may not be kept as long as the others go on.
type handleWatch struct {
	rn    *Runner
	bound map[string]*session.Handle // by name
	ended map[string]tool.Handle
}

func (hw *handleWatch) look(ctx context.Context, name string) (tool.Handle, error) {
	if h, stopped := hw.ended[name]; stopped {
		return h, nil
	}
	h, err := hw.rn.handleOf(ctx, hw.bound[name])
	if err == nil && h.State == tool.HandleStopped {
		hw.ended[name] = h
	}
	return h, err
}

// anyOf reports whether one of some handles has stopped. With success, it has to
// have ended well, or all have to have stopped.
func (hw *handleWatch) anyOf(ctx context.Context, names []string, success bool) (bool, error) {
	left := 0
	for _, name := range names {
		h, err := hw.look(ctx, name)
		switch {
		case err != nil:
			return false, err
		case h.State != tool.HandleStopped:
			left++
		case !success || h.Status == string(event.Done):
			return true, nil
		}
	}
	return left == 0, nil
}

// until returns when what is awaited has come, or with the reason to wait no
// longer. Each end is a commit of the session, which gives a signal. After one,
// of All only the first is looked at that had not stopped before.
func (hw *handleWatch) until(ctx context.Context, sessionID string, w *tool.HandleWait) error {
	changed, stop := hw.rn.store.WatchAll(sessionID)
	defer stop()
	again := time.NewTicker(awaitEvery)
	defer again.Stop()
	for name := range hw.bound { // the time of a lease counts from the first look
		if _, err := hw.look(ctx, name); err != nil {
			return err
		}
	}
	all, any := w.All, w.Any
	for {
		for len(all) > 0 {
			h, err := hw.look(ctx, all[0])
			if err != nil {
				return err
			}
			if h.State != tool.HandleStopped {
				break
			}
			all = all[1:]
		}
		if len(all) == 0 && len(any) > 0 {
			over, err := hw.anyOf(ctx, any, w.Success)
			if err != nil {
				return err
			}
			if over {
				any = nil
			}
		}
		if len(all)+len(any) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-again.C:
		case <-hw.rn.closing.Done():
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
