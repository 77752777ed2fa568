package session

import (
	"maps"
	"sync"
	"time"
)

// No process trusts another's clock. A lease, a retry or a wait after a death
// is stored with the time at which it is over, and with how long it lasts at
// most. It is over at that time, or once this process has known of it for so
// long by its own monotonic clock.

// sightings are the leases, retries and waits that this process has seen, and
// when it first saw each. All methods may be called from any goroutine, except
// room, whose caller holds the lock.
type sightings struct {
	lease time.Duration // the store's

	mu    sync.Mutex // guards the rest; held over no call
	known map[subject]sighting
	swept time.Time // when room was last made, or looked for
}

// subject is what a session has one of at a time.
type subject struct {
	session string
	kind    sightKind
}

type sightKind byte

const (
	sawLease sightKind = iota
	sawRetry
	sawDeath
	sawSender
)

// sighting is the first look at a subject with this mark. The same subject with
// another mark is another lease, retry or wait.
type sighting struct {
	mark         mark
	first, asked time.Time // monotonic: when age was first and last called for it
}

// mark tells apart what a subject is at different times.
type mark struct {
	epoch, count int
	end          int64 // milliseconds
}

// A process notes at most maxSightings. Workers ask about all subjects three
// times a lease. So when there is no room, what was not asked about in the last
// forgetAfter leases is over, and is forgotten. Room is looked for at most once
// a lease, since that goes through all that is known. A subject that finds no
// room counts as just seen: it waits longer, and nothing is done too early.
const (
	maxSightings = 20_000
	forgetAfter  = 3
)

// age returns how long this process has known of the subject with that mark.
// The first time it is zero.
func (s *sightings) age(sub subject, m mark) time.Duration {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, known := s.known[sub]
	if !known && !s.room(now) {
		return 0
	}
	if !known || seen.mark != m {
		seen = sighting{mark: m, first: now}
	}
	seen.asked = now
	s.known[sub] = seen
	return now.Sub(seen.first)
}

// room reports whether one more can be noted, and makes room if it may.
func (s *sightings) room(now time.Time) bool {
	if s.known == nil {
		s.known = map[subject]sighting{}
	}
	if len(s.known) >= maxSightings && now.Sub(s.swept) >= s.lease {
		s.swept = now
		maps.DeleteFunc(s.known, func(_ subject, seen sighting) bool {
			return now.Sub(seen.asked) > forgetAfter*s.lease
		})
	}
	return len(s.known) < maxSightings
}

// soonest returns the earlier of two times by the store's clock: the stored
// end, and the time at which this process will have known the subject for as
// long as wait.
func (s *Store) soonest(sub subject, m mark, end time.Time, wait time.Duration) time.Time {
	now := s.Now()
	if !end.After(now) {
		return end
	}
	if ours := now.Add(max(0, wait-s.seen.age(sub, m))); ours.Before(end) {
		return ours
	}
	return end
}
