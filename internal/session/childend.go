package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/llm"
)

// What a parent reads of a child's end.

// childEnd reads how a child's run ended. What the parent keeps of it is a
// copy: the child may be deleted, and its parent still has the result.
func (s *Store) childEnd(ctx context.Context, st *State, e *Errand) (_ *ChildEnd, err error) {
	end := &ChildEnd{Child: st.ID, Call: e.Call, Handle: st.Parent.Handle, Usage: st.Run.Usage,
		Turns: st.Run.Turns, Calls: st.Run.Calls}
	if st.Parent.Planned {
		end.Turns, end.Calls = 0, 0
	}
	agent := "agent:" + st.Agent
	failed := func(format string, args ...any) (*ChildEnd, error) {
		end.Outcome = Outcome{Status: event.Failed, Actor: agent,
			Output: StringBlob(fmt.Sprintf(format, args...))}
		return end, nil
	}
	finish, why, by := st.Finish, st.Why, agent
	if h := st.Halt; h != nil { // there is none where a caller has carried the session on
		finish, why, by = h.Finish, h.Why, h.Actor
	}
	switch {
	case !st.Deleted.IsZero():
		end.Outcome = Outcome{Status: event.Cancelled, Actor: agent,
			Output: StringBlob("Cancelled: the session of the agent was deleted.")}
		return end, nil
	case finish == event.FinishCancelled:
		end.Outcome = Outcome{Status: event.Cancelled, Actor: by,
			Output: StringBlob(reasoned("Cancelled", why) + " The agent had begun its work.")}
		return end, nil
	}
	if st.isHandle() {
		end.Outcome.Status, end.Came, err = s.handleStatus(ctx, st)
		return end, err
	}
	said, err := s.lastWords(ctx, st)
	if err != nil {
		return nil, err
	}
	if most := cmp.Or(st.Parent.Most, defaultMost); len(said) > most {
		if finish == event.FinishStop {
			return failed("The agent's answer has %d bytes, at most %d are taken. It begins: %s",
				len(said), most, excerpt.To(said, maxSaid))
		}
		said = excerpt.To(said, maxSaid)
	}
	switch finish {
	case event.FinishFailed:
		if st.Parent.Planned {
			return failed("%s", reasoned("The workflow failed", why))
		}
	case event.FinishStop:
		if st.Parent.Schema == "" {
			end.Outcome = Outcome{Status: event.Done, Actor: agent, Output: stringOrEmpty(said)}
			return end, nil
		}
		if err := strictjson.Check([]byte(said)); err != nil {
			return failed("The agent's answer is not JSON: %v", err)
		}
		out, err := NewBlob([]byte(said))
		end.Outcome = Outcome{Status: event.Done, Actor: agent, Output: out}
		return end, err
	case event.FinishLength:
		return failed("The agent's answer was cut off by a limit of tokens: %s", said)
	case event.FinishRefusal:
		return failed("The agent declined: %s", said)
	case event.FinishMaxTurns, event.FinishMaxCalls, event.FinishMaxTokens:
		why := fmt.Sprintf("The agent used up its limit (%s) before it was done.", finish)
		if said != "" {
			why += " It said last: " + said
		}
		return failed("%s", why)
	}
	return failed("%s", reasoned(fmt.Sprintf("The agent's run ended (%s)", finish), why))
}

// The bounds of what a parent is told, in bytes.
const (
	defaultMost = 1 << 20 // of an answer
	maxSaid     = 8 << 10 // of the words of an agent whose answer can't be taken
)

// handleStatus returns how the call of a handle ended, and of a wait handle
// when.
func (s *Store) handleStatus(
	ctx context.Context, st *State,
) (status event.Status, came time.Time, err error) {
	if len(st.Calls) != 1 {
		return "", came, fmt.Errorf("%w: session %q is a handle, and has %d calls", ErrCorrupt, st.ID,
			len(st.Calls))
	}
	c := &st.Calls[0]
	if c.Status != Settled {
		return c.GivenUp(), came, nil
	}
	if c.Action == ActionWait {
		var r Record
		if _, err := s.read(ctx, recordKey(st.ID, c.ID), &r); err != nil {
			return "", came, err
		}
		came = r.End()
	}
	return c.Settled, came, nil
}

// stringOrEmpty is StringBlob, where the empty string is one, too.
func stringOrEmpty(s string) *Blob {
	return &Blob{value: strictjson.AppendString(nil, s)}
}

// lastWords returns the text of the last message that a child's model said.
// Results, and other messages that a turn ends with, may stand behind it.
func (s *Store) lastWords(ctx context.Context, st *State) (string, error) {
	for some := 1; ; some *= 2 {
		from := max(st.Messages-some, 0)
		last, err := s.History(ctx, st, from)
		if err != nil {
			return "", err
		}
		for _, m := range slices.Backward(last) {
			if m.Role == llm.RoleAssistant {
				return m.Text(), nil
			}
		}
		if from == 0 { // it was told what to do, and said nothing
			return "", nil
		}
	}
}
