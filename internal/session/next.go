package session

import (
	"errors"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// Step is what has to happen next in a session.
type Step struct {
	Kind  StepKind
	Until time.Time // the next deadline, if there is one
	// Early, with StepModel: the model is asked again before the stored time,
	// since this process has waited long enough by its own clock. The driver
	// then commits Tx.AskNow.
	Early bool
}

// StepKind is the kind of a Step.
type StepKind string

// The steps.
const (
	StepIdle   StepKind = "idle"   // nothing, until the user says something
	StepSay    StepKind = "say"    // take the first message that waits, if its place has come
	StepModel  StepKind = "model"  // call the model
	StepLinger StepKind = "linger" // decide what becomes of handles that are open at the run's end
	StepCalls  StepKind = "calls"  // run, re-enter or recover calls of the open turn
	StepAnswer StepKind = "answer" // have the model answer the question of a call
	StepClose  StepKind = "close"  // store the results of the open turn, all of which are there
	StepWait   StepKind = "wait"   // for answers
	StepRetry  StepKind = "retry"  // wait until the model may be called again
	StepExpire StepKind = "expire" // a deadline has passed: apply it
	StepHalted StepKind = "halted" // there is work, but only Continue or Run may go on
)

// Next returns what has to happen next. It is the only place where that is
// decided.
func Next(s *State, now time.Time) Step { return nextBy(s, func() time.Time { return now }) }

// Next is [Next] by the store's clock, which is read only if the time matters.
// A model is asked again after its wait at the latest, counted from when this
// process first saw that it failed.
func (s *Store) Next(st *State) Step { return s.early(nextBy(st, s.Now), st.ID, st.Retry) }

// early turns the wait for a model into the call of it, if this process has
// waited long enough.
func (s *Store) early(step Step, id string, retry *Retry) Step {
	if step.Kind != StepRetry || retry.Wait == 0 {
		return step
	}
	if step.Until = s.retryAt(id, retry); !step.Until.After(s.Now()) {
		return Step{Kind: StepModel, Early: true}
	}
	return step
}

// Next returns the next step by the head as this drive knows it, with what
// rides. The clock is code of others, so it is not read under the head's lock.
func (l *Lease) Next() (step Step) {
	now := l.store.Now()
	var retry *Retry
	l.View(func(st *State) { step, retry = Next(st, now), st.Retry })
	return l.store.early(step, l.id, retry)
}

func nextBy(s *State, now func() time.Time) Step {
	step := Step{Kind: next(s), Until: s.deadline()}
	switch {
	case !step.Until.IsZero() && !step.Until.After(now()):
		step.Kind = StepExpire
	case s.Halt != nil && s.Ending == nil && step.Kind != StepIdle && step.Kind != StepWait:
		step.Kind = StepHalted
	case step.Kind == StepModel && s.Retry != nil && s.Retry.At.After(now()):
		step = Step{Kind: StepRetry, Until: s.Retry.At}
	}
	return step
}

func next(s *State) StepKind {
	if !s.Deleted.IsZero() {
		return StepIdle
	}
	if len(s.Calls) == 0 {
		switch {
		case s.Queue != nil && !s.Due, s.Queue.Steers():
			return StepSay
		case s.Due:
			return StepModel
		case s.Linger == nil:
			return StepIdle
		case s.Linger.Waits:
			return StepWait
		}
		return StepLinger
	}
	kind, asks := StepClose, false
	for i := range s.Calls {
		switch s.Calls[i].Status {
		case Requested, Running, Answered:
			c := &s.Calls[i]
			held := c.Parked != nil || s.behind(i) || s.unbound(i)
			if !held || c.Cancel != nil || s.Ending != nil {
				return StepCalls
			}
			kind = StepWait
		case Pending:
			if s.Ending != nil || s.Calls[i].Registering() {
				return StepCalls
			}
			kind, asks = StepWait, asks || s.Calls[i].AsksModel() && !s.isHandle()
		}
	}
	if asks {
		return StepAnswer
	}
	switch {
	case kind == StepClose && s.isHandle():
		return StepIdle // its one call is all that it was for
	case kind == StepWait && s.speaks():
		return StepSay
	}
	return kind
}

// behind reports whether a call that acts on a handle has to wait for an earlier
// one of the turn, which itself waits: those that name one handle go on in call
// order.
func (s *State) behind(i int) bool {
	if s.Calls[i].Handle == "" {
		return false
	}
	before := s.Before(i)
	return before != nil && (before.Status == Pending || before.Parked != nil)
}

// unbound reports whether a call that awaits handles has to wait for one that
// begins some of them, which itself waits.
func (s *State) unbound(i int) bool {
	return slices.ContainsFunc(s.Calls[i].Binds, func(j int) bool {
		c := &s.Calls[j]
		return c.begins() && (c.Status == Pending || c.Parked != nil || s.behind(j))
	})
}

// Bound reports whether the handles that a call awaits have begun, as far as
// calls of its turn begin them.
func (s *State) Bound(i int) bool {
	return !slices.ContainsFunc(s.Calls[i].Binds, func(j int) bool { return s.Calls[j].begins() })
}

// begins reports whether a call has yet to begin its handle. One that pauses for
// a moment to see what comes of it has begun it; one that a layer holds has not.
func (c *Call) begins() bool {
	moment := c.Answer != nil || c.Status == Pending && c.Pause.Await != nil
	return c.MakesHandle() && !c.Clash && c.Status != Settled && !moment
}

// checkBinds returns what is wrong with the calls that a call awaits the handles
// of.
func (s *State) checkBinds(c *Call) error {
	for _, j := range c.Binds {
		if j < 0 || j >= len(s.Calls) || !s.Calls[j].MakesHandle() || c.MakesHandle() {
			return errors.New("it awaits what a call begins that begins nothing")
		}
	}
	return nil
}

// Before returns the first call of the turn before the i-th that acts on the
// same handle and has not settled, or nil.
func (s *State) Before(i int) *Call {
	for j := range s.Calls[:i] {
		if c := &s.Calls[j]; c.Handle != "" && c.Handle == s.Calls[i].Handle && c.Status != Settled {
			return c
		}
	}
	return nil
}

// AsksModel reports whether a call waits for an answer that is the model's.
func (c *Call) AsksModel() bool {
	return c.Status == Pending && c.Pause.Reason == tool.ReasonAssistant && c.Pause.Gate == ""
}

// deadline returns the earliest deadline of an open pause, of a parked call, or
// of the handles that the run lingers for; zero if there is none.
func (s *State) deadline() time.Time {
	var first time.Time
	if s.Lingering() {
		first = s.Linger.Until
	}
	for i := range s.Calls {
		if d := s.Calls[i].deadline(); !d.IsZero() && (first.IsZero() || d.Before(first)) {
			first = d
		}
	}
	return first
}

// Working reports whether a driver takes the step now. Any other is a wait, or
// nothing.
func (s Step) Working() bool {
	switch s.Kind {
	case StepSay, StepModel, StepLinger, StepCalls, StepAnswer, StepClose, StepExpire:
		return true
	}
	return false
}

// HasWork reports whether work remains, now or after a delay.
func (s Step) HasWork() bool { return s.Working() || s.Kind == StepRetry }
