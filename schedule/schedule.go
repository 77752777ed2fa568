// Package schedule has agents work at their time: a message to a session, or a
// new session of an agent or a workflow, once at a time or again and again by a
// cron expression in a zone.
//
// A schedule is a session whose one call sleeps. So it outlives the process, any
// worker that has the [Agent] carries it on, and a [Calendar] lists, pauses,
// changes, deletes it, or runs it now.
//
// A firing is named by its schedule and its nominal time, the one that the
// schedule has for it. That name is the id of the message, and of the session
// that it begins. So each fires once, however many workers there are, and
// wherever one dies.
//
// It is no job queue: what fires is an agent. It has a resolution of a second,
// and no calendar of holidays.
package schedule

// Where things are:
//
//   - what a caller gives: schedule.go; what a cron expression means: cron.go
//   - the agent whose sessions are schedules: agent.go; its call: entry.go,
//     firing.go; what that keeps between its entries: state.go
//   - what callers do: calendar.go, list.go

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// Schedule is what is to happen, and when. At or Cron says when.
type Schedule struct {
	// ID names it: 1 to [MaxID] bytes, without "@".
	ID string `json:"id"`
	// User is whose sessions it works in.
	User string    `json:"user"`
	At   time.Time `json:"at,omitzero"` // once, then
	// Cron has five fields: minute, hour, day of the month, month, day of the
	// week. Or it is @hourly, @daily, @weekly, @monthly, @yearly, or @every and a
	// duration of whole seconds, one at least.
	//
	// Where the hour is *, the expression is for each hour that passes. Otherwise
	// it is for readings of a clock in the zone. A reading that is skipped, since
	// clocks are set forward, means the end of what is skipped. One that is shown
	// twice means its first.
	Cron string `json:"cron,omitzero"`
	// Zone is of the IANA database: Europe/Berlin; empty: UTC.
	Zone  string    `json:"zone,omitzero"`
	Until time.Time `json:"until,omitzero"` // with Cron: no firing is behind it
	Do    Target    `json:"do"`

	Missed Missed `json:"missed,omitzero"`
	// Grace is how late a firing may be without being missed; zero: a minute.
	Grace   time.Duration `json:"-"`
	Overlap Overlap       `json:"overlap,omitzero"`
}

// Target is what a firing does: it sends the message.
type Target struct {
	// Session is where the message goes. Empty: each firing begins a session of
	// its own, whose id is [FiringID].
	Session string `json:"session,omitzero"`
	// Agent is the name of the agent that a session begins with. Each runner that
	// has the [Agent] of this package needs it too.
	Agent   string      `json:"agent"`
	Message llm.Message `json:"message"`
}

// Missed is what becomes of firings that are later than [Schedule.Grace],
// because no worker ran.
type Missed string

// The policies.
const (
	MissedOnce Missed = ""     // one firing, of the last nominal time, makes up for all
	MissedSkip Missed = "skip" // none is made up for
	MissedAll  Missed = "all"  // each is made up for, in order
)

// Overlap is what a firing does while the run of the one before goes on, or
// waits. With a Target.Session, that is any run of the session.
type Overlap string

// The policies.
const (
	// OverlapWait: the firing waits until that run is over. With a
	// Target.Session it waits in the session's queue. Otherwise one waits at a
	// time, and those that come meanwhile are skipped, but with MissedAll.
	OverlapWait    Overlap = ""
	OverlapSkip    Overlap = "skip"    // it is skipped
	OverlapAllow   Overlap = "allow"   // it begins beside; goes with no Target.Session
	OverlapReplace Overlap = "replace" // the run before is cancelled
)

// MaxID is the longest id of a schedule, in bytes.
const MaxID = 64

// DefaultGrace is the Grace of a schedule that names none.
const DefaultGrace = time.Minute

// ErrInvalid refuses a schedule that makes no sense.
var ErrInvalid = errors.New("schedule: invalid")

// Check returns what is wrong with a schedule, as an ErrInvalid.
func (s Schedule) Check() error {
	if err := s.check(); err != nil {
		return fmt.Errorf("%w: %q: %w", ErrInvalid, s.ID, err)
	}
	return nil
}

func (s *Schedule) check() error {
	if err := s.checkTarget(); err != nil {
		return err
	}
	return s.checkTimes()
}

func (s *Schedule) checkTarget() error {
	switch {
	case s.ID == "" || len(s.ID) > MaxID || strings.Contains(s.ID, "@"):
		return fmt.Errorf("its ID has to be 1 to %d bytes, without @", MaxID)
	case s.User == "":
		return errors.New("it has no User")
	case s.Do.Agent == "":
		return errors.New("its Do has no Agent")
	case s.Do.Message.Role != llm.RoleUser || len(s.Do.Message.Parts) == 0:
		return errors.New("its Do has no message of a user")
	case s.Grace < 0:
		return fmt.Errorf("its Grace of %v is negative", s.Grace)
	}
	switch s.Missed {
	case MissedOnce, MissedSkip, MissedAll:
	default:
		return fmt.Errorf("unknown Missed %q", s.Missed)
	}
	switch {
	case s.Overlap == OverlapAllow && s.Do.Session != "":
		return errors.New("runs of one session don't overlap: OverlapAllow goes with no Session")
	case s.Overlap != OverlapWait && s.Overlap != OverlapSkip && s.Overlap != OverlapAllow &&
		s.Overlap != OverlapReplace:
		return fmt.Errorf("unknown Overlap %q", s.Overlap)
	}
	return nil
}

func (s *Schedule) checkTimes() error {
	switch {
	case s.At.IsZero() == (s.Cron == ""):
		return errors.New("either At or Cron says when, and not both")
	case s.Cron == "" && !s.Until.IsZero():
		return errors.New("its Until goes with Cron")
	case s.At.UTC().Year() > 9999 || s.Until.UTC().Year() > 9999:
		return errors.New("a time is after the year 9999")
	}
	t, err := s.times()
	switch {
	case err != nil:
		return err
	case t.at.Year() > 9999: // the next whole second is
		return errors.New("its At is after the year 9999")
	}
	return checkEvery(s.Cron)
}

// Next returns the first nominal time after an instant; zero: there is none. It
// needs the schedule's times alone, and not what is to be done.
func (s Schedule) Next(after time.Time) (time.Time, error) {
	if err := s.checkTimes(); err != nil {
		return time.Time{}, fmt.Errorf("%w: %q: %w", ErrInvalid, s.ID, err)
	}
	t, err := s.times()
	return t.after(after), err
}

// grace returns how late a firing may be.
func (s *Schedule) grace() time.Duration {
	if s.Grace == 0 {
		return DefaultGrace
	}
	return s.Grace
}

// runID names the firing of a schedule by hand.
func runID(schedule, once string) string { return schedule + "@run-" + once }

// FiringID names the firing of a schedule for a nominal time, or for an At, of
// which that is the next whole second.
func FiringID(schedule string, nominal time.Time) string {
	return schedule + "@" + roundUp(nominal).Format(time.RFC3339)
}

// roundUp returns a time that is no whole second as the next one that is.
func roundUp(t time.Time) time.Time {
	up := t.UTC().Truncate(time.Second)
	if up.Before(t) {
		up = up.Add(time.Second)
	}
	return up
}
