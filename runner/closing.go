package runner

import (
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
)

// closing closes the open turn, once all its calls are settled. The goroutine
// that drives owns it.
type closing struct {
	*committer
	read   *reading
	crew   *crew
	screen *screen
	handed bool // the session has another agent now, and this drive is over
	// The drive has given the session up, since all of it waited, and just then
	// something came.
	outrun bool
}

// agent returns the session's agent by the head.
func (cl *closing) agent() (name string) {
	cl.lease.View(func(st *session.State) { name = st.Agent })
	return name
}

// handsOver reports whether another agent takes the session over once the turn
// is closed. The next drive is that agent's, so it must be stored by then.
func (cl *closing) handsOver() (hands bool) {
	cl.lease.View(func(st *session.State) { hands = st.HandsOver() })
	return hands
}

// lookAgain finds out whether the session has another agent, after what rode
// may have been dropped.
func (cl *closing) lookAgain(own string) { cl.handed = cl.handedTo(own) != "" }

// handedTo returns the session's agent, if it is another one than before.
func (cl *closing) handedTo(before string) string {
	if now := cl.agent(); now != before {
		return now
	}
	return ""
}

// closeTurn stores the results of the turn. They follow from what is stored. So
// unless the run ends, they ride with the model's next message, and are shown
// before the model says anything about them.
func (cl *closing) closeTurn() error {
	if err := cl.read.loadHistory(); err != nil { // while nothing of it rides yet
		return err
	}
	if err := cl.read.loadTurn(); err != nil {
		return err
	}
	m, ends, err := cl.results()
	if err != nil {
		return err
	}
	entry, err := session.NewEntry(m)
	if err != nil {
		return err
	}
	settled, ending := cl.read.calls()
	unseen := cl.screen.unheard(settled)
	before := cl.agent()
	transition := func(tx *session.Tx) error {
		err := tx.Close(entry, ends)
		if err == nil && len(unseen) > 0 {
			tx.Unseen = &session.Unseen{Message: tx.Messages - 1, Calls: unseen}
		}
		return err
	}
	// What follows from the denials for a message rides with that message.
	stores := ending || cl.handsOver() && cl.screen.staged == nil
	if stores {
		err = cl.commit(transition)
	} else {
		err = cl.ride(transition)
	}
	if err != nil {
		return decided(err)
	}
	if handed := cl.handedTo(before); handed != "" {
		cl.handed = true
		defer cl.screen.emit(event.Handoff{From: before, To: handed})
	}
	if cl.read.closed(m, entry); stores {
		cl.read.allStored()
	}
	cl.crew.newTurn()
	clear(cl.screen.results)
	cl.screen.showResults(event.Message{Number: len(cl.read.history) - 1, Message: m.Clone()}, ends)
	return nil
}

// results returns the message with the results of the open turn, in call order,
// and how its calls ended.
func (cl *closing) results() (m llm.Message, ends []event.Status, err error) {
	m.Role = llm.RoleTool
	asked := cl.read.asked
	settled, _ := cl.read.calls()
	opened := min(len(asked), agentcore.MaxCalls)
	// A renewal of the lease may have found that another drive closed the turn.
	if len(settled) < opened {
		return m, nil, decided(fmt.Errorf("%w: the turn is closed", session.ErrStale))
	}
	for i := range settled {
		c := &settled[i]
		k, err := cl.screen.result(cl.waiting, c)
		if err != nil {
			return m, nil, decided(err)
		}
		m.Parts = append(m.Parts, k.toolResult(c.ID, c.Tool))
		ends = append(ends, k.status)
	}
	for i, c := range asked[opened:] {
		k := known{status: event.Failed, output: tooMany}
		m.Parts = append(m.Parts, k.toolResult(c.ID, c.Name))
		cl.screen.emit(k.event(opened+i, c.ID, c.Name))
	}
	return m, ends, nil
}

// tooMany is what the model reads of a call beyond the limit of a turn.
var tooMany = json.RawMessage(fmt.Sprintf(
	`"The tool was not run: a turn holds at most %d tool calls. Ask again for what is missing."`,
	agentcore.MaxCalls))
