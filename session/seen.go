package session

import (
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
	mu    sync.Mutex
	first map[subject]sighting
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
	mark mark
	at   time.Time // monotonic
}

// mark tells apart what a subject is at different times.
type mark struct {
	epoch, count int
	end          int64 // milliseconds
}

// A process notes at most maxSightings. It is as if it had just seen what has
// no room: that waits, and is not hurried.
const (
	maxSightings = 20_000
	staleAfter   = time.Hour // of one that may not be there any more, when room is needed
)

// age returns for how long this process has known of what has that mark. The
// first time it is zero.
func (s *sightings) age(sub subject, m mark) time.Duration {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.first[sub]; ok && known.mark == m {
		return now.Sub(known.at)
	}
	if s.first == nil {
		s.first = map[subject]sighting{}
	}
	if len(s.first) >= maxSightings {
		for old, known := range s.first {
			if now.Sub(known.at) > staleAfter {
				delete(s.first, old)
			}
		}
	}
	if _, known := s.first[sub]; known || len(s.first) < maxSightings {
		s.first[sub] = sighting{m, now}
	}
	return 0
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
