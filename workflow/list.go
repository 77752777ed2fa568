package workflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

// List is the steps of a workflow. Its JSON is what is stored when a workflow
// begins, and what a model or a program outside writes: [ParseList] reads that.
type List struct {
	Name string `json:"name"` // 200 bytes at most
	// Version is for who reads the stored list; it decides nothing.
	Version string `json:"version,omitzero"`
	// Steps are begun as soon as they may be; those that may be begun at the same
	// time, in this order. MaxSteps at most.
	Steps []Step `json:"steps"`
	// Output is what the workflow comes to: JSON that may have references. Empty,
	// it is an object with the status of each step under its name, and with its
	// output or its error.
	Output json.RawMessage `json:"output,omitzero"`
}

// ParseList reads a list that comes from outside. A member that a list, or a
// step, doesn't have is an error that names it, and so is one that is there
// twice, is null, or is written in another case: json.Unmarshal would pass over
// them, and the workflow be another one. [Set.Check] finds what else is wrong.
func ParseList(text []byte) (*List, error) {
	var l List
	if err := strictjson.ReadClosed(text, &l); err != nil {
		return nil, fmt.Errorf("workflow: the list: %w", err)
	}
	return &l, nil
}

// MaxSteps is how many steps a list has at most.
const MaxSteps = 200

// Step is one step of a workflow: a call of a tool.
type Step struct {
	Name string `json:"name"` // 1 to 40 letters, digits, '_' or '-'
	Tool string `json:"tool"`
	// Arguments are the tool's: an object that may have references, each an
	// object {"from": pointer}. The JSON Pointer begins with /input, or with
	// /steps and a step's name: there stands that step's output. Empty: {}.
	Arguments json.RawMessage `json:"arguments,omitzero"`
	// After names steps that have to be over, well or not, before this one
	// begins. Those that it refers to have to be done in any case.
	After []string `json:"after,omitempty"`
	// OnFailure is what becomes of the workflow if the step fails for good.
	OnFailure OnFailure `json:"onFailure,omitzero"`
	// Retry has a step that failed, timed out or expired begun again; nil: it
	// isn't.
	Retry *Retry `json:"retry,omitzero"`
	// Compensate names the step that takes this one back. It isn't begun
	// otherwise. See OnFailure.
	Compensate string `json:"compensate,omitzero"`
}

// OnFailure is what becomes of a workflow whose step has failed.
type OnFailure string

// What becomes of it.
const (
	// EndOnFailure: the workflow fails. Steps that run are aborted, but for those
	// that can be taken back: these are waited for. Then all that are done and
	// name a step for that are taken back, the last one first, one after the
	// other.
	EndOnFailure OnFailure = ""
	// ContinueOnFailure: the others go on. Those that refer to the step are
	// skipped.
	ContinueOnFailure OnFailure = "continue"
)

// Retry is how often a step is begun again, and after how long.
type Retry struct {
	Times int `json:"times"` // beside the first try: 1 to MaxRetries
	// DelayMs is the time before the first one in milliseconds; it doubles from
	// try to try, up to MostMs. Zero: at once, and 5 minutes. Both are up to
	// MaxDelay.
	DelayMs int `json:"delayMs,omitzero"`
	MostMs  int `json:"mostMs,omitzero"`
}

// MaxRetries is how often a step is begun again at most.
const MaxRetries = 100

// MaxDelay is how long a delay is at most: what doubles below it stays a
// time.Duration.
const MaxDelay = 365 * 24 * time.Hour

const defaultMostMs = 5 * 60 * 1000

// delay returns how many milliseconds to wait before a try, from 1.
func (r *Retry) delay(try int) int64 {
	most := int64(cmp.Or(r.MostMs, defaultMostMs))
	d := int64(r.DelayMs)
	for range try - 1 {
		if d >= most {
			break
		}
		d *= 2
	}
	return min(d, most)
}

// step returns the step of a name; nil: there is none.
func (l *List) step(name string) *Step {
	for i := range l.Steps {
		if l.Steps[i].Name == name {
			return &l.Steps[i]
		}
	}
	return nil
}

// takesBack names the steps that take others back.
func (l *List) takesBack() map[string]bool {
	by := map[string]bool{}
	for i := range l.Steps {
		if c := l.Steps[i].Compensate; c != "" {
			by[c] = true
		}
	}
	return by
}

// started is what a workflow begins with, where the list comes from outside: the
// text of the session's first message.
type started struct {
	List  List            `json:"workflow"`
	Input json.RawMessage `json:"input,omitzero"`
}
