package waits

import (
	"strconv"
	"strings"
	"time"
)

// Time returns a time as models read it: RFC 3339, in UTC, with milliseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// MS returns a duration in whole milliseconds.
func MS(d time.Duration) int64 { return d.Milliseconds() }

// Duration returns a duration in words, by whole seconds: "2m 5s". Less than a
// second is told in milliseconds: "250ms".
func Duration(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatInt(max(0, d.Milliseconds()), 10) + "ms"
	}
	left := int64(d / time.Second)
	var parts []string
	for _, u := range []struct {
		unit string
		secs int64
	}{{"d", 24 * 3600}, {"h", 3600}, {"m", 60}, {"s", 1}} {
		if n := left / u.secs; n > 0 {
			parts = append(parts, strconv.FormatInt(n, 10)+u.unit)
			left %= u.secs
		}
	}
	return strings.Join(parts, " ")
}
