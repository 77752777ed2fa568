package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/wide"
)

// Wait handles of wider scopes lie beside all sessions. A call that waits for
// some has its pause committed first. Then each handle is given the call, or is
// found to have ended. A handle's end is told by the process that commits it, or
// by a worker of any process, until all sessions that wait have it.

// registerWaits has the next wait handles of a call that awaits them know of it.
func (cs *calls) registerWaits(c *session.Call) error {
	id, pause, a := c.ID, c.Pauses, c.Pause.Await
	list, err := cs.rn.store.Awaited(cs.waiting, cs.session, a)
	if err != nil {
		return err
	}
	from := a.Registered
	next := list[from:min(from+session.MaxRegistered, len(list))]
	if a.Permit != nil {
		return cs.claims(id, pause, wide.ID{Scope: a.Scope, Name: list[0].Name}, a.Permit)
	}
	over, err := cs.registerEach(id, pause, from, a.Scope, next)
	if err != nil {
		return err
	}
	return cs.commit(func(tx *session.Tx) error {
		return tx.RegisteredWaits(id, pause, from, len(next), over)
	})
}

// registerEach has some handles know of a call, side by side, and returns those
// that had ended, or are gone. Each is a commit of its own.
func (cs *calls) registerEach(
	call string, pause, from int, scope string, next []session.Awaited,
) ([]session.WaitOver, error) {
	over := make([]*session.WaitOver, len(next))
	errs := make([]error, len(next))
	var all sync.WaitGroup
	for i, w := range next {
		all.Go(func() {
			by := session.WaitingCall{Call: call, Pause: pause, N: from + i, All: w.All, Any: w.Any}
			h, err := cs.rn.wide.Register(cs.waiting, wide.ID{Scope: scope, Name: w.Name}, cs.session, by)
			switch {
			case errors.Is(err, wide.ErrUnknown):
				over[i] = &session.WaitOver{WaitingCall: by}
			case err != nil:
				errs[i] = err
			case h.End != nil:
				over[i] = &session.WaitOver{WaitingCall: by, Well: h.Status() == wide.Completed}
			}
		})
	}
	all.Wait()
	var ended []session.WaitOver
	for _, o := range over {
		if o != nil {
			ended = append(ended, *o)
		}
	}
	return ended, errors.Join(errs...)
}

// claims claims the permit that a call waits for. One that it gets at once, it
// has in the commit that notes the claim.
func (cs *calls) claims(call string, pause int, id wide.ID, p *session.PermitWish) error {
	by := wide.Claim{Session: cs.session, Call: call, Pause: pause, Priority: p.Priority}
	held, err := cs.rn.wide.Acquire(cs.waiting, id, by, p.Most)
	var over []session.WaitOver
	switch {
	case isAny(err, wide.ErrEnded, wide.ErrInvalid):
		over = []session.WaitOver{{WaitingCall: session.WaitingCall{Call: call, Pause: pause, All: true}}}
	case err != nil:
		return err
	}
	own := session.HeldPermit{Scope: id.Scope, Name: id.Name, Call: call, Pause: pause}
	err = cs.commit(func(tx *session.Tx) error {
		if err := tx.RegisteredWaits(call, pause, 0, 1, over); err != nil || !held {
			return err
		}
		_, err := tx.TakePermit(own)
		return err
	})
	if errors.Is(err, session.ErrStale) {
		err = errors.Join(err, cs.releaseLate(own))
	}
	return err
}

// releaseLate gives back a permit whose pause ended before its claim was made.
// The pause may have ended by that very permit, since the teller was faster:
// then the call has it.
func (cs *calls) releaseLate(p session.HeldPermit) error {
	st, err := cs.rn.store.Load(cs.waiting, cs.session)
	if err != nil {
		return err
	}
	if c := st.Call(p.Call); c != nil && slices.ContainsFunc(c.Permits, func(o session.HeldPermit) bool {
		return o.Scope == p.Scope && o.Name == p.Name && o.Pause == p.Pause
	}) {
		return nil
	}
	return cs.rn.release(cs.waiting, cs.session, p)
}

// release carries out the errand of a call that has held a permit.
func (rn *Runner) release(ctx context.Context, sessionID string, p session.HeldPermit) error {
	return rn.wide.Release(ctx, wide.ID{Scope: p.Scope, Name: p.Name},
		wide.Claim{Session: sessionID, Call: p.Call, Pause: p.Pause})
}

// teller tells sessions of handles as soon as a commit of this process has made
// that due. What it can't tell, it tries again while the runner is open, and so
// does a worker of any process. All methods may be called from any goroutine.
type teller struct {
	rn *Runner

	mu       sync.Mutex       // guards underway; held over no call
	underway map[wide.ID]bool // true: to be looked at once more
}

// send has the sessions told that a handle is to tell, in a goroutine of its own.
func (t *teller) send(id wide.ID) {
	t.mu.Lock()
	_, busy := t.underway[id]
	t.underway[id] = busy
	t.mu.Unlock()
	if !busy && !t.rn.drives.start(func() { t.tell(id) }) {
		t.mu.Lock()
		delete(t.underway, id)
		t.mu.Unlock()
	}
}

func (t *teller) tell(id wide.ID) {
	for wait := firstErrandWait; ; {
		told, err := t.rn.wide.Tell(t.rn.closing, id)
		for _, to := range told {
			t.rn.attend(to)
		}
		t.mu.Lock()
		left := isOnly(err, session.ErrNewerVersion) // to a worker that can read it
		over := left || t.rn.closing.Err() != nil || err == nil && !t.underway[id]
		t.underway[id] = false
		if over {
			delete(t.underway, id)
		}
		t.mu.Unlock()
		switch {
		case over:
			return
		case err == nil:
			continue
		}
		t.rn.options.Logger.Warn("what a wait handle has to tell is tried again",
			"scope", id.Scope, "handle", id.Name, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			wait = min(2*wait, maxErrandWait)
		case <-t.rn.closing.Done():
			timer.Stop()
		}
	}
}

// waits does what is due of wait handles, until ctx ends.
func (w *worker) waits(ctx context.Context) {
	due, stop := w.rn.store.WatchDueWaits()
	defer stop()
	undone := recurring{log: w.rn.options.Logger,
		what: "what is due of wait handles could not all be done"}
	for {
		next, err := w.rn.attendWaits(ctx)
		if ctx.Err() == nil {
			undone.look(err)
		}
		wait := w.o.Poll
		if !next.IsZero() {
			wait = max(time.Millisecond, min(wait, next.Sub(w.rn.store.Now())))
		}
		timer := time.NewTimer(wait)
		select {
		case <-due:
		case <-w.rn.archiver.room:
		case <-timer.C:
		case <-w.rn.closing.Done():
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil || w.rn.closing.Err() != nil {
			return
		}
	}
}

// attendWaits does once what is due of wait handles, and returns when the next
// one will be due. What is to be removed it leaves to the archiver.
func (rn *Runner) attendWaits(ctx context.Context) (next time.Time, err error) {
	var errs []error
	var page wide.DuePage
	for page.More = true; page.More; {
		var after []byte
		if n := len(page.Due); n > 0 {
			after = page.Due[n-1].Key
		}
		if page, err = rn.wide.Due(ctx, after); err != nil {
			return next, errors.Join(append(errs, err)...)
		}
		for _, d := range page.Due {
			told, err := rn.wide.Attend(ctx, d)
			for _, to := range told {
				rn.attend(to)
			}
			if ctx.Err() != nil {
				return next, errors.Join(errs...)
			}
			if err != nil && !isOnly(err, session.ErrNewerVersion) { // it stays due
				errs = append(errs[:min(len(errs), 8)], err)
			}
		}
	}
	removal, err := rn.archiver.fill(ctx)
	return sooner(page.Next, removal), errors.Join(append(errs, err)...)
}
