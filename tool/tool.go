// Package tool defines tools: typed Go functions that a model may call, and
// that may make the call wait.
//
// [Func] and [Resumable] turn typed functions into tools; [Tool] itself is the
// raw form. What a call comes to is a [Result]: [Done], [Pending], [NeedInput]
// or a [Question]; [Within] bounds how long it waits. A test of a tool runs it
// by [Run]; a server that offers tools by a protocol of its own holds them in a
// [Registry].
//
// The package knows nothing of sessions, storage or the runner: what a body
// needs of them reaches it through [Host]. Nor does it know JSON Schema:
// internal/schema checks values, internal/gotype reads and writes those of Go
// types.
package tool

// Where things are:
//
//   - what authors write with: tool.go, func.go, resumable.go, question.go,
//     result.go, within.go, await.go, approvers.go, ontimeout.go, tried.go, child.go,
//     mail.go, cancel.go, scheduling.go, handles.go, handlepolicy.go, waits.go,
//     permitwait.go, call.go, pause.go, permit.go, errors.go, context.go, wrap.go
//   - running tools without an agent: registry.go, run.go
//   - behind Func and Resumable: typed.go, askagain.go
//   - the machine that runs calls, for the runner and a Registry: box.go and
//     entry.go begin, then checked.go (arguments), enter.go, accept.go and
//     after.go (what came of it); copies at the edge: clone.go

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fermata-ai/fermata/llm"
)

// Tool is a tool in its raw form. Execute gets arguments that were validated
// against the spec's Input, when the runner, a [Registry] or [Run] calls it. An
// error is the call's result, for the model to read; [Fatal] makes it end the
// run.
//
// A wrapper embeds a Tool and so keeps its hints; it should have the method of
// [Unwrapper] too.
type Tool interface {
	Spec() Spec
	Execute(context.Context, Call) (Execution, error)
}

// Unwrapper is a Tool that wraps another one. [As] looks through it.
type Unwrapper interface{ Unwrap() Tool }

// Spec describes a tool.
type Spec struct {
	// Name is 1 to 64 letters, digits, '_' or '-': what every provider accepts.
	Name        string
	Description string
	// Input and Output are JSON Schemas. Func and Resumable infer them where
	// they are empty. Input is an object's schema. An empty Output takes every
	// JSON value.
	Input, Output json.RawMessage
	Effect        Effect
	// MayPause must be set by a tool that pauses; Resumable sets it. One that
	// does not declare it can't pause: ErrMayNotPause.
	MayPause bool
	// Mailbox is the outside events that the tool's calls take, from when a call
	// is asked for until it settles; MaxMailbox at most. A pause waits for them
	// by Await.Mail. The tool needs MayPause.
	Mailbox []MailboxEvent
	// Timeout bounds each entry of the body; zero: no bound.
	Timeout time.Duration
	// Scheduling is how the calls run beside others.
	Scheduling Scheduling
	// AskOperator: when a crash leaves the outcome unknown, pause the call
	// until an operator answers what happened, or states that it did not happen
	// and is to run. Otherwise the model is told that it is unknown.
	AskOperator bool
	// Reconcile finds out what became of a call whose outcome is unknown,
	// without doing the work again. An error means that it could not find out.
	// It may be called again. The call has the arguments that were edited last,
	// if any were.
	Reconcile func(context.Context, Call) (Execution, error)
	// Cancel calls off outside what a call has begun, if the call ends while it
	// waits.
	Cancel Cancel
}

// Effect is what entering a body twice would do.
type Effect string

// The effects. The zero value is the careful one.
const (
	Once       Effect = ""           // never enter it twice
	Idempotent Effect = "idempotent" // the same IdempotencyKey makes a second entry harmless
	ReadOnly   Effect = "read_only"  // it changes nothing
)

// NeedsClaim reports whether a call must be durably claimed before its body is
// entered.
func (e Effect) NeedsClaim() bool { return e == Once }

// Execution is what a raw tool returns: an output, or an Await.
type Execution struct {
	Output  json.RawMessage // any JSON value; empty is null
	Await   *Await          // the call pauses; Output is ignored
	Actions []Action
	// HandTo is the name of an agent that is to take the session over, once all
	// calls of the turn are settled. The first of them in call order counts.
	// With an Await it is ignored.
	HandTo string
	// Handle is what the call does to a handle of its session. Tools of package
	// tool/handle set it. With an error it is ignored.
	Handle *HandleStep
}

// Action is a side product of a call, kept with it. Exactly one field is set. A
// typed function adds them by [With].
type Action struct {
	// Artifact is for the caller, whom it reaches as an event. It never travels
	// to the model.
	Artifact *Artifact `json:"artifact,omitempty"`
	// Media is an image, a document or the like for the model to look at: it
	// stands beside the output in the call's result. A call that comes to
	// anything but an output shows none.
	Media *llm.Media `json:"media,omitempty"`
}

// Artifact is a file or the like that a tool made: its bytes, or a reference to
// them.
type Artifact struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data,omitempty"`
	URL       string `json:"url,omitempty"` // where Data is empty
}
