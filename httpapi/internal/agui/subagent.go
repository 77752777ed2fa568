package agui

import (
	"slices"
	"strconv"

	"github.com/fermata-ai/fermata/event"
)

// laneOf returns the lane of a session below the root's, and sees to it that
// those above it and itself are announced.
func (t *Translator) laneOf(e event.Nested) *lane {
	parent, call := "", ""
	for i, step := range e.Path {
		if i > 0 { // the first is the root
			parent = t.announce(step.Session, step.Agent, parent, call).subagent
		}
		call = step.Call
	}
	return t.announce(e.Session, e.Agent, parent, call)
}

// announce returns the lane of a session, active.
func (t *Translator) announce(session, agent, parent, call string) *lane {
	l := t.lanes[session]
	if l == nil {
		l = &lane{t: t, session: session}
		t.lanes[session] = l
	}
	if l.subagent != "" {
		return l
	}
	if l.times++; l.times == 1 {
		l.subagent = session
	} else {
		l.subagent = session + "#" + strconv.Itoa(l.times) // an id is used once in a run
	}
	l.paused = nil
	t.order = append(t.order, l)
	h := l.head(TypeSubagentStarted)
	t.add(SubagentStarted{h, agent, parent, call})
	return l
}

// ended closes a lane whose session has come to an end. One that waits stays
// active: it may go on in this run.
func (l *lane) ended(e event.End) {
	switch ending(e.Finish).outcome {
	case Success, Cancelled:
		l.t.add(SubagentFinished{l.head(TypeSubagentFinished), Outcome{Type: Success}})
	default:
		if e.Finish != event.FinishFailed {
			return
		}
		l.t.add(SubagentError{l.head(TypeSubagentError), "the agent has failed", string(e.Finish)})
	}
	l.retire()
}

func (l *lane) retire() {
	l.subagent, l.parent = "", ""
	l.t.order = slices.DeleteFunc(l.t.order, func(o *lane) bool { return o == l })
}

// closeLanes closes all that are active: none outlives the run.
func (t *Translator) closeLanes(paused bool) {
	for _, l := range slices.Backward(slices.Clone(t.order)) {
		l.closeAll()
		outcome := Outcome{Type: Success}
		if paused {
			outcome = Outcome{Type: Suspended, InterruptIDs: l.paused}
		}
		l.t.add(SubagentFinished{l.head(TypeSubagentFinished), outcome})
		l.retire()
	}
}
