package agui

import (
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
)

// Translator makes one run of AG-UI's of what is shown of a session. Each
// method returns the events that follow, in order. It shows nothing twice: what
// a follower shows again, since it looked anew, makes no event. One goroutine
// owns it.
type Translator struct {
	thread, run string
	user        string // who follows
	newID       func() string

	root  *lane
	lanes map[string]*lane // of the sessions below, by session
	order []*lane          // the same, as they were announced

	calls shownCalls
	own   []ownMessage      // what the user has said that no event has shown yet
	names map[string]string // the ids that the client has for messages, by those made here
	next  int               // the number of the next message of the session
	grown bool              // the client shows messages that came after own
	stale bool
	over  bool
	out   []Event
}

// ownMessage is one that the client shows already.
type ownMessage struct {
	id   string
	body Body
	text string // what tells it from another
}

// NewTranslator returns one for the run that a client asks for. User is who
// asks: of the pauses, those that this user may answer are the run's
// interrupts. NewID returns ids that are never the same.
func NewTranslator(in *Input, user string, newID func() string) *Translator {
	t := &Translator{
		thread: in.Thread, run: in.Run, user: user,
		newID: func() string { return ours + newID() },
		lanes: map[string]*lane{}, calls: shownCalls{}, names: map[string]string{},
	}
	t.root = &lane{t: t}
	return t
}

// Begin opens the run. Stored is the session as it stood before the client's
// messages, of which fresh are new to it. A client that shows something else is
// given a snapshot.
func (t *Translator) Begin(in *Input, fresh []Queued, stored Stored) []Event {
	t.add(RunStarted{t.head(TypeRunStarted), t.thread, t.run, Version})
	t.next = len(stored.History)
	t.calls.know(stored)
	all := stored.messages()
	own := append(slices.Clone(stored.Queue), fresh...)
	v := viewOf(in, own)
	same := v.align(all, t.newID, t.names)
	for _, m := range own {
		if !same {
			m.ID = t.newID() // see align
		} else if !v.held[m.ID] {
			continue // it waits for another client, and is shown when it is taken
		}
		t.own = append(t.own, ownMessage{m.ID, bodyOf(m.Message.Parts), userText(m.Message)})
	}
	if !same {
		t.snapshot(all)
	}
	return t.flush()
}

// Stale reports whether the client shows something that doesn't count any more,
// which only Restate can take back.
func (t *Translator) Stale() bool { return t.stale && !t.over }

// Restate brings the client up to date with the store.
func (t *Translator) Restate(stored Stored) []Event {
	if t.over {
		return nil
	}
	for _, l := range append(t.order, t.root) {
		l.pauseText()
		l.endThought()
	}
	stored = t.soFar(stored)
	all := stored.messages()
	for i := range all {
		if id, ok := t.names[all[i].ID]; ok {
			all[i].ID = id
		}
	}
	t.calls.know(stored)
	t.snapshot(all)
	return t.flush()
}

// soFar returns of the store what was shown so far. The store may be ahead, and
// what it has beyond that is shown as it comes.
func (t *Translator) soFar(stored Stored) Stored {
	n := min(t.next, len(stored.History))
	out := Stored{History: stored.History[:n]}
	shown := func(r event.Result) {
		if c := t.calls[r.Result.Call]; c != nil && c.result != "" {
			out.Open = append(out.Open, r)
		}
	}
	for _, m := range stored.History[n:] {
		for _, p := range m.Parts {
			if r, ok := p.(llm.ToolResult); ok {
				shown(event.Result{Result: r})
			}
		}
	}
	for _, r := range stored.Open {
		shown(r)
	}
	return out
}

func (t *Translator) snapshot(all []Message) {
	for _, m := range t.own {
		body := m.body
		all = append(all, Message{ID: m.id, Role: roleUser, Body: &body})
	}
	seen := map[string]bool{}
	for i := range all { // a client may have sent one id twice
		if seen[all[i].ID] {
			all[i].ID = t.newID()
		}
		seen[all[i].ID] = true
	}
	t.stale = false
	t.add(MessagesSnapshot{t.head(TypeMessagesSnapshot), all})
}

// Next is the number of the first message that was not shown.
func (t *Translator) Next() int { return t.next }

// Over reports whether the run is closed. Nothing comes after that.
func (t *Translator) Over() bool { return t.over }

// Event translates an event of the session. Its End closes the run.
func (t *Translator) Event(e event.Event) []Event {
	if !t.over {
		t.show(t.root, e)
	}
	return t.flush()
}

// show translates an event of the session of l.
func (t *Translator) show(l *lane, e event.Event) {
	switch e := e.(type) {
	case event.TextDelta:
		if e.Start {
			l.restart(e.Delta)
		} else {
			l.say(e.Delta)
		}
	case event.ReasoningDelta:
		if e.Start {
			l.rethink(e.Delta)
		} else {
			l.think(e.Delta)
		}
	case event.Message:
		l.message(e)
	case event.Call:
		l.call(e.Call)
	case event.Result:
		l.result(e)
	case event.Retry:
		l.void()
		e.Err = impersonal(e.Err)
		t.custom(l, e)
	case event.Nested:
		t.show(t.laneOf(e), e.Event)
	case event.End:
		t.end(l, e)
	case event.Pause:
		if l.newPause(e.Pause) {
			t.custom(l, e)
		}
	default:
		t.custom(l, e)
	}
}

func (t *Translator) end(l *lane, e event.End) {
	l.closeAll()
	if l != t.root {
		l.ended(e)
		return
	}
	t.finish(e)
}

func (t *Translator) add(e Event) {
	switch e.Kind() {
	case TypeTextStart, TypeToolStart, TypeToolResult:
		t.grown = true
	}
	t.out = append(t.out, e)
}

func (t *Translator) flush() []Event {
	out := t.out
	t.out = nil
	return out
}

// head is that of an event of the run itself.
func (t *Translator) head(typ Type) Head { return Head{Type: typ} }
