package zoned

import (
	"testing"
	"time"
)

// A year is walked in steps of five minutes. What each clock shows first is
// what first returns, and what it never shows is the next instant that follows.
func TestReadingsAgreeWithClocksThatRun(t *testing.T) {
	const step = 5 * time.Minute
	for _, test := range []struct {
		zone string
		year int
	}{
		{"Europe/Berlin", 2026},
		{"America/New_York", 2026},
		{"Australia/Lord_Howe", 2026},
		{"Africa/Casablanca", 2026}, // off summer time for a month in spring
		{"Asia/Kathmandu", 2026},    // no summer time, a quarter of an hour
		{"Pacific/Apia", 2011},      // a day left out
	} {
		location, err := Zone(test.zone)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Date(test.year, 1, 1, 0, 0, 0, 0, time.UTC)
		end := begin.AddDate(1, 0, 0)

		const layout = "2006-01-02 15:04"
		firstShown := map[string]time.Time{}
		for at := begin.Add(-48 * time.Hour); at.Before(end.Add(48 * time.Hour)); at = at.Add(step) {
			s := at.In(location).Format(layout)
			if _, seen := firstShown[s]; !seen {
				firstShown[s] = at
			}
		}
		skipped := 0
		for reading := begin; reading.Before(end); reading = reading.Add(step) {
			s := reading.Format(layout)
			got := First(reading, location)
			want, shown := firstShown[s]
			for next := reading; !shown; {
				// The end of what is skipped is the first that is shown again.
				next = next.Add(step)
				want, shown = firstShown[next.Format(layout)]
				skipped++
			}
			if !got.Equal(want) {
				t.Fatalf("%s in %s is %v, want %v", s, test.zone, got, want.In(location))
			}
		}
		if quiet := test.zone == "Asia/Kathmandu"; (skipped == 0) != quiet {
			t.Errorf("%s: %d steps to the end of what is skipped", test.zone, skipped)
		}
	}
}
