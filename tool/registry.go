package tool

import (
	"context"

	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/llm"
)

// Registry holds tools by name. It lists them, checks the arguments of calls,
// and runs calls. It is for a server that offers tools by a protocol of its
// own. An agent has its own registry, and a program that runs agents needs
// none.
//
// It does not change once it is made, and is safe for concurrent use. It keeps
// no sessions: its caller keeps a call that pauses.
type Registry struct{ handle }

// handle hands the box over to the runner.
type handle = hold.Handle[*box]

// Limits bound what is let through. Zero values are the defaults.
type Limits struct {
	Arguments int // of a call, in bytes; 256 KiB
	Result    int // a call's output, its actions together, or all of its Await, in bytes; 1 MiB
	Mail      int // how many outside events one call takes; 1000
}

// NewRegistry makes a registry of tools, in the order given; nil limits are the
// defaults. It asks each tool for its Spec once.
func NewRegistry(tools []Tool, l *Limits) (*Registry, error) {
	if l == nil {
		l = &Limits{}
	}
	b, err := newBox(*l, tools)
	if err != nil {
		return nil, err
	}
	return &Registry{hold.New(b)}, nil
}

// Defs returns what a model is told of the tools, in order. The descriptions of
// those that may pause tell the model not to call them again while they do.
// Each list is the caller's own.
func (r *Registry) Defs() []llm.ToolDef { return hold.Of(r).Defs() }

// Spec returns a copy of the Spec that a tool gave when the registry was made,
// its schemas in the form that models see.
func (r *Registry) Spec(name string) (s Spec, ok bool) { return hold.Of(r).Spec(name) }

// Check finds the tool of a call and checks the call's arguments. It returns
// the call as it is to be run: without arguments it has {}, and those that were
// encoded twice are decoded once. The error is a *Refusal, for the model to
// read. The tool itself is not run; but where an argument's type has a method
// of its own to read JSON, that is.
func (r *Registry) Check(c Call) (Call, error) { return hold.Of(r).Prepare(c) }

// Run checks a call, unless Check has, and runs its tool once. The error is a
// *Refusal if the tool was not run; a *PanicError or a *TimeoutError; or what
// the tool returned. With an error the Execution is empty.
//
// The tool is bounded by Spec.Timeout; one that ignores its context is left
// behind then. What it returns is checked, and bounded by the limits; an Await
// comes in its normal form.
func (r *Registry) Run(ctx context.Context, c Call) (Execution, error) {
	return hold.Of(r).run(ctx, c)
}
