package runner

import (
	"log/slog"
	"time"
)

// recurring logs an error that may come back at each look of a loop, as that of
// a store that is away does: at once, then once a minute while it lasts, and
// when it is over. It belongs to the loop's goroutine.
type recurring struct {
	log   *slog.Logger
	what  string // the message of its lines
	last  string // the error, as it was logged last; empty: all is well
	at    time.Time
	begun time.Time
}

// againAfter is when an error that lasts is logged again.
const againAfter = time.Minute

// look takes in how a look ended.
func (r *recurring) look(err error) {
	now := time.Now()
	switch {
	case err == nil && r.last == "":
	case err == nil:
		r.log.Info(r.what+": that is over", "after", now.Sub(r.begun).Round(time.Second))
		r.last = ""
	case r.last == "":
		r.begun = now
		fallthrough
	case r.last != err.Error(), now.Sub(r.at) >= againAfter:
		r.last, r.at = err.Error(), now
		r.log.Error(r.what, "error", err, "for", now.Sub(r.begun).Round(time.Second))
	}
}
