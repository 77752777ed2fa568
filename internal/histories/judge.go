package histories

import (
	"fmt"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
)

// answer judges an answer, and applies it.
func (m *callModel) answer(s *callState, in operation) string {
	n := in.pause
	if n == 0 {
		if s.pauses > 1 {
			return s.bare(in)
		}
		n = 1
	}
	open := s.status == session.Pending && n == s.pauses
	switch {
	case open && s.refusedNow && s.refused[n].content == in.content:
		return "duplicate of " + s.refused[n].by
	case open && !m.fits(s.kind, in.content):
		return "misfit"
	case open:
		s.got[n] = accepted{content: in.content, by: in.by}
		if in.content == failure {
			*s = s.settle(event.Failed, "")
		} else {
			m.accept(s, in.content)
		}
		return isAccepted
	case s.got[n].content == in.content: // an early one, too
		return "duplicate of " + s.got[n].by
	case s.refused[n].content == in.content:
		return "duplicate of " + s.refused[n].by
	case s.got[n].content != "":
		return "conflict with " + s.got[n].by
	case s.status == session.Settled:
		return s.ended()
	case n == s.timerOf: // neither a timer nor an event leaves the receipt of an answer
		return "conflict with " + s.timerBy
	case n <= s.pauses:
		return "not paused"
	case n > s.pauses+1:
		return "unknown pause"
	case s.status != session.Running && (m.once || s.status != session.Requested &&
		(s.status != session.Answered || s.output != "")):
		return "not paused"
	case !m.fits(output, in.content):
		return "misfit"
	}
	s.got[n], s.early = accepted{content: in.content, by: in.by}, in.content
	return isAccepted
}

// bare judges an answer to a call that has paused more than once.
func (s *callState) bare(in operation) string {
	for n := 1; n <= mostPauses; n++ {
		for _, a := range []accepted{s.got[n], s.refused[n]} {
			if a.content == in.content {
				return "duplicate of " + a.by
			}
		}
	}
	switch s.status {
	case session.Settled:
		return s.ended()
	case session.Pending:
		return fmt.Sprint("pause required: ", s.pauses)
	}
	return "pause required"
}
