package session

import (
	"maps"
	"sync"
	"time"
)

// No process trusts another's clock. Where the store has a time at which
// something is over, and how long it lasts at most, it is over at that time, or
// once this process has known of it for so long by its own monotonic clock.

// sightings are what this process has seen of which another process's clock
// told when it is over, and when it first saw each. They may be used from many
// goroutines.
type sightings struct {
	lease time.Duration // that of the store

	mu    sync.Mutex // guards the rest
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
)

// sighting is the first of what has a mark. The same subject with another mark
// is another thing.
type sighting struct {
	mark         mark
	first, asked time.Time // monotonic: when it was first and last asked for
}

// mark tells apart what a subject is at different times.
type mark struct {
	epoch, count int
	end          int64 // milliseconds
}

// A process notes at most maxSightings. When there is no room, it forgets what
// it was not asked about in the last forgetAfter leases: that is over. Workers
// ask about all that is there three times a lease. It looks for room at most
// once a lease, since that goes through all that it knows. What finds no room
// is as if it had just been seen: it waits, and is not hurried.
const (
	maxSightings = 20_000
	forgetAfter  = 3
)

// age returns for how long this process has known of what has that mark. The
// first time it is zero.
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

// soonest returns the earlier of two times by the store's clock: end, which was
// stored, and when this process will have known for as long as wait of what has
// that mark.
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
