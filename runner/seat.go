package runner

import "github.com/fermata-ai/fermata/internal/session"

// seat is the place of one drive among those of its worker, or of children. A
// drive begins with one. While it only waits for the bodies of tools, it leaves
// the place to others, and takes one again before it calls the model. All else
// goes on without: what bodies bring is committed, answers are taken up, further
// bodies begin. How many sessions are held bounds that.
//
// The goroutine that drives calls its methods. A nil seat is that of a drive
// that needs no place: its caller bounds how many such there are.
type seat struct {
	places *places
	user   string
	state  seating       // guarded by the places' lock
	room   chan struct{} // gets a value when a place is granted
}

type seating int

const (
	seated seating = iota
	away           // it waits for bodies, and needs no place
	asking         // it is in the line for a place
	lent           // it waits for a caller to take events
)

// sit gives a drive its seat.
func (d *drive) sit(s *seat) {
	d.seat = s
	s.places.mu.Lock()
	defer s.places.mu.Unlock()
	if s.user != d.user { // the index may not have it
		s.places.leaves(s.user)
		s.places.users[d.user]++
		s.user = d.user
	}
}

// canTake reports whether the drive may take a step, or is to wait for its place
// before. Those need one that call the model.
func (d *drive) canTake(step session.Step) bool {
	switch step.Kind {
	case session.StepModel, session.StepAnswer, session.StepLinger:
		return d.seat.ready()
	}
	return true
}

// leave gives the place back, if the drive has one.
func (s *seat) leave() {
	if s == nil {
		return
	}
	s.places.mu.Lock()
	left := s.state == seated
	if left {
		s.state = away
		s.places.working--
	}
	s.places.mu.Unlock()
	if left && s.places.fill != nil {
		s.places.fill()
	}
}

// ready reports whether the drive has a place. If not, it is in the line for one
// from here on, and granted receives a value when its turn has come.
func (s *seat) ready() bool {
	if s == nil {
		return true
	}
	p := s.places
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s.state == seated:
	case s.state == asking:
	case p.working < p.room:
		s.state = seated
		p.working++
	default:
		s.state = asking
		p.back.add(s.user, s)
	}
	return s.state == seated
}

// granted receives a value when the drive was given a place that it asked for.
func (s *seat) granted() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.room
}
