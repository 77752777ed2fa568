package histories

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
)

// Check finds what no order explains, and what it can't explain in time. What is
// open may have happened, or not.
func TestCheck(t *testing.T) {
	job := Call{Once: true, Pauses: []byte{Output}}
	resume := func(content, by string, from, to int64, came string) Operation {
		return Operation{Name: "resume", Pause: 1, Content: content, By: by, From: from, To: to, Came: came}
	}
	see := func(name string, at int64, came string) Operation {
		return Operation{Name: name, From: at, To: at, Came: came}
	}
	open := resume("n1", "a", 2, math.MaxInt64, "")
	open.Uncertain = true
	done := see("result", 9, Result(event.Done, "n1"))
	for name, c := range map[string]struct {
		call Call
		all  []Operation
		want string // the beginning of why
	}{
		"an answer": {job, []Operation{see("waits", 1, Waits(1)), resume("n1", "a", 2, 3, isAccepted),
			resume("n1", "b", 4, 5, "duplicate of a"), done}, ""},
		"two answers": {job, []Operation{resume("n1", "a", 2, 3, isAccepted),
			resume("n2", "b", 4, 5, isAccepted)}, "no order"},
		"the other's result":           {job, []Operation{resume("n2", "a", 2, 3, isAccepted), done}, "no order"},
		"an open one that happened":    {job, []Operation{open, done}, ""},
		"an open one that didn't":      {job, []Operation{open, see("waits", 9, Waits(1))}, ""},
		"an open one, before it began": {job, []Operation{open, see("result", 1, done.Came)}, "no order"},
		"a result without an answer":   {job, []Operation{done}, "no order"},
		"an answer that is lost": {job, []Operation{resume("n1", "a", 2, 3, isAccepted),
			see("waits", 9, Waits(1))}, "no order"},
		"an end that expires": {job, []Operation{see("result", 9, Result(event.Expired, ""))}, "no order"},
		"an entry once it is over": {job, []Operation{see("waits", 1, Waits(1)),
			see("entry", 2, "shown ")}, "no order"},
		"a body that was cut off": {Call{Once: true, Pauses: []byte{Done}},
			[]Operation{see("entry", 1, "shown "), see("result", 2, Result(event.Unknown, ""))}, ""},
		"one that is done again": {Call{Pauses: []byte{Done}},
			[]Operation{see("entry", 1, "shown "), see("result", 2, Result(event.Unknown, ""))}, "no order"},
		"a body that outlives its cancellation, though an answer is kept": {job, []Operation{
			see("entry", 1, "shown "), resume("n1", "a", 2, 3, isAccepted),
			{Name: "cancel", By: "b", From: 4, To: 5, Came: isAccepted},
			see("result", 6, Result(event.Unknown, ""))}, ""},
		"a timer": {Call{Once: true, Pauses: []byte{Timer, Done}},
			[]Operation{see("entry", 1, "shown "), see("entry", 2, "shown "), see("result", 3, "settled done")}, ""},
		"events": {Call{Pauses: []byte{Events, Done}, Events: 1},
			[]Operation{{Name: "send", Event: "1", Content: "p", By: "a", From: 1, To: 2, Came: isAccepted},
				see("entry", 3, "shown "+Shown("1", "p", true)),
				see("result", 4, Result(event.Done, Shown("1", "p", true)))}, ""},
		"an event that no body was shown": {Call{Pauses: []byte{Events, Done}, Events: 1},
			[]Operation{see("result", 4, Result(event.Done, Shown("1", "p", true)))}, "no order"},
	} {
		why := Check(c.call, c.all, time.Minute)
		if c.want == "" && why != "" || !strings.HasPrefix(why, c.want) {
			t.Errorf("%s: %q", name, why)
		}
	}
	var many []Operation // each may have happened, in any order
	for i := range 40 {
		o := resume(strings.Repeat("n", 1+i), "a", int64(i), math.MaxInt64, "")
		o.Uncertain = true
		many = append(many, o)
	}
	many = append(many, see("result", 99, "settled failed"))
	if why := Check(job, many, time.Millisecond); !strings.HasPrefix(why, "it is not known") {
		t.Errorf("without time: %q", why)
	}
}
