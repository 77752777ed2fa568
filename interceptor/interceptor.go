// Package interceptor is middleware for an agent: around a turn, around a model
// call, and around each tool call. It ships [Approval], which lets a person
// decide before a tool runs, and [Log].
//
// A layer may run more than once for one call: after a pause, and after a
// crash. It must be repeatable; what it decided durably comes back to it in
// tool.Call.Decisions.
package interceptor

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// TurnHandler drives one turn of a session: the model's message and the tool
// calls it asks for, or, after a pause, the calls that are left.
type TurnHandler func(context.Context, Turn) iter.Seq2[event.Event, error]

// ModelHandler is one model call.
type ModelHandler func(context.Context, llm.Request) iter.Seq2[llm.Event, error]

// ToolHandler is one tool call. Its error is the call's result, for the model;
// tool.Denied and tool.Fatal have their own meaning.
type ToolHandler func(context.Context, tool.Call) (tool.Execution, error)

// Turn is the turn that a TurnHandler drives.
type Turn struct {
	Session, User, Agent string
	Number               int  // of the session's turns, from 1
	Resumed              bool // the model's message was there already
}

// Layer is one interceptor. Each of Turn, Model and Tool may be nil.
type Layer struct {
	// Name is unique in a chain and durable: it keys what the layer's pauses
	// were told. Renaming a layer forgets them.
	Name string
	// Tools names the tools whose calls Tool sees; empty: all.
	Tools []string
	// Binds makes the arguments that Tool lets through those that run: if a
	// layer behind it changes them, and doesn't bind them itself, the call
	// fails. Approval binds.
	Binds bool
	// Actions has Tool also see the calls by which a model acts on a handle:
	// begins one, looks at it, gives it input, ends it. What is begun goes
	// through all layers by itself, as any call of its tool.
	Actions bool
	// Pure declares that what Tool decides of a call that was not decided yet
	// follows from the call alone, and leaves no trace: it makes no token, and
	// neither reads nor changes anything outside. If all layers outside it are
	// pure, too, Tool is asked before the model's message is stored, and its
	// pause is stored with that message, which saves a commit. What it says
	// then may be thrown away, and a call that it lets through comes to it
	// again.
	Pure bool

	Turn  func(next TurnHandler) TurnHandler
	Model func(next ModelHandler) ModelHandler
	// Tool may pause the call instead of calling next, by returning an
	// Execution with an Await. It must not pause once next was called: the body
	// may have run.
	Tool func(next ToolHandler) ToolHandler

	err error // what is wrong with it, by its constructor
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
		case !utf8.ValidString(l.Name):
			return fmt.Errorf("interceptor: layer %d has the name %q, which is not valid UTF-8: "+
				"no decision that is stored would name it", i, l.Name)
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
			h = ownEvents(l.Turn(h))
		}
	}
	return h
}

// ownEvents copies what comes out of a layer, which may keep its events.
func ownEvents(h TurnHandler) TurnHandler {
	return func(ctx context.Context, t Turn) iter.Seq2[event.Event, error] {
		return func(yield func(event.Event, error) bool) {
			for ev, err := range h(ctx, t) {
				if !yield(event.Clone(ev), err) {
					return
				}
			}
		}
	}
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

// Acting returns the layers that see calls which act on handles.
func (c Chain) Acting() (acting Chain) {
	for _, l := range c {
		if l.Actions {
			acting = append(acting, l)
		}
	}
	return acting
}

// Ahead returns the layers that may be asked about a call of the tool called
// name before the message that asks for it is stored: those around it that are
// pure, up to the first that isn't.
func (c Chain) Ahead(name string) (ahead Chain) {
	for _, l := range c {
		switch {
		case !l.around(name):
		case !l.Pure:
			return ahead
		default:
			ahead = append(ahead, l)
		}
	}
	return ahead
}

// Pure reports whether all layers around the tool called name are pure.
func (c Chain) Pure(name string) bool {
	return !slices.ContainsFunc(c, func(l Layer) bool { return l.around(name) && !l.Pure })
}

// WrapTool returns h inside the chain's layers for the tool called name.
func (c Chain) WrapTool(name string, h ToolHandler) ToolHandler {
	if !c.Wraps(name) {
		return h
	}
	return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
		return c.inside(name, call, h)(ctx, call)
	}
}

// Wraps reports whether any of the chain's layers is around the tool called
// name.
func (c Chain) Wraps(name string) bool {
	return slices.ContainsFunc(c, func(l Layer) bool { return l.around(name) })
}

func (l *Layer) around(tool string) bool {
	return l.Tool != nil && (len(l.Tools) == 0 || slices.Contains(l.Tools, tool))
}
