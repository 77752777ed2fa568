package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/excerpt"
)

// Await describes a pause: why a call waits, and what its answer means. The
// zero value waits for an external job.
type Await struct {
	Reason Reason `json:"reason,omitempty"`
	Mode   Mode   `json:"mode,omitempty"` // empty: it follows from Reason
	Prompt string `json:"prompt,omitempty"`
	// Schema is the JSON Schema of the answer; at a gate, of edited arguments.
	// Empty in output mode, it is the tool's Output.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Key is the outside system's own name for the job, or one that the tool
	// makes. The pause can be found by it, in all sessions. So a model must not
	// choose it: another user's call under the same key makes both ambiguous.
	Key string `json:"key,omitempty"`
	// Sender names the outside system whose answers alone the pause takes: the
	// one that signed them, as a webhook's verifier has it. Empty, an answer
	// needs no signature.
	Sender string `json:"sender,omitempty"`
	// Timeout is how long the pause may last; zero: for ever. In JSON the
	// pause's deadline stands for it. With ReasonTimer the call goes on after
	// it, at once if it isn't positive. The tool that is entered again has to
	// look at Call.Answer, or it asks for the same timer again. A call that has
	// paused 20 times waits a second at least; one that has paused 200 times
	// and asks for less has failed.
	Timeout time.Duration `json:"-"`
	// Deadline is until when the pause may last, in place of Timeout; zero: that
	// counts. One that is past is a timeout that is over at once. A pause that
	// is listed has Pause.Deadline, and here the Timeout that it makes.
	Deadline time.Time `json:"-"`
	// Heartbeat, if set, is how often the outside job must be heard of, by
	// Runner.Progress or Runner.Heartbeat: a second at least. If it isn't in
	// that time, the call fails, and the model is told that it may try again.
	// It goes with ReasonExternal, beside a deadline or without one.
	Heartbeat time.Duration `json:"-"`
	// OnTimeout is what becomes of a call whose pause has lasted so long. Empty,
	// it settles as expired.
	OnTimeout OnTimeout `json:"on_timeout,omitempty"`
	// Mail is the events that the pause waits for; nil: it waits for an answer.
	// See [AnyOf], [AllOf] and [CountOf].
	Mail *MailWait `json:"mail,omitempty"`
	// Handles, with ReasonHandles, is the handles that the pause waits for.
	Handles *HandleWait `json:"handles,omitempty"`
	// Gate names the layer that asks; empty: the tool does.
	Gate string `json:"gate,omitempty"`
	// Approvers are, at a gate, the actors whose decisions alone the pause takes:
	// 16 at most. Empty, it takes those of all whom the Authorizer lets decide.
	Approvers []string `json:"approvers,omitempty"`
	// Arguments are those that the layer saw; the chain sets them.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Question names it among the tool's questions, and comes back in
	// Answer.Question. A Resumable sets it.
	Question string `json:"question,omitempty"`
	// Data comes back in Answer.Data.
	Data json.RawMessage `json:"data,omitempty"`
	// Child, with ReasonAgent, is the session that the pause begins and waits
	// for.
	Child *Child `json:"child,omitempty"`
}

// Reason is why a call waits. Empty, it is ReasonApproval for a layer, else
// ReasonInput where there is a Prompt, and else ReasonExternal.
type Reason string

// The reasons.
const (
	ReasonExternal Reason = "external" // an outside job
	ReasonApproval Reason = "approval" // a person's decision
	ReasonInput    Reason = "input"    // a person's answer
	ReasonAgent    Reason = "agent"    // another agent
	ReasonTimer    Reason = "timer"    // the time itself
	ReasonRetry    Reason = "retry"    // the time until the next try; see [Tried]
	// ReasonAssistant: the model's answer, of whose handle it is. Where the call
	// is no handle, the model is asked for it.
	ReasonAssistant Reason = "assistant"
	ReasonHandles   Reason = "handles" // calls that run beside the session
	ReasonUnknown   Reason = "unknown" // an operator's word on what a crash left unknown
)

// Person reports whether a pause of that reason is one user's to answer, so
// that their next message may take its place.
func (r Reason) Person() bool { return reasons[r].person }

// MayRunAgain reports whether a pause of that reason may be answered by stating
// that the call did not happen. Then the tool is entered once more, whatever
// the pause's mode.
func (r Reason) MayRunAgain() bool { return reasons[r].again }

// Mode is what an answer does.
type Mode string

// The modes.
const (
	ModeOutput  Mode = "output"  // it is the call's output
	ModeReenter Mode = "reenter" // the tool is executed again, with it
	ModeMessage Mode = "message" // the user's next message is it, and the call's output
)

// reasons is all that depends on a reason.
var reasons = map[Reason]struct {
	modes  []Mode // those it goes with in a tool's pause; the first is its default
	person bool   // a person answers, and not a machine or an operator
	told   bool   // a tool may be entered again since no answer came
	again  bool   // a tool may be entered again since it did not happen, as an operator states
}{
	ReasonExternal: {modes: []Mode{ModeOutput, ModeReenter}, told: true},
	ReasonApproval: {modes: []Mode{ModeReenter}, person: true},
	ReasonInput: {
		modes: []Mode{ModeOutput, ModeReenter, ModeMessage}, person: true, told: true,
	},
	ReasonAgent:     {modes: []Mode{ModeOutput}, told: true},
	ReasonTimer:     {modes: []Mode{ModeReenter, ModeOutput}},
	ReasonRetry:     {modes: []Mode{ModeReenter}},
	ReasonAssistant: {modes: []Mode{ModeOutput, ModeReenter}, told: true},
	ReasonHandles:   {modes: []Mode{ModeReenter}, told: true},
	ReasonUnknown:   {modes: []Mode{ModeOutput}, again: true},
}

// DefaultApprovalTimeout is how long an approval waits that names no Timeout.
const DefaultApprovalTimeout = 7 * 24 * time.Hour

// MaxSchema is the longest schema that can be kept with a pause, in bytes: of a
// question, of the output of a tool that may pause or that asks an operator, of
// the input of a tool that a layer may hold.
const MaxSchema = 64 << 10

// MaxKey is the longest Await.Key, and the longest Await.Gate, in bytes.
const MaxKey = 200

// Normalize returns a with what follows from the rest filled in. The error is
// an ErrInvalidAwait, if the parts of a don't go together. It is the one place
// where that is decided, for tools and layers alike.
func (a Await) Normalize() (Await, error) {
	a, err := a.normal()
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrInvalidAwait, err)
	}
	return a, nil
}

func (a Await) normal() (Await, error) {
	if a.Reason == "" {
		switch {
		case a.Gate != "":
			a.Reason = ReasonApproval
		case a.Prompt != "":
			a.Reason = ReasonInput
		default:
			a.Reason = ReasonExternal
		}
	}
	reason, known := reasons[a.Reason]
	allowed := reason.modes
	if !known {
		return a, fmt.Errorf("unknown reason %q", a.Reason)
	}
	if (a.Gate != "" || a.Mail != nil) && a.Mode == "" {
		a.Mode = ModeReenter // a layer's answer always goes back to the layer
	}
	if a.Mode == "" {
		a.Mode = allowed[0]
	}
	ok := slices.Contains(allowed, a.Mode)
	switch {
	case a.Gate != "" && a.Mode != ModeReenter:
		return a, fmt.Errorf("of layer %q: mode %q: a layer's pause always re-enters",
			a.Gate, a.Mode)
	case a.Gate == "" && a.Reason == ReasonApproval:
		return a, fmt.Errorf("reason %q is for layers; a tool asks with reason %q",
			a.Reason, ReasonInput)
	case a.Gate == "" && !ok && a.Mode == ModeMessage:
		return a, fmt.Errorf("mode %q goes with reason %q, not %q", a.Mode, ReasonInput, a.Reason)
	case a.Gate == "" && !ok:
		return a, fmt.Errorf("reason %q goes with mode %q, not %q", a.Reason, allowed, a.Mode)
	case a.Child != nil && a.Reason != ReasonAgent:
		return a, fmt.Errorf("a child goes with reason %q, not %q", ReasonAgent, a.Reason)
	case a.Child != nil && a.Gate != "":
		return a, fmt.Errorf("of layer %q: a layer waits for a decision, and not for a child", a.Gate)
	case a.Child != nil && a.Child.Agent == "":
		return a, fmt.Errorf("its child has no agent")
	case a.Child != nil && a.Child.Session != "":
		return a, fmt.Errorf("its child has the id %q, which is the runner's to choose",
			a.Child.Session)
	case len(a.Key) > MaxKey:
		return a, fmt.Errorf("key of %d bytes, at most %d are allowed", len(a.Key), MaxKey)
	case len(a.Gate) > MaxKey:
		return a, fmt.Errorf("of layer: its name has %d bytes, at most %d are allowed",
			len(a.Gate), MaxKey)
	case !utf8.ValidString(a.Key) || strings.ContainsFunc(a.Key, unicode.IsControl):
		return a, fmt.Errorf("key %q is not valid UTF-8, or has a control character", a.Key)
	}
	if err := a.checkSender(); err != nil {
		return a, err
	}
	if err := a.checkApprovers(); err != nil {
		return a, err
	}
	if err := a.Mail.check(&a); err != nil {
		return a, err
	}
	if err := a.Handles.check(&a); err != nil {
		return a, err
	}
	if err := a.checkRetry(); err != nil {
		return a, err
	}
	if len(a.Schema) > 0 && !json.Valid(a.Schema) {
		return a, fmt.Errorf("schema is not JSON")
	}
	if a.Question != "" {
		if a.Gate != "" {
			return a, fmt.Errorf("of layer %q: it names the question %q, and only tools do",
				a.Gate, excerpt.Of(a.Question))
		}
		if err := checkName(a.Question); err != nil {
			return a, fmt.Errorf("question: %w", err)
		}
	}
	if len(a.Data) > 0 && !json.Valid(a.Data) {
		return a, fmt.Errorf("data is not JSON")
	}
	if err := a.checkTime(); err != nil {
		return a, err
	}
	if a.Reason == ReasonApproval && a.Timeout == 0 && a.Deadline.IsZero() {
		a.Timeout = DefaultApprovalTimeout
	}
	return a, nil
}

// checkSender returns what is wrong with a pause for one sender's answers.
func (a *Await) checkSender() error {
	switch {
	case a.Sender == "":
		return nil
	case !plainName(a.Sender):
		return badSender(a.Sender)
	case a.Mode == ModeMessage:
		return fmt.Errorf("a user's message has no sender, and mode %q takes one", ModeMessage)
	case a.Mail != nil:
		return errors.New("a pause for events names no sender; MailboxEvent.Sender does, for each")
	case a.Reason != ReasonExternal && a.Reason != ReasonInput && a.Reason != ReasonApproval:
		return fmt.Errorf("a pause of reason %q takes no sender's answers", a.Reason)
	}
	return nil
}

func plainName(name string) bool {
	return len(name) <= MaxKey && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unicode.IsControl)
}

func badSender(name string) error {
	return fmt.Errorf("the sender %q is not valid UTF-8, has a control character, or more than %d bytes",
		excerpt.Of(name), MaxKey)
}

// Answered returns what a tool is entered again with, if the pause is its first
// and payload its answer: for a test of the tool. It sets neither who answered
// nor when.
func (a *Await) Answered(payload json.RawMessage) *Answer {
	return &Answer{Pause: 1, Mode: ModeReenter, Payload: payload, Data: a.Data,
		Question: a.Question, Prompt: a.Prompt}
}
