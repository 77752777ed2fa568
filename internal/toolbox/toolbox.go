// Package toolbox has an agent's tools as the runner handles them: their
// declarations, their calls from the check of the arguments to the outcome, and
// the judging of values that come from outside for them.
//
// The machine itself is in package tool, behind a [tool.Registry], whose users
// see of it what a server of tools needs. This package reaches the rest, and
// keeps no state of its own.
package toolbox

import (
	"context"
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/gotype"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Box holds tools by name. It is safe for concurrent use.
type Box struct{ machine }

// machine is what package tool hands over.
type machine interface {
	// Limits returns the limits, defaults filled in.
	Limits() tool.Limits
	// Names lists the tools' names in order.
	Names() []string
	// Tool returns the tool called name; nil: there is none.
	Tool(name string) tool.Tool
	// Defs returns what a model is told of the tools, in order: a copy.
	Defs() []llm.ToolDef
	// Spec returns a copy of a tool's Spec.
	Spec(name string) (tool.Spec, bool)
	// Declared returns what a tool's Spec declares that matters to its open
	// calls. It is Spec without the schemas, which are copied.
	Declared(name string) (effect tool.Effect, mayPause, known bool)
	// Scheduling returns how a tool's calls run beside others.
	Scheduling(name string) tool.Scheduling
	// Derived returns edited arguments in the form that a tool is given them;
	// as they are, if they don't fit.
	Derived(name string, args json.RawMessage) json.RawMessage
	// ReadsItself reports whether code of the tool's own reads its arguments.
	// Prepare runs it, and so may take its time then, or end the goroutine.
	ReadsItself(name string) bool
	// After returns err as one that came after the tool's body had returned:
	// the model has to know that the tool ran, or it pays twice.
	After(tool string, e tool.Effect, err error) error

	Checks(name string) (input, output json.RawMessage)
	Readers(name string) (arguments, output *gotype.Reader)
	Question(name, question string) (schema json.RawMessage, reader *gotype.Reader)
	// Mailbox returns the events that a tool takes. The list is not to be
	// changed.
	Mailbox(name string) []tool.MailboxEvent
	EventReader(name, event string) *gotype.Reader
	Prepare(tool.Call) (tool.Call, error)
	PrepareAnswered(tool.Call) (tool.Call, error)
	Enter(ctx context.Context, name string, c tool.Call,
		left func(wait func())) (exec tool.Execution, acted bool, err error)
	Reconcile(ctx context.Context, name string, c tool.Call,
		left func(wait func())) (exec tool.Execution, ok bool, err error)
	// Cancels returns what a tool does where a call of its own ends while it
	// waits; Do is nil if the tool has nothing to do, or isn't there.
	Cancels(name string) tool.Cancel
	// Cancel makes one try of that. Code that outlasts its time, or ctx, is left
	// behind.
	Cancel(ctx context.Context, name string, c tool.Cancelled, left func(wait func())) error
	Bounds(name string, exec tool.Execution) (tool.Execution, error)
}

// Open returns the tools of a registry.
func Open(r *tool.Registry) *Box { return &Box{hold.Of(r)} }

// Checks are the schemas that a tool's arguments and outputs have to fit. They
// are those of its Spec, and hold more than models are told: see [tool.Func].
type Checks struct{ Input, Output json.RawMessage }

// Checks returns those of the tool called name.
func (b *Box) Checks(name string) Checks {
	input, output := b.machine.Checks(name)
	return Checks{input, output}
}

// AnswerSchema returns the schema that answers to one of a tool's questions
// have to fit; nil where the question isn't known.
func (b *Box) AnswerSchema(name, question string) json.RawMessage {
	schema, _ := b.machine.Question(name, question)
	return schema
}

// Prepared is a call that may be run: its tool is known, and its arguments fit.
type Prepared struct {
	// Call is the call as it was given; without arguments it has {}, and those
	// that were encoded twice are decoded once. What was parsed of them, and
	// decoded, travels with it.
	Call tool.Call
	// Left, if set, is called in the goroutine of Enter, with a body that is
	// left behind when its time is over; wait returns when that body has ended.
	Left func(wait func())

	box  *Box
	name string
}

// Prepare finds the tool of a call and checks the call's arguments. The error
// is a *tool.Refusal, for the model to read. The tool itself is not run; but
// where an argument's type has a method of its own to read JSON, that is.
func (b *Box) Prepare(c tool.Call) (*Prepared, error) { return b.prepared(b.machine.Prepare(c)) }

// PrepareAnswered is Prepare for a call whose answer is its output. The work is
// done; so its arguments are not checked again, by a schema that may have
// changed since. Layers see them in the form that they saw before, as far as
// they fit.
func (b *Box) PrepareAnswered(c tool.Call) (*Prepared, error) {
	return b.prepared(b.machine.PrepareAnswered(c))
}

func (b *Box) prepared(c tool.Call, err error) (*Prepared, error) {
	if err != nil {
		return nil, err
	}
	return &Prepared{Call: c, box: b, name: c.Tool}, nil
}

// Enter runs the tool's body once. The call is p.Call, perhaps with other
// arguments (edited ones, which are checked again), an answer, decisions. What
// the body returns is checked and bounded; with an error, the Execution is
// empty. Acted is false, without an error, if the tool asks its question once
// more since the answer could not be read: no function of the tool has seen it.
//
// Without a Spec.Timeout Enter waits for the body, whatever becomes of ctx; and
// a body that calls runtime.Goexit ends the caller's goroutine.
func (p *Prepared) Enter(
	ctx context.Context, c tool.Call,
) (exec tool.Execution, acted bool, err error) {
	return p.box.machine.Enter(ctx, p.name, c, p.Left)
}

// Reconcile asks Spec.Reconcile what became of a call whose outcome is unknown,
// bounded and checked as Enter does. Ok is false if the tool has none.
func (p *Prepared) Reconcile(
	ctx context.Context, c tool.Call,
) (exec tool.Execution, ok bool, err error) {
	return p.box.machine.Reconcile(ctx, p.name, c, p.Left)
}

// Bounds returns exec without the side products that are too large, or the
// error of what else in it is too large, or incomplete. Enter bounds what the
// body makes; this is for what a layer makes of it.
func (p *Prepared) Bounds(exec tool.Execution) (tool.Execution, error) {
	return p.box.machine.Bounds(p.name, exec)
}
