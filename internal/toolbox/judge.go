package toolbox

import "github.com/fermata-ai/fermata/internal/gotype"

// Use is what a value that came from outside is for.
type Use string

// The uses.
const (
	AsArguments Use = "arguments" // edited ones, in place of the model's
	AsAnswer    Use = "answer"    // the tool is entered again with it
	AsOutput    Use = "output"    // it is the call's output
	AsEvent     Use = "event"     // it is the payload of one of the tool's events
)

// Target is what a value that came from outside is for.
type Target struct {
	Tool     string
	Use      Use
	Event    string // with AsEvent: its name
	Question string // with AsAnswer: which of the tool's, see [tool.Await.Question]
}

// Judge returns why the target's tool can't use a value, which has fitted
// the schema that was stored for it: nil where it can, and where that isn't
// known. Arguments, and answers to a Resumable, have to fit the tool's schema
// of today, too, and are read in the form that the tool is given. Where methods
// of the value's type read it, they get a second, and few run at once; a
// verdict that comes later doesn't count.
func (b *Box) Judge(t Target, value []byte) error {
	return b.reader(t).Judge(value)
}

// JudgesByMethods reports whether Judge runs code of the user's.
func (b *Box) JudgesByMethods(t Target) bool { return b.reader(t).Foreign() }

// reader returns how the tool reads a value for that target; nil where that
// isn't known.
func (b *Box) reader(t Target) *gotype.Reader {
	switch t.Use {
	case AsEvent:
		return b.machine.EventReader(t.Tool, t.Event)
	case AsAnswer:
		_, answer := b.machine.Question(t.Tool, t.Question)
		return answer
	}
	arguments, output := b.machine.Readers(t.Tool)
	if t.Use == AsArguments {
		return arguments
	}
	return output
}
