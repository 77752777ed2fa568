// Package zoned tells which instant a clock on a wall shows: a date and a time
// in a zone of the IANA database. It is for what people and models name for
// later: a wait until nine in Berlin, a nightly schedule.
//
// It isn't for instants that are known already, which are time.Time, and not
// for durations, which no zone bends.
package zoned

import (
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/excerpt"
)

// At returns the first instant at which a clock in the zone shows the date
// ("2006-01-02") and the time ("15:04", "15:04:05" or "15:04:05.000").
//
// A time that is shown twice, because clocks are set back, is its first. A time
// that is never shown, because clocks are set forward over it, is the instant
// at which they are set forward: the end of what is skipped. time.Date promises
// neither.
//
// An error is for who wrote the three: it has no package's name in front.
func At(date, clock, zone string) (time.Time, error) {
	shown, err := parse("a date", date, "2006-01-02")
	if err != nil {
		return time.Time{}, err
	}
	ofDay, err := parse("a time of day", clock, "15:04", "15:04:05", "15:04:05.000")
	if err != nil {
		return time.Time{}, err
	}
	location, err := Zone(zone)
	if err != nil {
		return time.Time{}, err
	}
	midnight := ofDay.Truncate(24 * time.Hour)
	return First(shown.Add(ofDay.Sub(midnight)), location), nil
}

// Zone returns the location that the IANA database has under the name. It
// refuses the empty name and "Local", which mean another zone on another
// machine.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("%q is no time zone: name one of the IANA database, "+
			"such as Europe/Berlin or UTC", excerpt.Of(name))
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is no time zone that this program knows: name one of "+
			"the IANA database, such as Europe/Berlin or UTC", excerpt.Of(name))
	}
	return location, nil
}

// parse reads the text in one of the layouts, and takes no other spelling of
// the same: "9:30" could be in the evening.
func parse(what, text string, layouts ...string) (time.Time, error) {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil && t.Format(layout) == text {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not %s: write it as in %s", excerpt.Of(text), what,
		layouts[0])
}

// widest is more than any zone has ever been from UTC.
const widest = 26 * time.Hour

// First goes through the stretches of time between which the zone changes its
// offset, in order, and returns the first instant at which shown, a reading of
// the clock as if it hung in UTC, is reached or passed over.
func First(shown time.Time, location *time.Location) time.Time {
	for t := shown.Add(-widest).In(location); ; {
		_, end := t.ZoneBounds()
		_, seconds := t.Zone()
		match := shown.Add(-time.Duration(seconds) * time.Second)
		switch {
		case match.Before(t):
			// The stretch begins behind it: t is where clocks were set forward.
			return t
		case end.IsZero() || match.Before(end):
			return match.In(location)
		}
		t = end
	}
}
