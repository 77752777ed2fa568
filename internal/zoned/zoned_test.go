package zoned_test

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the test is the same on a machine without the database

	"github.com/fermata-ai/fermata/internal/zoned"
)

func TestATimeOnAWallIsAnInstant(t *testing.T) {
	for name, test := range map[string]struct{ date, clock, zone, want string }{
		"plain":        {"2026-11-29", "17:30", "Europe/Berlin", "2026-11-29T17:30:00+01:00"},
		"with seconds": {"2026-11-29", "17:30:05", "UTC", "2026-11-29T17:30:05Z"},
		"milliseconds": {"2026-11-29", "17:30:05.250", "UTC", "2026-11-29T17:30:05.25Z"},
		"a leap day":   {"2028-02-29", "00:00", "Asia/Tokyo", "2028-02-29T00:00:00+09:00"},
		// Clocks are set forward: what is skipped means its end.
		"skipped": {"2026-03-29", "02:30", "Europe/Berlin", "2026-03-29T03:00:00+02:00"},
		"its first instant": {"2026-03-29", "02:00", "Europe/Berlin",
			"2026-03-29T03:00:00+02:00"},
		"its last instant": {"2026-03-29", "02:59:59.999", "Europe/Berlin",
			"2026-03-29T03:00:00+02:00"},
		"right before it": {"2026-03-29", "01:59:59", "Europe/Berlin",
			"2026-03-29T01:59:59+01:00"},
		"right behind it": {"2026-03-29", "03:00", "Europe/Berlin", "2026-03-29T03:00:00+02:00"},
		"half an hour": {"2026-10-04", "02:15", "Australia/Lord_Howe",
			"2026-10-04T02:30:00+11:00"},
		"midnight": {"2018-11-04", "00:00", "America/Sao_Paulo", "2018-11-04T01:00:00-02:00"},
		"a day":    {"2011-12-30", "12:00", "Pacific/Apia", "2011-12-31T00:00:00+14:00"},
		// Clocks are set back: what is shown twice means its first.
		"twice": {"2026-10-25", "02:30", "Europe/Berlin", "2026-10-25T02:30:00+02:00"},
		"twice, west": {"2026-11-01", "01:00", "America/New_York",
			"2026-11-01T01:00:00-04:00"},
		"half an hour twice": {"2026-04-05", "01:45", "Australia/Lord_Howe",
			"2026-04-05T01:45:00+11:00"},
		// The database's last rule holds for all time behind its tables.
		"skipped, far off": {"2149-03-30", "02:30", "Europe/Berlin",
			"2149-03-30T03:00:00+02:00"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := zoned.At(test.date, test.clock, test.zone)
			if err != nil {
				t.Fatal(err)
			}
			if s := got.Format(time.RFC3339Nano); s != test.want {
				t.Errorf("%s %s in %s is %s, want %s", test.date, test.clock, test.zone, s, test.want)
			}
		})
	}
}

func TestWhatIsNoTimeIsRefused(t *testing.T) {
	for _, test := range []struct{ date, clock, zone, want string }{
		{"2026-02-29", "09:00", "UTC", "2026-02-29"},
		{"29.11.2026", "09:00", "UTC", "write it as in 2006-01-02"},
		{"2026-11-29 ", "09:00", "UTC", "not a date"},
		{"", "09:00", "UTC", "not a date"},
		{"2026-11-29", "9:00", "UTC", "not a time of day"},
		{"2026-11-29", "09:00 pm", "UTC", "not a time of day"},
		{"2026-11-29", "24:00", "UTC", "not a time of day"},
		{"2026-11-29", "23:59:60", "UTC", "not a time of day"},
		{"2026-11-29", "", "UTC", "not a time of day"},
		{"2026-11-29", "09:00", "", "IANA"},
		{"2026-11-29", "09:00", "Local", "IANA"},
		{"2026-11-29", "09:00", "Berlin", `"Berlin"`},
		{"2026-11-29", "09:00", "../etc/passwd", "IANA"},
		{"2026-11-29", "09:00", "+02:00", "IANA"},
	} {
		got, err := zoned.At(test.date, test.clock, test.zone)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q %q in %q is %v, %v; want an error with %q",
				test.date, test.clock, test.zone, got, err, test.want)
		}
	}
}
