package histories

import (
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// callModel is the life of one call, written down once more, as callers see it
// that don't drive. What an operation comes to follows from its state. Between
// operations a driver may take any step that it may take at all. It knows by
// the hour when pauses end.
type callModel struct {
	steps []step // the pauses that the call asks for, one after the other
	once  bool   // its effect
	lossy bool   // drives may die, or lose their lease, while a body runs
	slow  bool   // a body may go on beyond its grace when it is to stop
	text  bool   // its output is a string
	mail  bool   // it takes events
	asks  bool   // an operator, what became of a body that was cut off
	told  bool   // what became of such a body, by the tool's Reconcile
}

// step is a pause that a call asks for.
type step struct {
	kind  byte // one of those below
	hours int  // until its deadline; 0: it has none
	told  bool // at its deadline the body is entered again, and told so

	// Of a pause that waits for events: their names, and how many of them; 0 is
	// one of each.
	names string
	count int
}

const (
	gate    = 'g' // a layer's
	reenter = 'r' // the body's, which is entered again with the answer
	output  = 'o' // the body's, and the answer is the result
	message = 'm' // the body's, and the user's next message is the result
	timer   = 't' // the body's, which is entered again at the deadline
	mail    = 'e' // the body's, which is entered again with the events that have come
	done    = 'd' // none: the body's output is the events that it was shown
	lost    = 'l' // an operator's, and the answer is the result, or has the body entered again
)

// accepted is a receipt. The zero one is none.
type accepted struct {
	content string
	by      string
	fate    session.Fate
}

// Contents, beside outputs that are texts.
const (
	failure = "failure"
	yes     = "yes"
	no      = "no"
	again   = "again" // it did not happen
)

func isDecision(content string) bool { return content == yes || content == no }

// isString reports whether the payload is a JSON string, as a user's message
// is; others are objects.
func isString(content string) bool { return strings.HasPrefix(content, "say ") }

// isAccepted is what an operation comes to that changes something.
const isAccepted = "accepted"

// byTimer is the actor of a deadline at which the body is entered again.
const byTimer = "timer"

// mostPauses is the highest number of a pause that matters.
const mostPauses = 5

// callState is comparable, for porcupine.
type callState struct {
	status     session.CallStatus // empty: no model has asked for the call yet
	asked      int                // steps, so far
	pauses     int
	kind       byte   // of the open pause, or the last one
	deadline   int    // of the open pause
	refusedNow bool   // the open pause has refused an answer that was there before it
	answer     string // the last one
	// an answer that is to be the output, once the layers let it through; of a
	// call that is done, the output
	output     string
	outputOf   int    // the pause that it came for
	early      string // the content of an answer that is kept for the next pause
	got        [mostPauses + 1]accepted
	refused    [mostPauses + 1]accepted
	unwritten  [mostPauses + 1]bool // pauses that count, and were never written
	cancel     accepted
	cancelling bool
	ending     bool // the session was cancelled
	timerOf    int  // the pause that its deadline or an event ended, if no answer came after it
	timerBy    string
	box        mailbox
	settled    event.Status
}

// operation is what a client asks for, or what it is shown. The clock is an
// input, as it is of every transition: an operation reads it at some moment
// between its call and its return, and is judged by what it reads. So one that
// began in time and commits after the clock has moved is no violation. Expiry
// therefore is no operation of its own: it may come where the clock may have
// reached the deadline, and must come where the clock had reached it before the
// operation began.
type operation struct {
	name       string
	call       string
	pause      int    // 0: the call is named, and no pause
	event      string // its name and id
	content    string
	by         string
	deadline   int  // for extend
	since, now int  // the clock, in hours, at the call and at the return
	repeated   bool // a message has an id, and may have been taken before

	runner int // beside the point
}

// outcome is what an operation came to, in words that the model knows. One that
// is uncertain may have happened, or may not.
type outcome struct {
	text      string
	begins    bool // the text is the beginning of what is told
	uncertain bool
}

// is reports whether an operation may have come to a text.
func (o outcome) is(text string) bool {
	return o.uncertain || text == o.text || o.begins && strings.HasPrefix(text, o.text)
}

// after is what may be of a call after an operation; nothing, if it can't have
// come to that.
func (m *callModel) after(was callState, in operation, out outcome) (next []callState) {
	for s := range m.reach(was, in.now) {
		if in.name == "result" && s.answered() &&
			s.settleBody(event.Done, s.output).result() == out.text {
			// Only here is something shown that is not committed yet: that the
			// answer is the result rides with the next commit.
			next = append(next, was)
		}
		for _, then := range m.do(s, in) {
			if out.is(then.text) {
				next = append(next, then.state)
			}
		}
		if out.uncertain {
			next = append(next, s)
		}
	}
	return next
}

// reach are the states that drivers may have brought a call to by then.
func (m *callModel) reach(s callState, now int) map[callState]bool {
	seen := map[callState]bool{s: true}
	for from := []callState{s}; len(from) > 0; {
		s, from = from[0], from[1:]
		for _, next := range m.drive(s, now) {
			if !seen[next] {
				seen[next] = true
				from = append(from, next)
			}
		}
	}
	return seen
}

// drive is what may happen to a call by itself: what its driver does next, or
// its deadline.
func (m *callModel) drive(s callState, now int) (next []callState) {
	body := m.once && s.status == session.Running || !m.once && s.reenters()
	switch {
	case s.status == "":
		s.status = session.Requested
		return []callState{s}
	case s.status == session.Pending && s.deadline > 0 && s.deadline <= now && m.goesOn(s):
		s.goOn(byTimer)
		return []callState{s}
	case s.status == session.Pending && s.deadline > 0 && s.deadline <= now:
		next = append(next, s.settle(event.Expired, ""))
	case s.answered() && m.steps[min(s.asked, len(m.steps)-1)].kind == gate && !s.stopping():
		next = append(next, m.pause(s, now)...)
	case s.answered():
		next = append(next, s.settleBody(event.Done, s.output))
	case s.status == session.Answered && s.answer == no:
		next = append(next, s.settleBody(event.Denied, ""))
	case s.reenters() && m.steps[s.asked].kind == gate && !s.stopping():
		next = append(next, m.pause(s, now)...)
	case s.reenters() && m.once && !s.ending:
		claimed := s
		claimed.status = session.Running
		next = append(next, claimed)
	case body && m.steps[s.asked].kind == done: // also if it is not to go on
		next = append(next, s.settleBody(event.Done, s.box.entry()))
	case body && !s.stopping():
		next = append(next, m.pause(s, now)...)
	}
	if s.stopping() && s.status != session.Settled {
		next = append(next, s.settle(event.Cancelled, ""))
	}
	// After a crash; or where a caller left while the call was claimed. Its body
	// was not entered then, and the claim is taken back.
	switch claimed := m.once && s.status == session.Running; {
	case claimed && s.stopping():
		next = append(next, s.unclaim().settle(event.Cancelled, ""))
	case claimed && s.early == "":
		next = append(next, s.unclaim())
	case claimed:
		shut := s
		shut.box.shown = shut.box.from // no body was shown what came for this entry
		next = append(next, shut.takeEarly())
	}
	if m.slow && s.stopping() && s.status == session.Running { // also if an answer is kept
		next = append(next, s.settle(event.Unknown, ""))
	}
	switch cut := m.lossy && s.status == session.Running; {
	case s.early != "":
		next = append(next, s.takeEarly())
	case cut && m.told:
		next = append(next, s.settleBody(event.Done, ""))
	case cut && m.asks && !s.cancelling: // if the session was cancelled, this pause is, too
		next = append(next, s.lose())
	case cut:
		next = append(next, s.settle(event.Unknown, ""))
	}
	return next
}

// lose is a call whose body was cut off, and of which an operator is asked.
func (s callState) lose() callState {
	s.pauses++
	s.status, s.kind, s.answer, s.deadline = session.Pending, lost, "", 0
	return s
}

// goesOn reports whether the body is entered again at the deadline of the open
// pause.
func (m *callModel) goesOn(s callState) bool {
	return s.kind == timer || s.kind != lost && m.steps[s.asked-1].told
}

// unclaim is a call that is what it was before its claim.
func (s callState) unclaim() callState {
	s.status = session.Requested
	if s.pauses > 0 {
		s.status = session.Answered
	}
	return s
}

// stopping reports whether the call is not to wait any more.
func (s callState) stopping() bool { return s.cancelling || s.ending }

// answered reports whether the call has the answer that is to be its output.
func (s callState) answered() bool {
	return s.status == session.Answered && s.output != "" && s.answer != no
}

// reenters reports whether the layers, and then the body, are run next.
func (s callState) reenters() bool {
	return s.status == session.Requested || s.status == session.Answered && s.output == "" &&
		s.answer != no
}

// pause is the next pause of a call, at any hour until now. An answer that is
// there already is consumed.
func (m *callModel) pause(s callState, now int) (next []callState) {
	st := m.steps[s.asked]
	early := s.early
	s.asked++
	s.pauses++
	if early != "" && st.kind == gate {
		s.refuseEarly()
		s.unwritten[s.pauses] = true
		s.pauses++
		early = ""
	}
	s.status, s.kind, s.answer = session.Pending, st.kind, ""
	s.box.from = s.box.shown
	switch {
	case early == failure:
		s.early = ""
		return []callState{s.settle(event.Failed, "")}
	case early != "" && st.kind == output:
		s.early, s.status, s.output, s.outputOf, s.timerOf = "", session.Answered, early,
			s.pauses, 0
		return []callState{s}
	case early != "":
		s.refuseEarly()
		s.refusedNow = true
	}
	if st.kind == mail && s.box.meets(st) {
		s.goOn("")
		return []callState{s}
	}
	if st.hours == 0 {
		return []callState{s}
	}
	for at := range now + 1 {
		s.deadline = at + st.hours
		next = append(next, s)
	}
	return next
}

func (s *callState) refuseEarly() {
	s.refused[s.pauses], s.got[s.pauses], s.early = s.got[s.pauses], accepted{}, ""
	s.refused[s.pauses].fate = session.Refused
}

// takeEarly makes a kept answer the call's, without the pause that it was for.
func (s callState) takeEarly() callState {
	early := s.early
	s.early = ""
	s.pauses++
	s.unwritten[s.pauses] = true
	s.box.from = s.box.shown // no entry is to come
	if early == failure {
		return s.settle(event.Failed, "")
	}
	s.status, s.output, s.outputOf, s.timerOf = session.Answered, early, s.pauses, 0
	return s
}

// settle ends a call otherwise than by its body.
func (s callState) settle(status event.Status, out string) callState {
	if s.status == session.Answered && status == event.Cancelled && s.got[s.pauses].content != "" {
		s.got[s.pauses].fate = session.Superseded
	}
	if s.status == session.Answered {
		s.box.shown = s.box.from // the entry that was to be shown more never was
	}
	return s.settleBody(status, out)
}

func (s callState) settleBody(status event.Status, out string) callState {
	if s.early != "" {
		s.got[s.pauses+1].fate = session.Superseded
	}
	if s.cancelling && status != event.Cancelled && status != event.Unknown {
		s.cancel.fate = session.Superseded
	}
	if s.outputOf > 0 && status != event.Done {
		s.got[s.outputOf].fate = session.Superseded
	}
	return callState{
		status: session.Settled, settled: status, output: out, pauses: s.pauses, got: s.got,
		refused:   s.refused,
		unwritten: s.unwritten, cancel: s.cancel, box: s.box,
	}
}
