package session

import (
	"context"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// A pause may want its outside job to be heard of again and again. Each sign of
// life moves what the head has as due, and with it the wake index, in one
// commit. One that is missed ends the pause as a deadline does, and the call
// fails.

// Beat is until when the outside job of a pause must be heard of.
type Beat struct {
	EveryMS int64     `json:"every"` // milliseconds
	Due     time.Time `json:"due"`
}

func (b *Beat) every() time.Duration { return time.Duration(b.EveryMS) * time.Millisecond }

// beatOf returns the first beat of a pause; nil: none is wanted. What isn't
// whole milliseconds is rounded up.
func beatOf(every time.Duration, now time.Time) *Beat {
	if every <= 0 {
		return nil
	}
	b := &Beat{EveryMS: (every + time.Millisecond - 1).Milliseconds()}
	return b.next(now)
}

// heard is when the job was heard of last.
func (b *Beat) heard() time.Time { return b.Due.Add(-b.every()) }

func (b *Beat) next(heard time.Time) *Beat {
	return &Beat{EveryMS: b.EveryMS, Due: heard.Add(b.every())}
}

// ends is when the pause ends by itself: at its deadline, or where a heartbeat
// is missed; zero: never.
func (p *Pause) ends() time.Time {
	if p.Beat != nil && (p.Deadline.IsZero() || p.Beat.Due.Before(p.Deadline)) {
		return p.Beat.Due
	}
	return p.Deadline
}

// beatIsMissed reports whether a pause that is overdue is so by a heartbeat.
func (p *Pause) beatIsMissed() bool {
	return p.Beat != nil && p.ends().Equal(p.Beat.Due) && !p.Beat.Due.Equal(p.Deadline)
}

// Heard is what a sender learns that tells of a call's outside job.
type Heard struct {
	Tool string
	// Cancelled: the call is still open, and is to be cancelled.
	Cancelled  bool
	Background bool      // no events tell of the call
	Due        time.Time // of the next heartbeat; zero: none is awaited
}

func (c *Call) heard() Heard {
	h := Heard{Tool: c.Tool, Cancelled: c.Cancel != nil, Background: c.Background}
	if c.beats() {
		h.Due = c.Pause.Beat.Due
	}
	return h
}

// beats reports whether the call waits, and its job must be heard of.
func (c *Call) beats() bool { return c.Status == Pending && c.Pause.Beat != nil }

// beat notes that the outside job of a call's open pause was heard of, at that
// time. With the number of a pause, that must not be over. Puts go into the
// same commit.
func (s *Store) beat(
	ctx context.Context, session, call string, number int, at time.Time, puts []kvstore.Put,
) (h Heard, err error) {
	err = s.Update(ctx, session, func(tx *Tx) error {
		c, err := tx.live(call)
		if err == nil && number > 0 {
			err = c.notOver(number)
		}
		if err != nil {
			return err
		}
		for _, p := range puts {
			tx.put(p.Key, p.Value)
		}
		if c.beats() && at.After(c.Pause.Beat.heard()) {
			p := *c.Pause
			p.Beat, c.Pause = p.Beat.next(at), &p
			tx.touch()
		}
		h = c.heard()
		return nil
	})
	return h, err
}
