package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/batch"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

// crew is the attempts of a drive: those under way, and the last one at each
// call of the open turn. From the latter the loop knows which claims were made
// without a body being entered, and what is still to be shown.
//
// The goroutine that drives owns it. If the drive ends while bodies still run,
// the goroutine of drain takes it over. An attempt never touches its crew: a
// channel of the batch tells when it is over.
type crew struct {
	batch     *batch.Batch
	entered   chan struct{}     // gets a value when an attempt has entered a body
	freed     chan struct{}     // gets a value when a place at a shared limit may be free
	underway  map[string]member // by call
	queued    bool              // a call waits for a place at a shared limit
	abandoned int               // of those, how many are not waited for
	last      *attempt          // the attempts at calls of the open turn, linked by next
	failed    error             // the runtime's failures in attempts that are over
	fatal     error             // what ends the run, of those
}

// member is an attempt under way.
type member struct {
	*attempt
	grace     time.Time // when its call settles without it, once it was told to end
	abandoned bool      // its call has settled without it
}

// running counts the attempts that are waited for.
func (cr *crew) running() int { return len(cr.underway) - cr.abandoned }

// alone reports whether a body runs that no other of the turn may run beside.
func (cr *crew) alone() bool {
	for _, m := range cr.underway {
		if m.exclusive && !m.abandoned {
			return true
		}
	}
	return false
}

// add puts an attempt in the place of the last one at its call. What the last
// one made and was not shown is now the new one's to show.
func (cr *crew) add(a *attempt) {
	for at := &cr.last; *at != nil; at = &(*at).next {
		if before := *at; before.call.ID == a.call.ID {
			a.product.made(before.product.take())
			*at = before.next
			break
		}
	}
	a.entered, a.next, cr.last = cr.entered, cr.last, a
}

// start runs an attempt in a goroutine of its own. If the loop waits for
// attempts when the run returns, the attempt is handed to the loop, which
// commits its outcome and waits for the store as long as waiting lasts.
// Otherwise the attempt's goroutine commits it.
func (cr *crew) start(ctx, waiting context.Context, a *attempt, run entering) {
	cr.underway[a.call.ID] = member{attempt: a}
	body := func(ctx context.Context) {
		defer a.left() // however long the loop takes over something else
		a.guard(ctx, run)
	}
	cr.batch.Start(ctx, a.call.ID, body,
		func(handed bool) {
			to := a.own
			if handed {
				to.waiting = waiting
			}
			a.end(&to)
		})
}

// entering is what an attempt does in its goroutine.
type entering func(*attempt, context.Context) toolbox.Outcome

// ended takes in an attempt that is over. One whose outcome the store has failed
// to take is still under way: it tries on.
func (cr *crew) ended(call string) {
	cr.batch.Finished(call)
	m := cr.underway[call]
	_ = cr.took(m.attempt)
	if m.unstored != nil {
		cr.batch.Start(m.own.waiting, call, m.keepOn, func(bool) {})
		return
	}
	if m.abandoned {
		cr.abandoned--
	}
	delete(cr.underway, call)
}

// took takes in how an attempt ended. It returns the runtime's failures so far,
// in this and earlier attempts.
func (cr *crew) took(a *attempt) error {
	a.left()
	failed, fatal := a.product.errors()
	cr.failed, cr.fatal = errors.Join(cr.failed, failed), errors.Join(cr.fatal, fatal)
	return cr.failed
}

// grace reports whether an attempt was told to end, and returns until when its
// call waits for it.
func (cr *crew) grace(call string) (until time.Time, told bool) {
	until = cr.underway[call].grace
	return until, !until.IsZero()
}

// tellToEnd ends the context of an attempt.
func (cr *crew) tellToEnd(call string, until time.Time, cause error) {
	cr.batch.Cancel(call, cause)
	m := cr.underway[call]
	m.grace = until
	cr.underway[call] = m
}

// abandon gives an attempt up: it is waited for no more, and its call settles
// without it.
func (cr *crew) abandon(call string) {
	m := cr.underway[call]
	m.abandoned, m.grace = true, time.Time{}
	cr.underway[call] = m
	cr.abandoned++
}

// at returns the last attempt at a call of the open turn; nil: there is none.
func (cr *crew) at(call string) *attempt {
	for a := cr.last; a != nil; a = a.next {
		if a.call.ID == call {
			return a
		}
	}
	return nil
}

// shut returns the attempt at a call by which the tool's body was not entered,
// and no longer can be; nil: there is none.
func (cr *crew) shut(call string) *attempt {
	if a := cr.at(call); a != nil && a.door.shut() {
		return a
	}
	return nil
}

// unclaims returns the transitions that take claims back. They are for attempts
// whose layers have returned without having entered the body, and whose claim
// stands or is under way.
func (cr *crew) unclaims() (ts []session.Transition) {
	for a := cr.last; a != nil; a = a.next {
		if a.call.Effect.NeedsClaim() && a.door.claimsInVain() {
			ts = append(ts, a.unclaim)
		}
	}
	return ts
}

// came returns how a call ended, if the last attempt at it knows.
func (cr *crew) came(call string) (k known) {
	if a := cr.at(call); a != nil {
		k = a.product.end()
	}
	return k
}

// made returns what a call made since the last call of made.
func (cr *crew) made(call string) []tool.Action {
	if a := cr.at(call); a != nil {
		return a.product.take()
	}
	return nil
}

// forget drops what came of attempts: others may have settled their calls.
func (cr *crew) forget() {
	for a := cr.last; a != nil; a = a.next {
		a.product.forget()
	}
}

// showBegun shows the entries of bodies that were not shown. It reports whether
// the caller still listens.
func (cr *crew) showBegun(show func(event.Event) bool) bool {
	var begun []event.Started
	for a := cr.last; a != nil; a = a.next {
		if a.call.Background {
			continue
		}
		for _, attempt := range a.product.begun() {
			begun = append(begun, a.started(attempt))
		}
	}
	slices.SortStableFunc(begun, func(a, b event.Started) int { return a.Index - b.Index })
	for _, ev := range begun {
		if !show(ev) {
			return false
		}
	}
	return true
}

// newTurn forgets the attempts at calls of a turn that is closed.
func (cr *crew) newTurn() { cr.last = nil }
