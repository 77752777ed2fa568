package session

import "time"

// Step is what has to happen next in a session.
type Step struct {
	Kind  StepKind
	Until time.Time // the next deadline, if there is one
	// Early, with StepModel: the model is asked again before the time that was
	// stored, since this process has waited for long enough by its own clock.
	// Tx.AskNow makes that so.
	Early bool
}

// StepKind is the kind of a Step.
type StepKind string

// The steps.
const (
	StepIdle   StepKind = "idle"   // nothing, until the user says something
	StepModel  StepKind = "model"  // call the model
	StepCalls  StepKind = "calls"  // run, re-enter or recover calls of the open turn
	StepClose  StepKind = "close"  // store the results of the open turn, all of which are there
	StepWait   StepKind = "wait"   // for answers
	StepRetry  StepKind = "retry"  // wait until the model may be called again
	StepExpire StepKind = "expire" // a deadline has passed: apply it
	StepHalted StepKind = "halted" // there is work, but only Continue or Run may go on
)

// Next says what has to happen next. It is the only place where that is decided.
func Next(s *State, now time.Time) Step { return nextBy(s, func() time.Time { return now }) }

// Next is [Next] by the store's clock, which is looked at only where the time
// matters. A model is asked again after its wait at the latest, counted from
// when this process first saw that it failed.
func (s *Store) Next(st *State) Step { return s.early(nextBy(st, s.Now), st.ID, st.Retry) }

// early has the model asked again where this process has waited for long
// enough.
func (s *Store) early(step Step, id string, retry *Retry) Step {
	if step.Kind != StepRetry || retry.Wait == 0 {
		return step
	}
	if step.Until = s.retryAt(id, retry); !step.Until.After(s.Now()) {
		return Step{Kind: StepModel, Early: true}
	}
	return step
}

// Next is the next step by the head as this drive knows it, with what rides.
// The clock, which is code of others, is not asked under the head's lock.
func (d *Drive) Next() (step Step) {
	now := d.store.Now()
	var retry *Retry
	d.View(func(st *State) { step, retry = Next(st, now), st.Retry })
	return d.store.early(step, d.id, retry)
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
		if s.Due {
			return StepModel
		}
		return StepIdle
	}
	kind := StepClose
	for i := range s.Calls {
		switch s.Calls[i].Status {
		case Requested, Running, Answered:
			if c := &s.Calls[i]; c.Parked == nil || c.Cancel != nil || s.Ending != nil {
				return StepCalls
			}
			kind = StepWait
		case Pending:
			if s.Ending != nil {
				return StepCalls // to be cancelled
			}
			kind = StepWait
		}
	}
	return kind
}

// deadline is the earliest deadline of an open pause, or of a parked call; zero
// if there is none.
func (s *State) deadline() time.Time {
	var first time.Time
	for i := range s.Calls {
		if d := s.Calls[i].deadline(); !d.IsZero() && (first.IsZero() || d.Before(first)) {
			first = d
		}
	}
	return first
}

// Working says that a step is one a driver takes, rather than something to wait for.
func (s Step) Working() bool {
	switch s.Kind {
	case StepModel, StepCalls, StepClose, StepExpire:
		return true
	}
	return false
}

// Left says that there is work left, be it later.
func (s Step) Left() bool { return s.Working() || s.Kind == StepRetry }
