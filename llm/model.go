package llm

import (
	"context"
	"encoding/json"
	"iter"
)

// Model generates one assistant message from a request.
//
// Generate streams events; the last one is a [Finish]. A stream that ends
// without it was cut off, and is an error: see [Collector]. An error ends the
// stream; where it is an [*Error], its Kind tells whether to try again. The
// request is the model's own, and that of the layers around it; what it streams
// is copied when it is collected.
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
	// ResponseFormat makes the model's text a JSON value; the zero value leaves
	// the text free.
	ResponseFormat ResponseFormat
	// Cache says how long the provider should keep what it has read of the
	// request, for the next one that begins alike.
	Cache Cache
	// Metadata goes along for logs and caches. The runner sets "session".
	Metadata map[string]string
}

// ToolChecker is a Model that can say beforehand which tools its provider
// wouldn't take. An agent asks it once, when it is made. The error names the
// tool, the place in its schema, and what to do. A wrapper around a Model needs
// the method too: embedding the interface Model doesn't bring it along, and
// then nothing is checked.
type ToolChecker interface {
	CheckTools([]ToolDef) error
}

// Retrier is a Model that may ask its provider again by itself. An agent that
// calls its model again, too, refuses one that does: the tries of both
// multiply. A wrapper around a Model needs the method as well, as with
// [ToolChecker].
type Retrier interface {
	// Retries is how often one Generate may ask again; zero: never.
	Retries() int
}

// ToolDef is what a model is told of a tool.
type ToolDef struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Input is JSON Schema, always of an object with properties.
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output,omitempty"` // JSON Schema, where known
}

// ToolChoice is whether the model may, must or must not call tools.
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

// ResponseFormat is what the model's text has to be: a JSON value that fits a
// schema. Not every provider can be told, and one that can't says so with an
// [*Error] of kind [ErrInvalid].
type ResponseFormat struct {
	Name        string // of the value, for the model: letters, digits, '_' or '-'
	Description string
	Schema      json.RawMessage // JSON Schema of an object; empty: the text is free
}

// Cache is how long what was read of a request is to be kept by the provider.
// It is a hint: a provider does what it can.
type Cache string

// The hints. The zero value leaves it to the provider.
const (
	CacheDefault Cache = ""
	CacheNone    Cache = "none"
	CacheShort   Cache = "short" // minutes: while a conversation goes on
	CacheLong    Cache = "long"  // an hour or more: while a call waits
)

// Event is a piece of a streamed message: [TextDelta], [ReasoningDelta],
// [ToolCallDelta], [PartDone] or [Finish].
type Event interface{ isEvent() }

// TextDelta is more of the text part that is being written.
type TextDelta struct{ Text string }

// ReasoningDelta is more of the reasoning part that is being written.
type ReasoningDelta struct{ Text string }

// ToolCallDelta is more of a tool call. A new Index begins a new call, and so
// does another ProviderID under an Index that is in use. Name comes whole;
// Arguments come in pieces, cut anywhere.
type ToolCallDelta struct {
	Index      int
	ProviderID string
	Name       string
	Arguments  string
}

// PartDone is a part that comes whole: it ends the text or reasoning that was
// being written, and takes its place if it is of the same kind (a provider
// sends it to add a [Native] form). A [ToolCall] likewise takes the place of a
// streamed call with the same provider id, name and arguments; any other is a
// call of its own.
type PartDone struct{ Part Part }

// Finish ends a stream.
type Finish struct {
	Reason StopReason
	// Word is the provider's own for the reason, such as "stop" or
	// "MALFORMED_FUNCTION_CALL". With StopOther it is all that is known.
	Word  string
	Usage Usage
}

func (TextDelta) isEvent()      {}
func (ReasoningDelta) isEvent() {}
func (ToolCallDelta) isEvent()  {}
func (PartDone) isEvent()       {}
func (Finish) isEvent()         {}

// StopReason is why a model stopped.
type StopReason string

// The stop reasons.
const (
	StopEnd       StopReason = "end"        // it was done
	StopToolCalls StopReason = "tool_calls" // it waits for results
	StopLength    StopReason = "length"     // the limit of tokens cut it off
	StopRefusal   StopReason = "refusal"    // it, or a filter, declined
	// StopOther is a reason that has no neutral form: Finish.Word is the
	// provider's.
	StopOther StopReason = "other"
)

// Usage counts tokens. Input includes Cached and Written; Output includes
// Reasoning and Predicted. A count that the provider doesn't tell is zero.
type Usage struct {
	Input     int `json:"input,omitempty"`
	Output    int `json:"output,omitempty"`
	Cached    int `json:"cached,omitempty"`    // read from the provider's cache
	Written   int `json:"written,omitempty"`   // written to the provider's cache
	Reasoning int `json:"reasoning,omitempty"` // thought, and not said
	// Predicted counts the tokens of a prediction in the request, whether the
	// model took it up or not.
	Predicted int `json:"predicted,omitempty"`
}

// Add sums two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Cached: u.Cached + v.Cached, Written: u.Written + v.Written,
		Output: u.Output + v.Output, Reasoning: u.Reasoning + v.Reasoning, Predicted: u.Predicted + v.Predicted,
	}
}

// Total is Input and Output together.
func (u Usage) Total() int { return u.Input + u.Output }
