// Package agentcore has an agent as the runner drives it: its tools, and the
// two ways through its layers, to the model and to a tool.
//
// Package agent makes one of a checked configuration. It keeps nothing between
// calls and knows no sessions.
package agentcore

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// MaxCalls is how many tool calls of one turn are run. Further ones settle with
// an error whose text gives that number.
const MaxCalls = 64

// Core is what an agent hands over. It does not change once it is made, so that
// every goroutine may use it.
type Core struct {
	Tools       *toolbox.Box
	Concurrency int // how many tool calls of a turn run at once
	Layers      interceptor.Chain
	Model       interceptor.ModelHandler // the model inside the layers
	// Inquirer is the model, inside the layers, that is asked beside the
	// conversation.
	Inquirer interceptor.ModelHandler
	// Request is what every request to the model has, but for messages and
	// metadata.
	Request llm.Request
}

// HasTurnLayers reports whether Turn does anything.
func (c *Core) HasTurnLayers() bool {
	return slices.ContainsFunc(c.Layers, func(l interceptor.Layer) bool { return l.Turn != nil })
}

// HasToolLayers reports whether layers are around a call of the tool called
// name. Acts tells that it is one that acts on a handle.
func (c *Core) HasToolLayers(name string, acts bool) bool { return c.layers(acts).Wraps(name) }

// layers returns the layers for calls that act on handles, or for all others.
func (c *Core) layers(acts bool) interceptor.Chain {
	if acts {
		return c.Layers.Acting()
	}
	return c.Layers
}

// Turn puts the chain's turn layers around inner.
func (c *Core) Turn(inner interceptor.TurnHandler) interceptor.TurnHandler {
	return c.Layers.WrapTurn(inner)
}

// Own is what requests of one session have beside those of its agent.
type Own struct {
	Metadata map[string]string
	// Format, with a schema, is what the session's last message has to be, in
	// place of what the agent asks for.
	Format llm.ResponseFormat
}

// Generate asks the model, through the chain's model layers, to answer history.
// All of the request is copied once: it belongs to the layers and the model.
func (c *Core) Generate(
	ctx context.Context, history []llm.Message, own Own,
) iter.Seq2[llm.Event, error] {
	r := c.Request
	r.Messages, r.Metadata = history, own.Metadata
	if len(own.Format.Schema) > 0 {
		r.ResponseFormat = own.Format
	}
	return c.Model(ctx, r.Clone())
}

// Aside is a request beside the conversation.
type Aside struct {
	Messages   []llm.Message
	Schema     json.RawMessage // of the answer; empty: it isn't told
	Metadata   map[string]string
	Instructed bool // the agent's instructions go with it
}

// Inquire asks the model for JSON, by a request that has no tools, and nothing of
// the agent's but its limits, and perhaps its instructions.
func (c *Core) Inquire(ctx context.Context, a Aside) iter.Seq2[llm.Event, error] {
	r := llm.Request{Messages: a.Messages, Metadata: a.Metadata, Limits: c.Request.Limits}
	if len(a.Schema) > 0 {
		r.ResponseFormat = llm.ResponseFormat{Name: "answer", Schema: a.Schema}
	}
	if a.Instructed {
		r.System = c.Request.System
	}
	return c.Inquirer(ctx, r.Clone())
}

// Ahead returns the layers that may be asked about a call of the tool called name
// before it is stored. None are for calls that act on handles.
func (c *Core) Ahead(name string) interceptor.Chain { return c.Layers.Ahead(name) }

// Execute takes a call through the chain's tool layers to enter. Acts is as in
// HasToolLayers.
func (c *Core) Execute(
	ctx context.Context, call tool.Call, acts bool, enter interceptor.ToolHandler,
) (tool.Execution, error) {
	return c.layers(acts).WrapTool(call.Tool, enter)(ctx, call)
}
