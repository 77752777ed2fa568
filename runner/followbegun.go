package runner

import (
	"slices"

	"github.com/fermata-ai/fermata/event"
)

// begun are the bodies that a drive of this process has entered, and of which
// the follower was not told. Each waits until the message that asks for its call
// is shown, and comes before what the call came to. The follower's goroutine
// owns them.
type begun []event.Started

// add keeps one. Of too many the oldest is lost: its result is shown all the
// same.
func (b *begun) add(ev event.Started) {
	if len(*b) == maxQueued {
		*b = (*b)[1:]
	}
	*b = append(*b, ev)
}

// begins shows the entries of a call's body, as far as they were not shown.
func (f *follower) begins(call string) {
	f.begun = slices.DeleteFunc(f.begun, func(ev event.Started) bool {
		if ev.Call == call {
			f.emit(ev)
		}
		return ev.Call == call
	})
}

// allBegin shows those of the open turn, if its message is shown.
func (f *follower) allBegin() {
	if v := f.view; len(f.begun) > 0 && v != nil && f.place.number >= v.st.Messages {
		for i := range v.st.Calls {
			f.begins(v.st.Calls[i].ID)
		}
	}
}
