package llm

import (
	"context"
	"encoding/json"
	"iter"
)

// Model generates one assistant message from a request.
//
// Generate streams events; the last one is a [Finish]. A stream that ends without it was cut off, and is an error: see
// [Collector]. An error ends the stream; where it is an [*Error], its Kind says whether to try again. The request is the
// model's to read, not to change: its slices may be shared.
type Model interface {
	Generate(context.Context, Request) iter.Seq2[Event, error]
}

// Request is everything a model is told.
type Request struct {
	System     string
	Messages   []Message
	Tools      []ToolDef
	ToolChoice ToolChoice
	Limits     Limits
	// Metadata goes along for logs and caches. The runner sets "session".
	Metadata map[string]string
}

// ToolDef is what a model is told of a tool.
type ToolDef struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input"`            // JSON Schema, always an object with properties
	Output      json.RawMessage `json:"output,omitempty"` // JSON Schema, where known
}

// ToolChoice says whether the model may, must or must not call tools.
type ToolChoice struct {
	Mode ToolMode
	Name string // with ToolNamed: the tool to call
}

// ToolMode is the kind of a [ToolChoice].
type ToolMode string

// The modes. The zero value lets the model choose.
const (
	ToolAuto  ToolMode = ""
	ToolNone  ToolMode = "none"
	ToolAny   ToolMode = "any"
	ToolNamed ToolMode = "named"
)

// Limits bound one generation. Zero values leave it to the provider.
type Limits struct {
	OutputTokens int
}

// Event is a piece of a streamed message: [TextDelta], [ReasoningDelta], [ToolCallDelta], [PartDone] or [Finish].
type Event interface{ isEvent() }

// TextDelta is more of the text part that is being written.
type TextDelta struct{ Text string }

// ReasoningDelta is more of the reasoning part that is being written.
type ReasoningDelta struct{ Text string }

// ToolCallDelta is more of a tool call. A new Index begins a new call, and so does another ProviderID under an Index that is
// in use. Name comes whole; Arguments come in pieces, cut anywhere.
type ToolCallDelta struct {
	Index      int
	ProviderID string
	Name       string
	Arguments  string
}

// PartDone is a part that comes whole: it ends the text or reasoning that was being written, and takes its place if it is
// of the same kind (a provider sends it to add a [Native] form). A [ToolCall] likewise takes the place of a streamed call
// with the same provider id, name and arguments; any other is a call of its own.
type PartDone struct{ Part Part }

// Finish ends a stream.
type Finish struct {
	Reason StopReason
	Usage  Usage
}

func (TextDelta) isEvent()      {}
func (ReasoningDelta) isEvent() {}
func (ToolCallDelta) isEvent()  {}
func (PartDone) isEvent()       {}
func (Finish) isEvent()         {}

// StopReason says why a model stopped.
type StopReason string

// The stop reasons.
const (
	StopEnd       StopReason = "end"        // it was done
	StopToolCalls StopReason = "tool_calls" // it waits for results
	StopLength    StopReason = "length"     // the limit of tokens cut it off
	StopRefusal   StopReason = "refusal"    // it, or a filter, declined
	StopOther     StopReason = "other"
)

// Usage counts tokens. Input includes Cached; Output includes Reasoning.
type Usage struct {
	Input     int `json:"input,omitempty"`
	Output    int `json:"output,omitempty"`
	Cached    int `json:"cached,omitempty"`
	Reasoning int `json:"reasoning,omitempty"`
}

// Add sums two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.Cached + v.Cached, u.Reasoning + v.Reasoning}
}

// Total is Input and Output together.
func (u Usage) Total() int { return u.Input + u.Output }
