package session

import (
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// What an engine that processes share may offer beside its store: signals, and
// a clock. Both make things happen sooner. Without them, or while they fail,
// the polls and this process's own clock do.

// reach takes in what the engine offers.
func (s *Store) reach(kv kvstore.Store, o *Options) {
	if signaler, ok := kv.(kvstore.Signaler); ok && !s.exclusive {
		s.signals = signaler
	}
	clock, ok := kv.(kvstore.Clock)
	if !ok || s.exclusive || o.Now != nil {
		return
	}
	s.now = func() time.Time {
		now, known := engineTime(clock)
		if s.steady != nil {
			s.steady.saw(now, known)
		}
		return now
	}
	if o.MaxSkew <= 0 {
		s.maxSkew, s.steady = ClockSkew, &steadyClock{}
		s.now() // it is watched from here
	}
}

// ClockSkew is Options.MaxSkew where processes have the engine's clock in
// common. A process that doesn't know the engine's time so exactly takes its
// own.
const ClockSkew = 5 * time.Second

// engineTime returns the engine's time, or, where that isn't known, this
// process's.
func engineTime(clock kvstore.Clock) (now time.Time, known bool) {
	now, within := clock.Now()
	if now.IsZero() || within > ClockSkew/2 {
		return time.Now(), false
	}
	return now, true
}

// signal wakes those who watch topic, in this process and in others.
func (s *Store) signal(topic string) {
	s.local.Signal(topic)
	if s.signals != nil {
		s.signals.Signal(topic)
	}
}

// listenFor is Local.Watch for signals of other processes, too.
func (s *Store) listenFor(topic string) (c <-chan struct{}, stop func()) {
	c, here := s.local.Watch(topic)
	if s.signals == nil {
		return c, here
	}
	elsewhere := s.signals.Watch(topic, func() { s.local.Signal(topic) })
	return c, func() {
		elsewhere()
		here()
	}
}

func bellTopic(bell string) string { return "bell " + bell }
