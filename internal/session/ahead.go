package session

// What layers decided about calls before the message that asks for them is
// stored.

// Ahead is pauses of calls that a message is about to open. They were asked for
// by the head as it was then.
type Ahead struct {
	Since  Mark
	Pauses []AheadPause
}

// AheadPause is the pause that one of the calls begins with.
type AheadPause struct {
	Call string
	Hold *Hold
}

// Mark names a head by its last commit.
type Mark commitID

// Mark returns the mark of a head. What rides has none.
func (s *State) Mark() Mark { return Mark(s.Commits.last()) }

// PauseAhead makes calls wait that this transition opens. If another commit came
// first, or the run is ended, nothing of what was asked for counts. It leaves
// out what a commit has no room for. The layers of calls without their pause are
// asked once the message is stored. A may be nil.
func (tx *Tx) PauseAhead(a *Ahead) error {
	if a == nil || tx.Mark() != a.Since || tx.Ending != nil || tx.Halt != nil {
		return nil
	}
	for _, p := range a.Pauses {
		if tx.full() {
			return nil
		}
		if err := tx.Pause(p.Call, p.Hold); err != nil {
			return err
		}
	}
	return nil
}
