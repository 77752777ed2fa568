package handles

import (
	"slices"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// Awaited is what an await comes to.
type Awaited struct {
	Completed []Reply `json:"completed"` // those that have stopped; never null in JSON
	// Pending are those that wait for an answer, and then those that run; never
	// null in JSON.
	Pending []Reply `json:"pending"`
	// TimedOut is whether the time is over, and what is awaited has not come. The
	// handles go on.
	TimedOut bool `json:"timed_out,omitzero"`
	// Interrupted is whether a user's message, or a cancellation, ended the
	// await. The handles go on.
	Interrupted bool `json:"interrupted,omitzero"`
}

// Group returns the replies grouped by their states. Within a group they stay
// in order.
func Group(replies []Reply) Awaited {
	a := Awaited{Completed: []Reply{}, Pending: []Reply{}}
	var running []Reply
	for _, r := range replies {
		switch r.State {
		case tool.HandleStopped:
			a.Completed = append(a.Completed, r)
		case tool.HandleWaiting:
			a.Pending = append(a.Pending, r)
		default:
			running = append(running, r)
		}
	}
	a.Pending = append(a.Pending, running...)
	return a
}

// MarshalJSON writes what UnmarshalJSON reads.
func (a Awaited) MarshalJSON() ([]byte, error) {
	type plain Awaited
	return strictjson.Append(nil, plain(a))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (a *Awaited) UnmarshalJSON(b []byte) error {
	type plain Awaited
	var in plain
	if err := strictjson.Read(b, &in); err != nil {
		return err
	}
	*a = Awaited(in)
	return nil
}

// Within returns the reply so that its JSON has so many bytes at most: what is
// long in it is cut, head and tail, to one and the same length, and what is
// short stays whole. What the action fetch returns whole is marked so. Ids,
// states and what goes with them stay in any case, also where they alone are
// longer.
func (a Awaited) Within(most int) (Awaited, error) {
	a.Completed, a.Pending = cloned(a.Completed), cloned(a.Pending)
	whole, err := a.MarshalJSON()
	if err != nil || len(whole) <= most {
		return a, err
	}
	var shares []share
	for _, list := range [][]Reply{a.Completed, a.Pending} {
		for i := range list {
			shares = append(shares, list[i].shares()...)
		}
	}
	shorten(shares, len(whole)-most)
	return a, nil
}

// cloned returns replies whose parts may be cut.
func cloned(replies []Reply) []Reply {
	replies = slices.Clone(replies)
	for i := range replies {
		r := &replies[i]
		if r.Question != nil {
			own := *r.Question
			r.Question = &own
		}
		if r.Error != nil {
			own := *r.Error
			r.Error = &own
		}
	}
	return replies
}
