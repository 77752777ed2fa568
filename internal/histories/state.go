package histories

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/session"
)

// What a call's state is in the words that clients are told.

func (s callState) ended() string {
	if s.status != session.Settled {
		return "open"
	}
	return fmt.Sprint("settled ", s.settled)
}

// shows is what a look at the call shows.
func (s callState) shows() string {
	switch s.status {
	case "":
		return "unknown"
	case session.Settled:
		return fmt.Sprintf("%s, %d pauses%s", s.result(), s.pauses, s.box)
	}
	return fmt.Sprintf("%s, %d pauses%s", s.status, s.pauses, s.box)
}

// result is what an event shows of how the call ended.
func (s callState) result() string { return strings.TrimSpace(s.ended() + " " + s.output) }

// waits is what a list of open pauses has of the call.
func (s callState) waits() string {
	if s.status != session.Pending {
		return "doesn't wait"
	}
	return waitsText(s.pauses, s.deadline)
}

// waitsText is an open pause; a deadline of 0 is none.
func waitsText(pause, deadline int) string {
	return fmt.Sprintf("pause %d waits until %d", pause, deadline)
}

// receipts is the list of what was accepted.
func (s callState) receipts() string {
	var all []string
	for n := range s.got {
		for _, a := range []accepted{s.got[n], s.refused[n]} {
			if a.by != "" {
				all = append(all, receiptText(n, a.by, a.fate))
			}
		}
	}
	if s.cancel.by != "" {
		all = append(all, receiptText(0, s.cancel.by, s.cancel.fate))
	}
	return receiptsText(all)
}

func receiptText(pause int, by string, fate session.Fate) string {
	return strings.TrimSpace(fmt.Sprintf("%d by %s %s", pause, by, fate))
}

func receiptsText(all []string) string {
	slices.Sort(all)
	return strings.Join(all, ", ")
}
