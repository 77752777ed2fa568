package histories

import (
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// possible is something that an operation may come to.
type possible struct {
	text  string
	state callState
}

// do is what an operation may come to, in a state that no driver changes
// meanwhile.
func (m *callModel) do(s callState, in operation) []possible {
	overdue := s.status == session.Pending && s.deadline > 0 && s.deadline <= in.since
	only := func(text string) []possible { return []possible{{text, s}} }
	switch in.name {
	case "call":
		return only(s.shows())
	case "receipts":
		return only(s.receipts())
	case "waits":
		return only(s.waits())
	case "result":
		return only(s.result())
	case "find":
		return m.find(s, in, overdue)
	case "end":
		return s.endedRun()
	case "entry":
		return s.entered()
	case "received":
		return only(s.box.came())
	}
	switch {
	case overdue: // it finds the expiry applied, which is another state
		return nil
	case in.name == "say", in.name == "supersede":
		return m.said(s, in)
	case s.status == "":
		return only("unknown")
	}
	switch in.name {
	case "resume":
		text := m.answer(&s, in)
		return only(text)
	case "send":
		text := m.send(&s, in)
		return only(text)
	case "cancel":
		return m.cancelled(s, in)
	case "progress":
		if s.status == session.Settled {
			return only(s.ended())
		}
		return only("ok")
	case "extend":
		return m.extend(s, in)
	}
	panic("the model doesn't know " + in.name)
}

// endedRun is what cancelling the session does to the call. One that is not
// asked for yet may be asked for by the model that speaks just then, or by a
// later run.
func (s callState) endedRun() []possible {
	ending := s
	ending.ending = true
	switch s.status {
	case session.Settled:
		return []possible{{"ok", s}}
	case "":
		return []possible{{"ok", s}, {"ok", ending}}
	}
	return []possible{{"ok", ending}}
}

// said is what a user's message does that was taken. It is taken only if no
// call of the turn works, and the only one that waits for a person takes it.
// What waits for a machine goes on beside that.
func (m *callModel) said(s callState, in operation) (all []possible) {
	switch {
	case s.status == "" || s.status == session.Settled:
		return []possible{{"taken", s}}
	case in.repeated && s.isFor(in):
		return []possible{{"taken", s}}
	case s.status != session.Pending:
		return nil
	}
	if s.kind == message {
		answered := s
		answered.got[s.pauses] = accepted{content: in.content, by: in.by}
		m.accept(&answered, in.content)
		all = append(all, possible{"taken", answered})
	}
	if s.kind != message && s.kind != gate {
		all = append(all, possible{"taken", s})
	}
	if in.name == "supersede" && (s.kind == message || s.kind == gate) {
		all = append(all, possible{"taken", s.settle(event.Denied, "")})
	}
	return all
}

// isFor reports whether a message has been the call's answer.
func (s callState) isFor(in operation) bool {
	return slices.Contains(s.got[:], accepted{content: in.content, by: in.by})
}

// accept ends the open pause with an answer.
func (m *callModel) accept(s *callState, content string) {
	if s.kind != gate {
		s.timerOf = 0
	}
	s.status, s.answer, s.deadline, s.refusedNow = session.Answered, content, 0, false
	if s.kind == reenter || s.kind == timer {
		s.box.show()
	}
	if s.kind == output || s.kind == message || s.kind == lost && content != again {
		s.output, s.outputOf = content, s.pauses
	}
}

// fits reports whether an answer is one that a pause takes.
func (m *callModel) fits(kind byte, content string) bool {
	switch {
	case isDecision(content) || kind == gate:
		return isDecision(content) && kind == gate
	case content == again:
		return kind == lost
	case kind == mail:
		return content == failure
	case content == failure || kind == reenter || kind == timer:
		return true
	}
	return isString(content) == m.text
}

func (m *callModel) extend(s callState, in operation) (all []possible) {
	switch {
	case s.status == session.Settled:
		return []possible{{s.ended(), s}}
	case s.status != session.Pending || in.pause != 0 && in.pause != s.pauses:
		return []possible{{"not paused", s}}
	}
	if in.deadline <= in.now {
		all = append(all, possible{"past", s})
	}
	if s.deadline = in.deadline; in.deadline > in.since {
		all = append(all, possible{"ok", s})
	}
	return all
}

func (m *callModel) find(s callState, in operation, overdue bool) (all []possible) {
	switch {
	case in.pause > s.pauses || s.unwritten[in.pause]:
		return []possible{{"unknown", s}}
	case s.status == session.Pending && in.pause == s.pauses && !overdue:
		all = append(all, possible{s.waits(), s})
		if s.deadline == 0 || s.deadline > in.now {
			return all
		}
	}
	return append(all, possible{"over", s})
}

func (m *callModel) cancelled(s callState, in operation) []possible {
	if s.cancel.by != "" {
		return []possible{{"duplicate of " + s.cancel.by, s}}
	}
	if s.status == session.Settled {
		return []possible{{s.ended(), s}}
	}
	s.cancel = accepted{content: "cancel", by: in.by}
	asked := s
	asked.cancelling = true
	at := []possible{{"accepted", s.settle(event.Cancelled, "")}}
	switch {
	case s.status == session.Running:
		return []possible{{"accepted", asked}}
	case !m.once && s.status != session.Pending: // that depends on whether the session is driven
		return append(at, possible{"accepted", asked})
	}
	return at
}
