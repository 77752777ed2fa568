package event

// Cursor returns how far a follower has come with an event that a Follow has
// shown. It is good for runner.FollowOptions.After, at any later time and in any
// process, and for the id of a server-sent event: it has no white space, and
// 1 KiB at most. It means nothing to anything else. It is empty where an event
// tells of nothing that is committed, such as what a model just says, or
// progress: the cursor of the event before it counts.
func Cursor(ev Event) string {
	switch ev := ev.(type) {
	case Message:
		return ev.Cursor
	case Artifact:
		return ev.Cursor
	case Result:
		return ev.Cursor
	case Pause:
		return ev.Cursor
	case Parked:
		return ev.Cursor
	case End:
		return ev.Cursor
	}
	return ""
}

// At returns an event with a cursor, if it is one that may have one.
func At(ev Event, cursor string) Event {
	switch e := ev.(type) {
	case Message:
		e.Cursor = cursor
		return e
	case Artifact:
		e.Cursor = cursor
		return e
	case Result:
		e.Cursor = cursor
		return e
	case Pause:
		e.Cursor = cursor
		return e
	case Parked:
		e.Cursor = cursor
		return e
	case End:
		e.Cursor = cursor
		return e
	}
	return ev
}
