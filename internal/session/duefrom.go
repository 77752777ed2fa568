package session

import (
	"bytes"
	"context"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// Sessions enter the wake index at its front, and leave it there. An engine that
// keeps deleted keys for a while has each look pay for all that have left. So a
// worker begins where it found the first session the last time. The index has
// two such fronts: of the sessions that are due at once, and of those that have
// a time.

// Front is where a worker begins to read the wake index of an agent: after two
// keys. The zero value is the beginning.
type Front struct{ atOnce, timed []byte }

// IsBeginning reports whether a look from there on is one at all of the index.
func (f Front) IsBeginning() bool { return f.atOnce == nil }

// Key returns the key after which what is due stands.
func (f Front) Key() []byte { return f.atOnce }

// DuePage is what a worker reads from a front on.
type DuePage struct {
	Due  []Due
	More bool      // there are more
	Next time.Time // when the next session will be due, if that was asked for
	Then Front     // where the next look begins
}

// late is how long a commit may be under way without that it puts a session
// before the front. One that takes longer, or comes from a process whose clock
// is behind, is found when a worker begins at the beginning.
const late = 3 * time.Second

const lateTopic = "late"

// WatchLate returns a channel that gets a value when a transaction was committed
// that may have put a session before the front, as far as this process knows.
func (s *Store) WatchLate() (c <-chan struct{}, stop func()) { return s.listenFor(lateTopic) }

// KeepsDeleted reports whether the engine keeps deleted keys for a while.
func (s *Store) KeepsDeleted() bool {
	_, keeps := s.kv.kv.(kvstore.Versioned)
	return keeps
}

// DueFrom lists sessions of an agent that are due, as Due does, from a front on,
// and when the next one is, if it is within so much.
func (s *Store) DueFrom(
	ctx context.Context, agent string, f Front, within time.Duration,
) (p DuePage, err error) {
	now, prefix := s.Now(), kvstore.Key("w", agent)
	times := kvstore.Key("w", agent, millis(leastTime))
	first, err := s.kv.Scan(ctx, kvstore.Range{Prefix: prefix, After: f.atOnce, Before: times,
		Limit: 256})
	if err != nil {
		return p, err
	}
	if f.timed == nil {
		f.timed = times
	}
	then, err := s.kv.Scan(ctx, kvstore.Range{Prefix: prefix, After: f.timed,
		Before: kvstore.Key("w", agent, millis(now.Add(within+time.Millisecond))), Limit: 64})
	if err != nil {
		return p, err
	}
	p.More = first.More || then.More
	p.Then = frontAt(agent, first, then, now)
	for _, e := range append(first.Entries, then.Entries...) {
		d, at, ok := dueEntry(e)
		if !ok {
			continue
		}
		if at.After(now) {
			p.Next, p.More = at, first.More
			break
		}
		p.Due = append(p.Due, d)
	}
	return p, nil
}

// LatestFront returns the front of an index in which nothing is due.
func (s *Store) LatestFront(agent string) Front {
	return frontAt(agent, kvstore.Page{}, kvstore.Page{}, s.Now())
}

func frontAt(agent string, first, then kvstore.Page, now time.Time) Front {
	return Front{front(agent, first, atOnce(now.Add(-late))), front(agent, then, now.Add(-late))}
}

// front returns the key after which the next look begins: before the first
// session of a page, and not after a time.
func front(agent string, p kvstore.Page, notAfter time.Time) []byte {
	key := kvstore.Key("w", agent, millis(notAfter))
	if len(p.Entries) == 0 {
		return key
	}
	parts, err := kvstore.Parts(p.Entries[0].Key)
	if err != nil || len(parts) != 4 {
		return nil
	}
	if first := kvstore.Key("w", agent, parts[2]); bytes.Compare(first, key) < 0 {
		return first
	}
	return key
}
