package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/fermata-ai/fermata/internal/zoned"
)

// times are the nominal times of a schedule, in order. The library parses the
// expression, and finds readings of a clock that is never set. Which instants
// those are in a zone is decided here, since the library leaves out what is
// skipped, and has twice what is shown twice.
type times struct {
	at    time.Time // the only one, where there is no cron
	until time.Time
	zone  *time.Location
	spec  *cron.SpecSchedule // nil: every
	every time.Duration
}

// times reads when the schedule fires.
func (s *Schedule) times() (t times, err error) {
	if s.Zone == "" {
		t.zone = time.UTC
	} else if t.zone, err = zoned.Zone(s.Zone); err != nil {
		return t, err
	}
	if s.Cron == "" {
		t.at = roundUp(s.At)
		return t, nil
	}
	if strings.Contains(s.Cron, "TZ=") {
		return t, fmt.Errorf("the zone stands in Zone, and not in Cron %q", s.Cron)
	}
	parsed, err := cron.ParseStandard(s.Cron)
	if err != nil {
		return t, fmt.Errorf("its Cron %q: %w", s.Cron, err)
	}
	switch parsed := parsed.(type) {
	case *cron.SpecSchedule:
		t.spec = parsed
	case cron.ConstantDelaySchedule:
		t.every = parsed.Delay
	}
	if t.spec != nil && t.after(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return t, errors.New("no date has what its Cron asks for")
	}
	t.until = s.Until // whatever dates there are until then
	return t, nil
}

// sameTimes reports whether two schedules fire at the same times.
func (s *Schedule) sameTimes(o *Schedule) bool {
	return s.At.Equal(o.At) && s.Cron == o.Cron && s.Zone == o.Zone && s.Until.Equal(o.Until)
}

// checkEvery refuses what the library would round to another interval.
func checkEvery(expression string) error {
	text, every := strings.CutPrefix(expression, "@every ")
	if !every {
		return nil
	}
	if d, err := time.ParseDuration(text); err != nil || d < time.Second || d%time.Second != 0 {
		return fmt.Errorf("the interval of Cron %q has to be whole seconds, one at least", expression)
	}
	return nil
}

// star is the bit by which the library marks a field that is *.
const star = 1 << 63

// after returns the first nominal time after an instant; zero: there is none.
func (t *times) after(instant time.Time) (next time.Time) {
	switch {
	case !t.at.IsZero():
		if next = t.at; !next.After(instant) {
			return time.Time{}
		}
	case t.spec == nil:
		next = instant.Truncate(time.Second).Add(t.every)
	case t.spec.Hour&star != 0:
		next = t.passing(instant)
	default:
		next = t.reading(instant)
	}
	if next.IsZero() || !t.until.IsZero() && next.After(t.until) {
		return time.Time{}
	}
	return next.UTC()
}

// passing returns the first time after an instant by a clock that is never set:
// within each stretch in which the zone keeps its offset, that is what hangs
// there.
func (t *times) passing(instant time.Time) time.Time {
	for from := instant; ; {
		_, end := from.In(t.zone).ZoneBounds()
		_, offset := from.In(t.zone).Zone()
		next := t.next(from.In(time.FixedZone("", offset)))
		if end.IsZero() || !next.IsZero() && next.Before(end) {
			return next
		}
		if end.Sub(instant) > horizon {
			return time.Time{}
		}
		// The first second of the next stretch counts, and has its offset.
		_, offset = end.In(t.zone).Zone()
		first := t.next(end.Add(-time.Second).In(time.FixedZone("", offset)))
		if first.Equal(end) {
			return end
		}
		from = end
	}
}

// reading returns the first instant after another one at which a clock in the
// zone shows what the expression asks for.
func (t *times) reading(instant time.Time) time.Time {
	_, offset := instant.In(t.zone).Zone()
	shown := instant.UTC().Add(time.Duration(offset) * time.Second)
	for {
		if shown = t.next(shown); shown.IsZero() {
			return time.Time{}
		}
		if at := zoned.First(shown, t.zone); at.After(instant) {
			return at
		}
	}
}

// horizon is how far the next time may be: from one 29th of February to the
// next, with no leap year at the end of a century.
const horizon = 10 * 366 * 24 * time.Hour

// next asks the library, which looks five years ahead, by the offset that
// instant has.
func (t *times) next(instant time.Time) time.Time {
	spec := *t.spec
	spec.Location = instant.Location()
	for from := instant; from.Sub(instant) < horizon; from = from.AddDate(5, 0, 0) {
		if next := spec.Next(from); !next.IsZero() {
			return next
		}
	}
	return time.Time{}
}

// last returns the last nominal time that is not after now, and not before
// first, which is one.
func (t *times) last(first, now time.Time) time.Time {
	switch {
	case !t.at.IsZero():
		return first
	case t.spec == nil:
		if !t.until.IsZero() && now.After(t.until) {
			now = t.until
		}
		return first.Add(now.Sub(first) / t.every * t.every)
	}
	// What lies between may be very much. Before now there is one in the shortest
	// of these stretches, or in none.
	for back := time.Minute; back < now.Sub(first); back *= 8 {
		if at := t.after(now.Add(-back)); !at.IsZero() && !at.After(now) {
			first = later(first, at)
			break
		}
	}
	for {
		next := t.after(first)
		if next.IsZero() || next.After(now) {
			return first
		}
		first = next
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
