package schedule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// stored is a schedule as the first message of its session has it.
type stored struct {
	// Schedule is a [Schedule], byte for byte as it was stored: what a later
	// version has added goes along when this one hands the schedule on.
	Schedule json.RawMessage `json:"schedule"`
	GraceMS  int64           `json:"grace_ms,omitzero"`
}

func (s Schedule) stored() (stored, error) {
	s.At, s.Until = s.At.UTC(), s.Until.UTC() // so that equal ones are stored equal
	text, err := strictjson.Append(nil, &s)
	if err != nil {
		return stored{}, fmt.Errorf("schedule: %q can't be stored: %w", s.ID, err)
	}
	return stored{Schedule: text, GraceMS: s.Grace.Milliseconds()}, nil
}

func (s *stored) schedule() (own Schedule, err error) {
	err = strictjson.Read(s.Schedule, &own)
	own.Grace = time.Duration(s.GraceMS) * time.Millisecond
	return own, err
}

// equals reports whether two schedules are stored equal, in what this version
// knows: a program of it that puts its schedules takes away nothing else.
func (s *stored) equals(o *stored) (bool, error) {
	own, err := s.known()
	if err != nil {
		return false, err
	}
	other, err := o.known()
	return bytes.Equal(own, other) && s.GraceMS == o.GraceMS, err
}

func (s *stored) known() ([]byte, error) {
	own, err := s.schedule()
	if err != nil {
		return nil, err
	}
	return strictjson.Append(nil, &own)
}

// task is what the call is asked for, and what it returns so that another call
// goes on where it stands. Over: no call does.
type task struct {
	stored
	State state `json:"state"`
	Over  bool  `json:"over,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// readTask reads what a call is asked for, or has returned.
func readTask(text []byte) (t task, s Schedule, err error) {
	if err = strictjson.Read(text, &t); err == nil {
		s, err = t.schedule()
	}
	return t, s, err
}

// state is what the call keeps between its entries: the Data of its pauses.
type state struct {
	// Begun: From was set, since when nominal times count, until Next has the
	// first.
	Begun   bool      `json:"begun,omitzero"`
	From    time.Time `json:"from,omitzero"`
	Next    time.Time `json:"next,omitzero"` // zero: none follows
	Paused  bool      `json:"paused,omitzero"`
	Fired   int       `json:"fired,omitzero"`
	Skipped int       `json:"skipped,omitzero"`
	Failed  int       `json:"failed,omitzero"`
	Last    *Firing   `json:"last,omitzero"`
	// Due has the firings that are to be carried out, in order. The first was
	// tried Tries times, and is tried again at Again. Waits: it waits for the run
	// of the one before.
	Due   []Firing  `json:"due,omitempty"`
	Tries int       `json:"tries,omitzero"`
	Again time.Time `json:"again,omitzero"`
	Waits bool      `json:"waits,omitzero"`
	// Taken is how many events of the call were taken. Before is the call before
	// this one, until those that it had left are taken, all behind the number
	// Left.
	Taken  int    `json:"taken,omitzero"`
	Before string `json:"before,omitzero"`
	Left   int    `json:"left,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

// Firing is one time that a schedule fires.
type Firing struct {
	ID      string    `json:"id"`               // of the message too
	Nominal time.Time `json:"nominal,omitzero"` // zero: it was run by hand
	Session string    `json:"session,omitzero"` // where its message went
	// Error is why it could not be sent; of one that is due, the last time.
	Error string `json:"error,omitzero"`
}

// maxDue is how many nominal times are collected. Further ones stay until there
// is room: Next has the first.
const maxDue = 20

// collect finds the nominal times that have come.
func (st *state) collect(s *Schedule, t *times, now time.Time) {
	if !st.From.IsZero() {
		if st.Next = t.at; st.Next.IsZero() {
			st.Next = t.after(st.From)
		}
		if !t.at.IsZero() && st.isDue(FiringID(s.ID, t.at)) { // it was collected before a change
			st.Next = time.Time{}
		}
		st.From = time.Time{}
	}
	for !st.Paused && !st.Next.IsZero() && !st.Next.After(now) && len(st.Due) < maxDue {
		nominal := st.Next
		if missed := now.Sub(nominal) > s.grace(); missed && s.Missed != MissedAll {
			// All that are missed go together, and then those that aren't.
			last := t.last(nominal, now.Add(-s.grace()))
			if st.Next = t.after(last); s.Missed == MissedSkip {
				st.Skipped++
				continue
			}
			nominal = last
		} else {
			st.Next = t.after(nominal)
		}
		if st.Waits && s.Missed != MissedAll {
			st.Skipped++
			continue
		}
		st.Due = append(st.Due, Firing{ID: FiringID(s.ID, nominal), Nominal: nominal})
	}
}

// isDue reports whether a firing waits to be carried out.
func (st *state) isDue(id string) bool {
	return slices.ContainsFunc(st.Due, func(f Firing) bool { return f.ID == id })
}

// wake returns when the call is to be entered again by itself; zero: never.
func (st *state) wake() time.Time {
	at, room := st.Again, len(st.Due) < maxDue
	if !st.Paused && room && !st.Next.IsZero() && (at.IsZero() || st.Next.Before(at)) {
		at = st.Next
	}
	return at
}

// over reports whether nothing will fire any more.
func (st *state) over() bool { return len(st.Due) == 0 && st.Next.IsZero() && st.From.IsZero() }

// done takes the first firing that is due off the list.
func (st *state) done(f Firing) {
	if f.Error == "" {
		st.Fired++
	} else {
		st.Failed++
	}
	st.Last = &f
	st.drop()
}

func (st *state) drop() {
	st.Due, st.Tries, st.Again, st.Waits = st.Due[1:], 0, time.Time{}, false
}
