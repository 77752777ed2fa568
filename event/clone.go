package event

import (
	"bytes"
	"slices"
)

// Clone returns an event that shares nothing with ev which can be changed. The
// runner hands out such events only: the caller who ranges over them may
// mask what they hold in place.
func Clone(ev Event) Event {
	switch ev := ev.(type) {
	case Message:
		ev.Message = ev.Message.Clone()
		return ev
	case Call:
		ev.Call = ev.Call.Clone()
		return ev
	case Progress:
		ev.Progress.Data = bytes.Clone(ev.Progress.Data)
		return ev
	case Result:
		ev.Result = ev.Result.Clone()
		return ev
	case Artifact:
		ev.Artifact.Data = bytes.Clone(ev.Artifact.Data)
		return ev
	case Pause:
		ev.Pause = ev.Pause.Clone()
		return ev
	case Nested:
		ev.Path, ev.Event = slices.Clone(ev.Path), Clone(ev.Event)
		return ev
	case End:
		ev.Pending, ev.Parked = slices.Clone(ev.Pending), slices.Clone(ev.Parked)
		for i := range ev.Pending {
			ev.Pending[i] = ev.Pending[i].Clone()
		}
		return ev
	case Other:
		ev.Raw = bytes.Clone(ev.Raw)
		return ev
	}
	return ev // the others hold strings and numbers, or an error
}
