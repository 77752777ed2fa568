// Package interceptor is middleware for an agent: around a turn, around a model call, and around each tool call. It ships
// [Approval], which lets a person decide before a tool runs, and [Log].
//
// A layer may run more than once for one call: after a pause, and after a crash. It must be repeatable; what it decided
// durably comes back to it in tool.Call.Decisions.
package interceptor

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// TurnHandler drives one turn of a session: the model's message and the tool calls it asks for, or, after a pause, the
// calls that are left.
type TurnHandler func(context.Context, Turn) iter.Seq2[event.Event, error]

// ModelHandler is one model call.
type ModelHandler func(context.Context, llm.Request) iter.Seq2[llm.Event, error]

// ToolHandler is one tool call. Its error is the call's result, for the model; tool.Denied and tool.Fatal have their own
// meaning.
type ToolHandler func(context.Context, tool.Call) (tool.Execution, error)

// Turn is the turn that a TurnHandler drives.
type Turn struct {
	Session, User, Agent string
	Number               int  // of the session's turns, from 1
	Resumed              bool // the model's message was there already
}

// Layer is one interceptor. Each of Turn, Model and Tool may be nil.
type Layer struct {
	// Name is unique in a chain and durable: it keys what the layer's pauses were told. Renaming a layer forgets them.
	Name string
	// Tools names the tools whose calls Tool sees; empty: all.
	Tools []string

	Turn  func(next TurnHandler) TurnHandler
	Model func(next ModelHandler) ModelHandler
	// Tool may pause the call instead of calling next, by returning an Execution with an Await. It must not pause once next
	// was called: the body may have run.
	Tool func(next ToolHandler) ToolHandler

	err error // what is wrong with it, by whoever made it
}

// Chain is a list of layers, the first outermost.
type Chain []Layer

// Check says what is wrong with a chain for an agent that has the tools named.
func (c Chain) Check(tools []string) error {
	seen := map[string]bool{}
	for i, l := range c {
		switch {
		case l.Name == "":
			return fmt.Errorf("interceptor: layer %d has no name", i)
		case len(l.Name) > tool.MaxKey:
			return fmt.Errorf("interceptor: layer %d has a name of %d bytes, at most %d are allowed: it stands in each decision", i, len(l.Name), tool.MaxKey)
		case seen[l.Name]:
			return fmt.Errorf("interceptor: two layers are named %q; names key what was decided, so give one another", l.Name)
		}
		seen[l.Name] = true
		if l.err != nil {
			return fmt.Errorf("interceptor: layer %q: %w", l.Name, l.err)
		}
		for _, t := range l.Tools {
			if !slices.Contains(tools, t) {
				return fmt.Errorf("interceptor: layer %q is for tool %q, which the agent does not have; it has: %s",
					l.Name, t, strings.Join(tools, ", "))
			}
		}
	}
	return nil
}

// WrapTurn returns h inside the chain's turn layers.
func (c Chain) WrapTurn(h TurnHandler) TurnHandler {
	for _, l := range slices.Backward(c) {
		if l.Turn != nil {
			h = l.Turn(h)
		}
	}
	return h
}

// WrapModel returns h inside the chain's model layers.
func (c Chain) WrapModel(h ModelHandler) ModelHandler {
	for _, l := range slices.Backward(c) {
		if l.Model != nil {
			h = l.Model(h)
		}
	}
	return h
}

// WrapTool returns h inside the chain's layers for the tool called name.
func (c Chain) WrapTool(name string, h ToolHandler) ToolHandler {
	for _, l := range slices.Backward(c) {
		if l.around(name) {
			h = l.gate(h)
		}
	}
	return h
}

// Wraps says whether any of the chain's layers is around the tool called name.
func (c Chain) Wraps(name string) bool {
	return slices.ContainsFunc(c, func(l Layer) bool { return l.around(name) })
}

func (l *Layer) around(tool string) bool {
	return l.Tool != nil && (len(l.Tools) == 0 || slices.Contains(l.Tools, tool))
}

// gate is the layer around next. It signs the layer's pauses with the layer's name and the arguments the layer saw, and
// refuses a pause that comes after next was called.
func (l Layer) gate(next ToolHandler) ToolHandler {
	return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
		var called atomic.Bool // atomic, since a layer may leave next behind in a goroutine
		var inner atomic.Pointer[tool.Await]
		exec, err := l.Tool(func(ctx context.Context, c tool.Call) (tool.Execution, error) {
			called.Store(true)
			exec, err := next(ctx, c)
			inner.Store(exec.Await)
			return exec, err
		})(ctx, call)
		switch {
		case err != nil || exec.Await == nil || exec.Await == inner.Load():
			return exec, err
		case called.Load():
			return tool.Execution{}, fmt.Errorf("layer %q asked for a pause after the tool had been entered; it must ask before", l.Name)
		}
		await := *exec.Await
		await.Gate, await.Arguments = l.Name, call.Arguments
		exec.Await = &await
		return exec, nil
	}
}
