package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// The transitions of a session that its driver makes.

// Say appends a user's message and begins a run. A detached run goes on without
// its caller.
func (tx *Tx) Say(m *Entry, messageID, hash string, detached bool) error {
	if len(tx.Calls) > 0 {
		return fmt.Errorf("%w: a turn is open", ErrStale)
	}
	tx.append(m)
	if messageID != "" {
		tx.putJSON(userMessageKey(tx.ID, messageID),
			userMessage{Hash: hash, Number: tx.Messages - 1})
	}
	tx.Due, tx.Halt, tx.Retry, tx.Finish, tx.Why = true, nil, nil, "", ""
	tx.Run, tx.Ended, tx.Linger = Run{Detached: detached}, time.Time{}, nil
	tx.gotOn()
	return nil
}

// Stopped is how the model's message ended.
type Stopped struct {
	Finish event.Finish // of the run, if the message asks for no calls
	Why    string       // with FinishOther
	Usage  llm.Usage
}

// Reply takes the model's message; nil is one without content, of which nothing
// is kept. With calls it opens a turn; without, the run is over.
func (tx *Tx) Reply(m *Entry, calls []Call, how Stopped, tokenKey int) error {
	if err := tx.due(); err != nil {
		return err
	}
	tx.touch()
	if m != nil {
		tx.append(m)
	}
	tx.Turn++
	tx.runEnds()
	tx.Due, tx.Retry = false, nil
	tx.gotOn()
	tx.Run.Turns++
	tx.Run.Calls += len(calls)
	tx.Run.Usage = tx.Run.Usage.Add(how.Usage)
	if len(calls) == 0 {
		if how.Finish == event.FinishStop && tx.Halt == nil && tx.lingers() {
			return nil
		}
		tx.Finish, tx.Why, tx.Ended = how.Finish, brief(how.Why), tx.Now
		return nil
	}
	tx.Calls = append(tx.Calls[:0], calls...) // a transition that runs again begins with these
	tx.Asked, tx.TokenKey = tx.Now, tokenKey
	if slices.ContainsFunc(calls, func(c Call) bool { return c.Mailbox != nil || c.Action != "" }) {
		tx.outdates()
	}
	if err := tx.judgeNames(); err != nil {
		return err
	}
	// A caller ended the run while the model spoke: what the model asks for is
	// not begun.
	if tx.Halt != nil {
		tx.Ending, tx.Halt = tx.Halt, nil
	}
	return nil
}

// Declared is what the head keeps of the declaration of a call's tool. Answers
// are judged by it, since the process that judges may not have the tool.
type Declared struct {
	Effect   tool.Effect
	MayPause bool
	Output   string // hash of the output schema, if it may pause
	Mailbox  *Mailbox
	// Background: no events tell of the call. It is kept for processes without the
	// tool, too.
	Background bool
}

// Is reports whether a call has this declaration.
func (d Declared) Is(c *Call) bool {
	return d.Effect == c.Effect && d.MayPause == c.MayPause &&
		d.Background == c.Background && d.Output == c.Output &&
		c.Mailbox.Declares(d.Mailbox)
}

// Declare notes what a call's tool declares now that the call is about to
// begin. An early answer was judged by the output schema as it was, and is
// compared with the schema of the pause. So with an early answer, that schema
// stays.
func (tx *Tx) Declare(call string, is Declared) error {
	c, err := tx.live(call)
	switch {
	case err != nil:
		return err
	case c.Status != Requested && c.Status != Answered:
		return fmt.Errorf("%w: call %s is %s", ErrStale, call, c.Status)
	}
	tx.touch()
	c.Effect, c.MayPause, c.Background = is.Effect, is.MayPause, is.Background
	tx.declareMail(c, is.Mailbox)
	if c.Early == nil {
		c.Output = is.Output
	}
	return nil
}

// Close stores the results of the open turn, in call order, and makes the
// model's answer due. Ends are how the calls ended by those results; if one has
// ended otherwise, or not at all, that is ErrStale.
func (tx *Tx) Close(results *Entry, ends []event.Status) error {
	if len(tx.Calls) == 0 || len(tx.Calls) != len(ends) {
		return fmt.Errorf("%w: another turn is open", ErrStale)
	}
	for i := range tx.Calls {
		if c := &tx.Calls[i]; c.Status != Settled || c.Settled != ends[i] {
			return fmt.Errorf("%w: call %s is %s %s", ErrStale, c.ID, c.Status, c.Settled)
		}
	}
	tx.append(results)
	if to := tx.handsTo(); to != "" { // also if the run ends: the results say so
		tx.handOver(to)
	}
	tx.runEnds()
	clear(tx.Calls)
	tx.Calls, tx.Asked, tx.TokenKey, tx.Due = tx.Calls[:0], time.Time{}, 0, true
	if tx.Ending != nil {
		tx.Halt, tx.Ending = tx.Ending, nil
		tx.Finish, tx.Why = tx.Halt.Finish, ""
		if tx.Finish == event.FinishCancelled {
			tx.abortAll(tx.Halt.Actor, tx.Halt.Why) // what was begun since
		}
		tx.goOnAfter()
	}
	return nil
}

// handsTo returns the agent that takes the session over once the open turn is
// closed: the first that a call handed it to, in call order; empty: none does.
func (s *State) handsTo() string {
	for i := range s.Calls {
		if to := s.Calls[i].HandTo; to != "" {
			return to
		}
	}
	return ""
}

// HandsOver reports whether the open turn, once closed, is followed by a model
// message of another agent.
func (s *State) HandsOver() bool {
	to := s.handsTo()
	return to != "" && to != s.Agent && s.Ending == nil
}

// handOver gives the session to another agent. Its entries in the indexes stand
// under the agent's name, so they move in the same commit.
func (tx *Tx) handOver(to string) {
	if to == tx.Agent {
		return
	}
	if !tx.Wake.IsZero() {
		tx.delete(wakeKey(tx.Agent, tx.Wake, tx.ID))
		tx.Wake = time.Time{}
	}
	if tx.Watched {
		tx.delete(watchKey(tx.Agent, tx.ID))
		tx.Watched = false
	}
	if tx.Recovery != 0 {
		tx.delete(recoveryKey(tx.Agent, tx.Recovery, tx.ID))
		tx.Recovery = 0
	}
	for _, name := range tx.Missing {
		tx.delete(parkedKey(tx.Agent, name, tx.ID))
	}
	tx.Agent, tx.Missing = to, nil
}

// End ends the run as soon as its open turn is closed: calls that have not
// settled are cancelled. Without an open turn it ends at once. By is the actor
// that ended it, if there was one. With an open turn, the first End counts, so
// that all calls are told the same reason and actor.
func (tx *Tx) End(finish event.Finish, by, why string) {
	if tx.Ending != nil {
		return
	}
	tx.touch()
	h := &Halt{Finish: finish, Actor: by, Why: brief(why), At: tx.Now}
	tx.Linger = nil
	if finish == event.FinishCancelled {
		tx.abortAll(by, why)
	}
	if len(tx.Calls) > 0 {
		tx.Ending = h
		return
	}
	tx.runEnds()
	tx.Halt, tx.Finish, tx.Why = h, finish, ""
}

// EndedBy returns the actor that ends the run, and what its calls are told of
// it.
func (s *State) EndedBy() (by, why string) {
	why = "the run was ended"
	if h := s.Ending; h != nil && h.Finish == event.FinishCancelled {
		by = h.Actor
		if h.Why != "" {
			why += ": " + h.Why
		}
	}
	return by, why
}

// Stop halts a session in which work remains: only Continue or Run carries it
// on.
func (tx *Tx) Stop(finish event.Finish, why string) {
	tx.touch()
	tx.runEnds()
	tx.Halt, tx.Finish, tx.Why = &Halt{Finish: finish, Why: brief(why), At: tx.Now}, finish, ""
}

// Again makes the model's call wait for a while after it failed.
func (tx *Tx) Again(after time.Duration, why string) error {
	if err := tx.due(); err != nil {
		return err
	}
	tx.touch()
	n, since := 0, tx.Now
	if tx.Retry != nil {
		n = tx.Retry.Failures
		if !tx.Retry.Since.IsZero() {
			since = tx.Retry.Since
		}
	}
	after = max(after, time.Millisecond).Truncate(time.Millisecond)
	tx.Retry = &Retry{Failures: n + 1, Since: since, At: tx.Now.Add(after),
		Wait: int(after.Milliseconds()), Why: brief(why)}
	return nil
}

// AskNow ends the wait for the model's next try before its stored time.
func (tx *Tx) AskNow() {
	if r := tx.Retry; r != nil && r.At.After(tx.Now) {
		now := *r
		now.At = tx.Now
		tx.Retry = &now
		tx.touch()
	}
}

// due refuses a transition that needs the model's answer to be due, after
// another commit has changed that.
func (tx *Tx) due() error {
	if !tx.Due || len(tx.Calls) > 0 {
		return fmt.Errorf("%w: the model's answer is not due", ErrStale)
	}
	return nil
}

// UseUp halts the run before a model call that its agent's limits don't allow,
// or instead of a message that they don't allow.
func (tx *Tx) UseUp(finish event.Finish, why string) error {
	if err := tx.due(); err != nil {
		return err
	}
	tx.Stop(finish, why)
	return nil
}

// same reports whether other is the same halt, perhaps read anew. Both may be
// nil.
func (h *Halt) same(other *Halt) bool {
	if h == nil || other == nil {
		return false
	}
	return h.Finish == other.Finish && h.Actor == other.Actor && h.Why == other.Why &&
		h.At.Equal(other.At)
}

// Lift lets a session go on that is halted by h, with fresh limits. A later
// halt stays: a caller ended the run meanwhile.
func (tx *Tx) Lift(h *Halt) {
	if !tx.Halt.same(h) {
		return
	}
	tx.touch()
	tx.Halt, tx.Retry = nil, nil
	tx.gotOn()
	tx.Run = Run{Usage: tx.Run.Usage, Waived: tx.Run.Usage.Total(), Detached: tx.Run.Detached,
		Concurrency: tx.Run.Concurrency, Leaving: tx.Run.Leaving}
}
