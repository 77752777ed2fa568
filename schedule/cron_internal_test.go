package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the test is the same on a machine without the database

	"github.com/fermata-ai/fermata/internal/zoned"
)

func timesOf(t *testing.T, expression, zone string) *times {
	t.Helper()
	s := Schedule{Cron: expression, Zone: zone}
	all, err := s.times()
	if err != nil {
		t.Fatal(err)
	}
	return &all
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestTimesWhereClocksAreSet(t *testing.T) {
	for name, test := range map[string]struct {
		expression, zone, after string
		want                    []string
	}{
		"each night, one skipped": {"30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", []string{
			"2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		"each night, one twice": {"30 2 * * *", "Europe/Berlin", "2026-10-23T12:00:00Z", []string{
			"2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		"several in what is skipped are one": {"*/15 2 * * *", "America/New_York",
			"2026-03-08T01:50:00-05:00", []string{"2026-03-08T03:00:00-04:00",
				"2026-03-09T02:00:00-04:00", "2026-03-09T02:15:00-04:00"}},
		"each hour passes": {"0 * * * *", "America/New_York", "2026-11-01T00:30:00-04:00", []string{
			"2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"}},
		"each hour, one skipped": {"30 * * * *", "America/New_York", "2026-03-08T00:50:00-05:00",
			[]string{"2026-03-08T01:30:00-05:00", "2026-03-08T03:30:00-04:00"}},
		"half an hour": {"15 * * * *", "Australia/Lord_Howe", "2026-10-04T01:20:00+10:30", []string{
			"2026-10-04T03:15:00+11:00", "2026-10-04T04:15:00+11:00"}},
		"no midnight": {"0 0 4 11 *", "America/Sao_Paulo", "2018-01-01T00:00:00Z", []string{
			"2018-11-04T01:00:00-02:00", "2019-11-04T00:00:00-03:00"}},
		"no midnight, each hour of a day": {"0 * 4 11 *", "America/Sao_Paulo",
			"2018-01-01T00:00:00Z", []string{"2018-11-04T01:00:00-02:00",
				"2018-11-04T02:00:00-02:00"}},
		"every":        {"@every 90m", "", "2026-01-01T00:00:00Z", []string{"2026-01-01T01:30:00Z"}},
		"a leap day":   {"0 0 29 2 *", "", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
		"a rare day":   {"0 0 29 2 *", "", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		"by its names": {"0 9 * jan mon", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-05T09:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			all, next := timesOf(t, test.expression, test.zone), at(t, test.after)
			for _, want := range test.want {
				if next = all.after(next); !next.Equal(at(t, want)) {
					t.Fatalf("it fires at %s, want %s", next.In(all.zone).Format(time.RFC3339), want)
				}
			}
		})
	}
}

// Around each change of clocks, minute by minute: nothing that an expression
// asks for is left out, and nothing else comes.
func TestTimesAgreeWithClocksThatRun(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe"} {
		for _, expression := range []string{"30 2 * * *", "*/7 1-3 * * *", "0 */2 * * *",
			"5,35 * * * *", "* * * * 0", "0 0 * * *", "59 1,2 * * 1-6"} {
			all := timesOf(t, expression, zone)
			for _, day := range []string{"2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04",
				"2026-10-25", "2026-11-01"} {
				begin := at(t, day+"T00:00:00Z").Add(-36 * time.Hour)
				end := begin.Add(96 * time.Hour)
				want := asked(all, begin, end)
				var got []time.Time
				for next := all.after(begin); next.Before(end); next = all.after(next) {
					got = append(got, next)
				}
				if !slices.EqualFunc(got, want, time.Time.Equal) {
					t.Errorf("%q in %s around %s fires at\n%v, want\n%v", expression, zone, day, got, want)
				}
			}
		}
	}
}

// asked returns the instants after begin and before end that an expression asks
// for, by a look at each minute.
func asked(all *times, begin, end time.Time) (want []time.Time) {
	matches := func(shown time.Time) bool {
		s := all.spec
		bit := func(field uint64, n int) bool { return field&(1<<n) != 0 }
		day, weekday := bit(s.Dom, shown.Day()), bit(s.Dow, int(shown.Weekday()))
		on := day || weekday
		if s.Dom&star != 0 || s.Dow&star != 0 {
			on = day && weekday
		}
		return on && bit(s.Month, int(shown.Month())) && bit(s.Hour, shown.Hour()) &&
			bit(s.Minute, shown.Minute())
	}
	if all.spec.Hour&star != 0 {
		for m := begin.Add(time.Minute); m.Before(end); m = m.Add(time.Minute) {
			if matches(m.In(all.zone)) {
				want = append(want, m)
			}
		}
		return want
	}
	const day = 24 * time.Hour
	for shown := begin.Add(-day); shown.Before(end.Add(day)); shown = shown.Add(time.Minute) {
		m := zoned.First(shown, all.zone)
		if matches(shown) && m.After(begin) && m.Before(end) {
			want = append(want, m)
		}
	}
	return slices.CompactFunc(want, time.Time.Equal)
}

// The last time before now, of however many, is found.
func TestTheLastTime(t *testing.T) {
	now := at(t, "2026-11-29T17:30:30Z")
	for expression, want := range map[string]string{
		"* * * * *":   "2026-11-29T17:30:00Z",
		"30 2 * * *":  "2026-11-29T02:30:00Z",
		"0 0 1 1 *":   "2026-01-01T00:00:00Z",
		"0 0 29 2 *":  "2024-02-29T00:00:00Z",
		"@every 90m":  "2026-11-29T16:30:00Z",
		"* * 29 11 *": "2026-11-29T17:30:00Z",
	} {
		all := timesOf(t, expression, "")
		first := all.after(at(t, "2003-12-31T23:59:00Z"))
		if expression == "@every 90m" {
			first = at(t, "2004-01-01T01:30:00Z")
		}
		if got := all.last(first, now); !got.Equal(at(t, want)) {
			t.Errorf("the last of %q is %v, want %s", expression, got, want)
		}
	}
}

func TestWhatIsNoSchedule(t *testing.T) {
	for text, change := range map[string]func(*Schedule){
		"its ID":             func(s *Schedule) { s.ID = "a@b" },
		"User":               func(s *Schedule) { s.User = "" },
		"At or Cron":         func(s *Schedule) { s.At = time.Unix(1e9, 0) },
		"Agent":              func(s *Schedule) { s.Do.Agent = "" },
		"no message":         func(s *Schedule) { s.Do.Message.Role = "assistant" },
		"negative":           func(s *Schedule) { s.Grace = -1 },
		"Missed":             func(s *Schedule) { s.Missed = "twice" },
		`Overlap "x"`:        func(s *Schedule) { s.Overlap = "x" },
		"don't overlap":      func(s *Schedule) { s.Overlap, s.Do.Session = OverlapAllow, "chat-1" },
		"exactly 5 fields":   func(s *Schedule) { s.Cron = "0 0 * * * *" },
		"no date":            func(s *Schedule) { s.Cron = "0 0 31 2 *" },
		"stands in Zone":     func(s *Schedule) { s.Cron = "CRON_TZ=UTC" },
		"IANA":               func(s *Schedule) { s.Zone = "Berlin" },
		"above maximum":      func(s *Schedule) { s.Cron = "60 * * * *" },
		"Until goes with":    func(s *Schedule) { s.Cron, s.At, s.Until = "", time.Unix(1e9, 0), time.Unix(2e9, 0) },
		"is after the year ": func(s *Schedule) { s.Cron, s.At = "", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		s := Schedule{ID: "a", User: "ada", Cron: "@daily", Do: Target{Agent: "clerk"}}
		s.Do.Message.Role = "user"
		s.Do.Message.Parts = append(s.Do.Message.Parts, nil)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v, want one with %q", err, text)
		}
	}
}
