// Package fermatatest kills an agent at every write of its store, and shows
// that it makes no difference: what was accepted is there, nothing ran twice,
// and the conversation is the one that would have been without the crash. Put
// your own tools into a [Scenario], and [Run] it.
//
// A scenario is an agent and what happens to it: messages, answers,
// cancellations, progress, time. It is run uncut once, and then once for each
// write that goes wrong, in each of four ways: the write fails and the process
// dies; the write is carried out and the process dies before it hears of it;
// only the acknowledgement is lost; the write fails and the process goes on.
// After a death the store is opened again and the same inputs are delivered
// from the start. Transcripts, call records, receipts and the entries into the
// tools' bodies are held against the uncut history.
//
// It is no load test, and no test of real processes: all runs in one, and a
// death drops what the agent has in memory.
package fermatatest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/fermata-ai/fermata/kvstore/faultkv"
)

// Options are for [Run]; nil is right for most.
type Options struct {
	// Engines keep the histories; empty: those of [Engines].
	Engines []Engine
	// Twice: a process that was killed is followed by one that is killed, too,
	// at each of its writes in turn. That takes the square of the time.
	Twice bool
	// Every cuts only every n-th write, for tests that have to be short; 0 and
	// 1 cut them all.
	Every int
	// First is how many writes are passed over before the first that is cut, so
	// that several runs with Every cut different ones.
	First int

	// Half of the ways in which a write goes wrong, where it is 1 or 2: the first
	// and every second one from there, or the others. For short tests.
	half int
}

// cuts returns which write is cut first, counted from 1, and how many writes on
// the next one is. Each way begins at another write.
func (o *Options) cuts(way, writes int) (first, every int) {
	every = max(1, o.Every)
	first = o.First + way*every/len(ways)
	return 1 + first%every%max(1, writes), every
}

// Run cuts each scenario at every write, on every engine: a subtest each, and
// an error for each history that went wrong. It logs the table that it returns.
func Run(t *testing.T, o *Options, scenarios ...Scenario) Table {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	engines := o.Engines
	if len(engines) == 0 {
		engines = Engines()
	}
	var table Table
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			for _, e := range engines {
				t.Run(e.Name, func(t *testing.T) {
					r, err := s.Cut(t.Context(), e, o)
					if err != nil {
						t.Fatal(err)
					}
					for _, v := range r.Violations {
						t.Errorf("%s", v)
					}
					table = append(table, r)
				})
			}
		})
	}
	t.Logf("\n%s", table)
	histories, wrong := 0, 0
	for _, r := range table {
		histories, wrong = histories+r.Histories, wrong+len(r.Violations)
	}
	t.Logf("counted: %d histories cut at a write, %d violations", histories, wrong)
	return table
}

// Report is the result of one scenario on one engine.
type Report struct {
	Scenario, Engine string
	Writes           int // of the uncut history
	Histories        int // that were cut
	Unknown          int // histories in which the outcome of some call remained unknown, honestly
	Violations       []Violation
}

// Violation is what is wrong with one history.
type Violation struct {
	Cut  string // where it was cut
	Text string // what is wrong, and what happened before
}

func (v Violation) String() string { return v.Cut + ": " + v.Text }

// Table is a list of reports. As text it is one, with a line each.
type Table []Report

func (t Table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scenario\tengine\twrites\thistories\tunknown outcomes\tviolations")
	for _, r := range t {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\n", r.Scenario, r.Engine, r.Writes, r.Histories,
			r.Unknown, len(r.Violations))
	}
	w.Flush()
	return b.String()
}

// cut tells where a history was cut.
func cut(faults []faultkv.Fault) string {
	if len(faults) == 0 {
		return "the uncut history"
	}
	return fmt.Sprint(faults)
}

// maxViolations is how many wrong histories are enough.
const maxViolations = 3

// Cut runs the scenario uncut on an engine, and then once for each way in which
// each of its writes can go wrong. Of the options, Engines is not used. An
// error means that the scenario can't be run.
func (s Scenario) Cut(ctx context.Context, e Engine, o *Options) (Report, error) {
	if o == nil {
		o = &Options{}
	}
	r := Report{Scenario: s.Name, Engine: e.Name}
	uncut, _, err := s.history(ctx, e, nil, &r, way{})
	if err != nil || len(r.Violations) > 0 {
		return r, err
	}
	r.Writes = uncut.writes
	for i, w := range ways {
		if o.half > 0 && i%2 != o.half-1 {
			continue
		}
		first, every := o.cuts(i, uncut.writes)
		for n := first; o.reaches(n, uncut.writes) && len(r.Violations) < maxViolations; n += every {
			once, struck, err := s.history(ctx, e, uncut, &r, w, w.fault(n))
			if err != nil {
				return r, err
			}
			if struck == 0 {
				break // n is beyond the last write
			}
			again := o.Twice && w.dies
			for m := 1; again && struck > 0 && o.reaches(m, once.writes-n) &&
				len(r.Violations) < maxViolations; m += every {
				next := faultkv.FailAt(m).AndDie()
				_, struck, err = s.history(ctx, e, uncut, &r, w, w.fault(n), next)
				if err != nil {
					return r, err
				}
				struck-- // the first
			}
		}
	}
	return r, nil
}

// reaches reports whether the n-th write may be one of about so many. How many
// a history has may differ a little where several goroutines write, so a cut of
// every write goes on until none is struck. Where only some are cut, a whole
// history only to see that would be as much again as the cut ones.
func (o *Options) reaches(n, writes int) bool { return o.Every <= 1 || n <= writes }

// way is a way in which a write goes wrong.
type way struct {
	fault      func(int) faultkv.Fault
	dies       bool
	exact      bool // the acknowledgement alone is lost: no trace may remain
	interrupts bool // the run ends, and with it the contexts of the bodies that run then
}

var ways = []way{
	{fault: func(n int) faultkv.Fault { return faultkv.FailAt(n).AndDie() }, dies: true},
	{fault: func(n int) faultkv.Fault { return faultkv.LoseAt(n).AndDie() }, dies: true},
	{fault: faultkv.LoseAt, exact: true},
	{fault: faultkv.FailAt, interrupts: true},
}

// history runs one history, and holds it against the uncut one, unless it is
// that one. It returns how many faults struck.
func (s *Scenario) history(
	ctx context.Context, e Engine, uncut *account, r *Report, w way, faults ...faultkv.Fault,
) (*account, int, error) {
	p, err := e.New()
	if err != nil {
		return nil, 0, err
	}
	h := newHistory(ctx, s, p, uncut, w)
	got, struck, err := h.run(faults)
	if err = errors.Join(err, p.Remove()); err != nil {
		return nil, 0, fmt.Errorf("scenario %q, %v: %w", s.Name, faults, err)
	}
	if uncut != nil && struck > 0 {
		r.Histories++
		if h.compare(got) {
			r.Unknown++
		}
	}
	if h.world.Check != nil {
		if err := h.world.Check(); err != nil {
			h.violation("%v", err)
		}
	}
	if len(h.wrong) > 0 {
		r.Violations = append(r.Violations, Violation{cut(faults), h.report()})
	}
	return got, struck, nil
}
