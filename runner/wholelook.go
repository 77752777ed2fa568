package runner

import "time"

// wholeLook is when a worker last looked at all of an index, and how long that
// took. Where the engine can't clear away what has left the index, since
// another program has a transaction open, say, a look passes over that, too. The
// longer it takes, the more seldom it comes.
type wholeLook struct {
	at   time.Time // monotonic
	took time.Duration
}

const (
	lookShare  = 5           // of its time a worker spends one part at most on one index
	lookSeldom = time.Minute // but a look comes so often
)

// next returns when the next look may come, if a fast one comes every so often.
// The zero value has none before it.
func (l wholeLook) next(every time.Duration) time.Time {
	if l.at.IsZero() {
		return l.at
	}
	return l.at.Add(max(every, min(lookShare*l.took, lookSeldom)))
}

// isDue reports whether that is now.
func (l wholeLook) isDue(now time.Time, every time.Duration) bool {
	return !now.Before(l.next(every))
}
