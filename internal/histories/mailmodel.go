package histories

import (
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/internal/session"
)

// mostMail is how many events one call takes.
const mostMail = 4

// Of events: the names that tools take, and ids.
const (
	mailNames = "xy"
	mailIDs   = "123"
)

// misfit is the content of an event that doesn't fit.
const misfit = "misfit"

// mailbox is what a call has of events, as the model knows it.
type mailbox struct {
	events [len(mailNames) * len(mailIDs)]letter
	count  int // accepted
	shown  int // by the last entry, or the one that is to come
	from   int // of those, the events that an entry before it was shown
}

// letter is an event that was accepted. The zero one is none.
type letter struct {
	number      int // from 1
	content, by string
}

func (b *mailbox) at(event string) *letter {
	name := strings.Index(mailNames, event[:1])
	return &b.events[name*len(mailIDs)+strings.Index(mailIDs, event[1:])]
}

// waiting is how many events of a name no entry is shown.
func (b *mailbox) waiting(name rune) (n int) {
	at := strings.IndexRune(mailNames, name) * len(mailIDs)
	for _, e := range b.events[at : at+len(mailIDs)] {
		if e.number > b.shown {
			n++
		}
	}
	return n
}

func (b *mailbox) meets(s step) bool {
	all := 0
	for _, name := range s.names {
		n := b.waiting(name)
		if s.count == 0 && n == 0 {
			return false
		}
		all += n
	}
	return all >= s.count
}

// show fixes what the entry is shown that comes next.
func (b *mailbox) show() { b.from, b.shown = b.shown, b.count }

// list lists events by number.
func (b *mailbox) list(until int, mark func(number int) string) string {
	all := make([]string, until)
	for i, e := range b.events {
		if e.number > 0 && e.number <= until {
			all[e.number-1] = string(mailNames[i/len(mailIDs)]) + string(mailIDs[i%len(mailIDs)]) +
				"=" + e.content + mark(e.number)
		}
	}
	return strings.Join(all, " ")
}

func (b *mailbox) entry() string {
	return b.list(b.shown, func(n int) string { return map[bool]string{true: "*"}[n > b.from] })
}

func (b *mailbox) came() string {
	return "received " + b.list(b.count, func(int) string { return "" })
}

// String is what a look at the call shows.
func (b mailbox) String() string {
	if b.count == 0 {
		return ""
	}
	return fmt.Sprintf(", %d events, %d shown", b.count, b.shown)
}

// send judges an event, and accepts it.
func (m *callModel) send(s *callState, in operation) string {
	known := strings.Contains(mailNames, in.event[:1])
	var e *letter
	if known {
		e = s.box.at(in.event)
	}
	switch {
	case known && e.number > 0 && e.content != in.content:
		return "conflict with " + e.by
	case known && e.number > 0 && s.status == session.Settled && e.number > s.box.shown:
		return "duplicate of " + e.by + " " + string(session.Superseded)
	case known && e.number > 0:
		return "duplicate of " + e.by
	case s.status == session.Settled:
		return s.ended()
	case !known || !m.mail:
		return "unknown event"
	case s.box.count == mostMail:
		return "full"
	case in.content == misfit:
		return "misfit"
	}
	s.box.count++
	*e = letter{s.box.count, in.content, in.by}
	if s.status == session.Pending && s.kind == mail && s.box.meets(m.steps[s.asked-1]) {
		s.goOn(in.by)
	}
	return isAccepted
}

// goOn ends the open pause by what leaves no receipt of an answer: its deadline,
// or the last event that it waited for. The body is entered again.
func (s *callState) goOn(by string) {
	s.status, s.answer, s.deadline, s.refusedNow = session.Answered, wentOn, 0, false
	s.timerOf, s.timerBy = s.pauses, by
	s.box.show()
}

// wentOn is the answer of a pause that ended without one.
const wentOn = "went on"

// entered is what a body may be shown that is entered now.
func (s callState) entered() []possible {
	if s.status == session.Running || s.reenters() {
		return []possible{{"shown " + s.box.entry(), s}}
	}
	return nil
}
