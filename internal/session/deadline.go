package session

import (
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// deadlineOf returns until when a pause lasts, by whole milliseconds and not
// shortened; zero: for ever.
func (tx *Tx) deadlineOf(a *tool.Await) time.Time {
	end := a.Deadline.UTC()
	switch {
	case a.Timeout > 0:
		end = tx.Now.Add(a.Timeout)
	case end.IsZero() && a.Reason != tool.ReasonTimer:
		return time.Time{}
	case end.Before(tx.Now):
		return tx.Now // it is over already
	}
	if whole := end.Truncate(time.Millisecond); whole.Before(end) {
		end = whole.Add(time.Millisecond)
	}
	return end
}

// byDeadline is the actor of calls that ended because nothing came in time.
const byDeadline = "deadline"

// byTimer is the actor of what a deadline does other than to expire a call.
const byTimer = "timer"

// goesOnByTimer reports whether the call goes on at the pause's deadline,
// rather than expire.
func (p *Pause) goesOnByTimer() bool {
	return p.Reason == tool.ReasonTimer || p.isRetry() || p.OnTimeout == tool.ReenterOnTimeout
}

// goOnByTimer ends the open pause of a call with its deadline, as with an
// answer; a layer's lets the call through.
func (tx *Tx) goOnByTimer(c *Call) error {
	if c.Pause.Gate != "" {
		tx.decide(c, Decision{Decision: tool.Decision{Approved: true, Actor: byTimer}})
		return nil
	}
	if c.Pause.isRetry() {
		tx.tryAgain(c)
		return nil
	}
	kind := KindTimer
	if c.Pause.OnTimeout == tool.ReenterOnTimeout {
		kind = KindTimeout
	}
	return tx.answered(c, &Answer{Pause: c.Pauses, Kind: kind,
		Payload: &Blob{Inline: []byte("null")}, Actor: byTimer, At: tx.Now})
}
