package runner

import (
	"maps"
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// listener shows the events of a drive, or of a Follow, to the caller. It alone
// knows the caller's yield, and what the caller was shown of each call. An
// event goes through the turn layers, if there are any around the step, and
// then to the caller, unless it is withheld.
//
// The goroutine that ranges over the events owns it. If a drive ends while
// bodies still run, the goroutine of drain takes it over.
type listener struct {
	yield   func(event.Event, error) bool // of the caller
	layer   func(event.Event) bool        // of the turn layers around the step; nil: there are none
	calling bool                          // the caller is looking at an event
	left    bool                          // the caller has left
	feed    *feed                         // for followers; nil: nothing is for them
	starts  bool                          // the next delta begins a message

	sights sights  // what the caller was shown
	staged *staged // what is withheld; nil: nothing is

	// Heard is what other drives have shown, if the events of this drive go to
	// no caller; nil: they do.
	heard map[string]sight
}

// sight is what can be shown of a call: its open pause, by number, its result,
// by how it settled, or that it is parked.
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

// sights are what was last shown of each call of the open turn, and of the turn
// that was closed last.
type sights struct {
	calls map[string]sight
	turn  closedTurn
}

// closedTurn is a turn whose results were shown.
type closedTurn struct {
	number int // of the message with them; a turn's is never 0
	ends   []event.Status
}

// staged is what is withheld until a commit: the events, in order, and what the
// caller will have seen once they are shown.
type staged struct {
	events []event.Event
	sights sights
}

// emit shows an event, and reports whether its receiver still listens.
func (l *listener) emit(ev event.Event) bool {
	if l.layer != nil {
		return l.layer(ev)
	}
	return l.deliver(ev)
}

// deliver is emit for an event that has come through the turn layers.
func (l *listener) deliver(ev event.Event) bool {
	switch {
	case l.staged != nil:
		l.staged.events = append(l.staged.events, ev)
	case !l.left:
		ev = l.started(ev)
		if l.feed != nil {
			l.feed.hear(ev)
		}
		l.calling = true
		l.left = !l.yield(ev, nil)
		l.calling = false
	}
	return !l.left
}

// speaks notes that the model is called for the message of that number. Stop
// notes that what it said is void, unless it was committed by then.
func (l *listener) speaks(fence int64, call, number int) (stop func()) {
	l.starts = true
	if l.feed == nil {
		return func() {}
	}
	l.feed.begins(fence, call, number)
	return func() { l.feed.ends(false) }
}

// spoke notes that the model's message is committed, if there was any.
func (l *listener) spoke(kept bool) {
	if l.feed != nil {
		l.feed.ends(kept)
	}
}

// started marks the first delta of a message.
func (l *listener) started(ev event.Event) event.Event {
	if !l.starts {
		return ev
	}
	switch delta := ev.(type) {
	case event.TextDelta:
		delta.Start, l.starts = true, false
		return delta
	case event.ReasoningDelta:
		delta.Start, l.starts = true, false
		return delta
	}
	return ev
}

// now returns what the caller was shown, with what is withheld.
func (l *listener) now() *sights {
	if l.staged != nil {
		return &l.staged.sights
	}
	return &l.sights
}

// stage withholds the events from here on, until publish or discard. It forgets
// what was withheld before.
func (l *listener) stage() {
	l.staged = &staged{sights: sights{maps.Clone(l.sights.calls), l.sights.turn}}
}

// restage forgets what is withheld, and goes on withholding, if it did: the
// same events, or others in their place, are still to come.
func (l *listener) restage() {
	if l.staged != nil {
		l.stage()
	}
}

// refuted reports whether a call has settled otherwise than the withheld events
// show: another commit came before the one that they wait for.
func (l *listener) refuted(st *session.State) bool {
	if l.staged == nil {
		return false
	}
	return slices.ContainsFunc(st.Calls, func(c session.Call) bool {
		said := l.staged.sights.calls[c.ID]
		return said.settled != "" && said != l.sights.calls[c.ID] && said != sightOf(&c)
	})
}

// discard forgets what is withheld, and withholds no longer.
func (l *listener) discard() { l.staged = nil }

// publish shows what was withheld, now that it is stored.
func (l *listener) publish() {
	held := l.staged
	if held == nil {
		return
	}
	l.staged, l.sights = nil, held.sights
	for _, ev := range held.events {
		l.emit(ev)
	}
}

// newTurn forgets what was shown of the calls of the turn before.
func (l *listener) newTurn() { clear(l.now().calls) }

// showResults shows the message with a turn's results, once. The turn may be
// closed a second time, if another commit came before the one that it rode
// with.
func (l *listener) showResults(m event.Message, ends []event.Status) {
	seen := l.now()
	if seen.turn.number == m.Number && slices.Equal(seen.turn.ends, ends) {
		return
	}
	seen.turn = closedTurn{m.Number, ends}
	l.emit(m)
}

// marks lists the settled calls of the open turn that were shown, and those
// that were not, as far as the head has it otherwise.
func (l *listener) marks(st *session.State) (shown, unseen []string) {
	for i := range st.Calls {
		c := &st.Calls[i]
		switch was := l.sights.calls[c.ID] == sightOf(c); {
		case c.Status != session.Settled || was != c.Unshown:
		case was:
			shown = append(shown, c.ID)
		default:
			unseen = append(unseen, c.ID)
		}
	}
	return shown, unseen
}

// unheard lists the settled calls that no drive has shown, if the events of
// this drive go to no caller.
func (l *listener) unheard(settled []session.Call) (calls []string) {
	if l.heard == nil {
		return nil
	}
	for i := range settled {
		if c := &settled[i]; l.heard[c.ID] != sightOf(c) {
			calls = append(calls, c.ID)
		}
	}
	return calls
}
