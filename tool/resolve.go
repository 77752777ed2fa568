package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/modeltext"
)

// Status says how a call, or one entry of it, ended.
type Status string

// The statuses. All but StatusPaused settle the call.
const (
	StatusDone   Status = "done"
	StatusFailed Status = "failed" // the tool failed; the model reads why
	StatusDenied Status = "denied" // a person, or a policy, said no
	StatusPaused Status = "paused"
	StatusFatal  Status = "fatal" // failed, and the run ends
)

// Outcome is what an Execution or an error means.
type Outcome struct {
	Status  Status
	Output  json.RawMessage // what the model reads: for anything but StatusDone a JSON string; empty with StatusPaused
	Await   *Await          // with StatusPaused
	Actions []Action        // never with an error
	Err     error           // with StatusFailed, StatusDenied and StatusFatal
}

// Resolve says what came of a call, from what its handler returned. It is the one place where that is decided. An error
// counts, whatever the Execution holds; an Await counts before an Output.
func Resolve(exec Execution, err error) Outcome {
	switch {
	case err != nil && IsFatal(err):
		return Outcome{Status: StatusFatal, Output: Text(err.Error()), Err: err}
	case err != nil && IsDenied(err):
		return Outcome{Status: StatusDenied, Output: Text(err.Error()), Err: err}
	case err != nil:
		return Outcome{Status: StatusFailed, Output: Text(err.Error()), Err: err}
	case exec.Await != nil:
		return Outcome{Status: StatusPaused, Await: exec.Await, Actions: exec.Actions}
	case len(exec.Output) == 0:
		exec.Output = json.RawMessage("null")
	}
	return Outcome{Status: StatusDone, Output: exec.Output, Actions: exec.Actions}
}

// maxText bounds what the model reads of an error, in bytes.
const maxText = 8 << 10

// Text is s as a JSON string for the model: valid UTF-8, without HTML escapes, cut where it is very long.
func Text(s string) json.RawMessage {
	if len(s) > maxText {
		cut := maxText
		for cut > maxText-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = fmt.Sprintf("%s ... (%d bytes more)", s[:cut], len(s)-cut)
	}
	raw, err := jsontree.Encode(modeltext.CleanString(s))
	if err != nil { // a string always encodes
		return json.RawMessage(`"the error's text could not be encoded"`)
	}
	return raw
}

// Denied is the error of a layer that does not let a call through. Its text tells the model that this is a refusal, and that
// nothing was done, rather than a failure it could mend.
func Denied(reason string) error { return &deniedError{reason} }

type deniedError struct{ reason string }

func (e *deniedError) Error() string {
	s := "The call was refused, and the tool was not run. Do not try again unless you are told to."
	if e.reason != "" {
		s += " Reason: " + e.reason
	}
	return s
}

// IsDenied says whether err, or what it wraps, came from Denied.
func IsDenied(err error) bool {
	var d *deniedError
	return errors.As(err, &d)
}

// DeniedReason is the reason that Denied was given for err, or what err wraps.
func DeniedReason(err error) string {
	var d *deniedError
	if errors.As(err, &d) {
		return d.reason
	}
	return ""
}
