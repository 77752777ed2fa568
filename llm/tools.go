package llm

import (
	"bytes"
	"encoding/json"
	"slices"
)

// ToolCall is a model's wish that a tool be run.
type ToolCall struct {
	// ID names the call within the session. The runner makes it, unique
	// whatever the provider sent.
	ID   string
	Name string
	// Arguments is a JSON value, as the model wrote it; see [Arguments] for
	// what stands here where the model's text was none.
	Arguments json.RawMessage
	// ProviderID is the id the provider gave, if any. It may repeat from turn
	// to turn.
	ProviderID string
	Native     *Native
}

// Clone returns a call with bytes of its own.
func (p ToolCall) Clone() ToolCall {
	p.Arguments, p.Native = bytes.Clone(p.Arguments), p.Native.Clone()
	return p
}

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p ToolCall) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *ToolCall) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

func (p ToolCall) kind() string { return "tool_call" }
func (p ToolCall) from() []Role { return fromModel }

func (p ToolCall) lack() string {
	if len(p.Arguments) == 0 {
		return "the call has no arguments: none are {}"
	}
	return ""
}

func (p ToolCall) fields(f *pass) {
	f.str("id", &p.ID)
	f.str("name", &p.Name)
	f.raw("arguments", &p.Arguments)
	f.str("provider_id", &p.ProviderID)
	if f.native(&p.Native); f.changed {
		f.putCall(p)
	}
}

// ToolResult is the one result of a tool call. It stands in a message of
// [RoleTool], right after the message that asked.
type ToolResult struct {
	Call   string          // the ToolCall's ID
	Name   string          // the tool's name
	Output json.RawMessage // a JSON value; a string for plain text
	Error  bool            // the output tells of a failure
	// Media are images, documents and the like beside the output, for the model
	// to look at.
	Media []Media
}

// Clone returns a result with bytes of its own.
func (p ToolResult) Clone() ToolResult {
	p.Output, p.Media = bytes.Clone(p.Output), slices.Clone(p.Media)
	for i := range p.Media {
		p.Media[i] = p.Media[i].Clone()
	}
	return p
}

// MarshalJSON encodes the part as in [Message.AppendJSON].
func (p ToolResult) MarshalJSON() ([]byte, error) { return marshalPart(p) }

// UnmarshalJSON decodes what MarshalJSON wrote.
func (p *ToolResult) UnmarshalJSON(b []byte) error { return unmarshalPart(b, p) }

func (p ToolResult) kind() string { return "tool_result" }
func (p ToolResult) from() []Role { return fromTools }

func (p ToolResult) lack() string {
	if len(p.Output) == 0 {
		return "the result has no output"
	}
	for _, m := range p.Media {
		if why := m.lack(); why != "" {
			return why
		}
	}
	return ""
}

func (p ToolResult) fields(f *pass) {
	f.str("call", &p.Call)
	f.str("name", &p.Name)
	f.raw("output", &p.Output)
	f.flag("error", &p.Error)
	if f.medias("media", &p.Media); f.changed {
		f.putResult(p)
	}
}
