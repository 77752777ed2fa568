package toolbox

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/tool"
)

// Status is how a call, or one entry of it, ended.
type Status string

// The statuses. All but Paused settle the call.
const (
	Done   Status = "done"
	Failed Status = "failed" // the tool failed; the model reads why
	Denied Status = "denied" // a person, or a policy, said no
	Paused Status = "paused"
	Fatal  Status = "fatal" // failed, and the run ends
)

// Outcome is what an Execution or an error means.
type Outcome struct {
	Status Status
	// Output is what the model reads: for anything but Done a JSON string;
	// empty with Paused.
	Output  json.RawMessage
	Await   *tool.Await      // with Paused
	Actions []tool.Action    // never with an error
	HandTo  string           // with Done
	Handle  *tool.HandleStep // with Done and Paused
	Err     error            // with Failed, Denied and Fatal
}

// Resolve returns the outcome of a call, from what its handler returned. It is
// the one place where that is decided. An error counts, whatever the Execution
// holds; an Await counts before an Output.
func Resolve(exec tool.Execution, err error) Outcome {
	switch {
	case err != nil && tool.IsFatal(err):
		return Outcome{Status: Fatal, Output: Text(err.Error()), Err: err}
	case err != nil && tool.IsDenied(err):
		return Outcome{Status: Denied, Output: Text(err.Error()), Err: err}
	case err != nil:
		return Outcome{Status: Failed, Output: Text(err.Error()), Err: err}
	case exec.Await != nil:
		return Outcome{
			Status: Paused, Await: exec.Await, Actions: exec.Actions, Handle: exec.Handle,
		}
	case len(exec.Output) == 0:
		exec.Output = json.RawMessage("null")
	}
	return Outcome{
		Status: Done, Output: exec.Output, Actions: exec.Actions, HandTo: exec.HandTo,
		Handle: exec.Handle,
	}
}

// DenialReason returns the reason that [tool.Denied] was given for err, or for
// what err wraps.
func DenialReason(err error) string {
	if d, ok := errors.AsType[interface {
		error
		DenialReason() string
	}](err); ok {
		return d.DenialReason()
	}
	return ""
}

// maxText bounds what the model reads of an error, in bytes.
const maxText = 8 << 10

// Text returns s as a JSON string for the model: valid UTF-8, without HTML
// escapes, cut where it is very long.
func Text(s string) json.RawMessage {
	if head := excerpt.Head(s, maxText); len(head) < len(s) {
		s = fmt.Sprintf("%s ... (%d bytes more)", head, len(s)-len(head))
	}
	raw, err := jsontree.Encode(modeltext.CleanString(s))
	if err != nil { // a string always encodes
		return json.RawMessage(`"the error's text could not be encoded"`)
	}
	return raw
}
