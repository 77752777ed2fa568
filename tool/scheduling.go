package tool

import "errors"

// Scheduling is how a tool's calls run beside others, and whether they are
// shown. It changes nothing of what is stored. The zero value is right for most
// tools.
type Scheduling struct {
	// Exclusive: while a body of the tool runs, no other body of its turn does.
	// A call waits until those before it have ended, and those after it wait for
	// it. Bodies in other sessions, handles among them, don't count.
	Exclusive bool
	// Limit names a limit that the tool shares with others, such as that of a
	// database's connections: runner.Options.SharedLimits says how many of their
	// bodies run at once, in all sessions of the runner. A call that finds no
	// place lets those behind it go first. Of a tool that a model begins as a
	// handle, the body counts as long as it runs.
	Limit string
	// Background: the calls are stored, and their results go to the model, but
	// no events tell of them: no Call, Started, Progress, Artifact or Result.
	// What waits for an answer, or for the tool, is shown all the same, and so
	// are the messages of the session, as they are stored.
	Background bool
}

func (s Scheduling) check() error {
	if !plainName(s.Limit) {
		return errors.New("scheduling: the name of the limit is not valid UTF-8, has a control " +
			"character, or more than 200 bytes")
	}
	return nil
}
