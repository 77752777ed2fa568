// Package llm is the neutral form of a conversation with a language model: messages and their parts, requests, streamed
// events, and [Model], the one interface a provider implements.
//
// It is not a client: providers live in modules of their own. It knows nothing of tools as Go functions, of sessions or of
// storage.
package llm

import "encoding/json"

// Role says who a message is from.
type Role string

// The roles. Instructions to the model are no message: they are [Request.System].
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool" // holds tool results only
)

// Message is one entry of a conversation. Its JSON form is {"role": ..., "parts": [{"type": ..., ...}, ...]}; see
// [Message.AppendJSON].
type Message struct {
	Role  Role
	Parts []Part
	// Extra is a JSON object of members that a later version stored and this one doesn't know; it keeps them, no more.
	Extra json.RawMessage
}

// Part is a piece of a message: [Text], [Reasoning], [ToolCall], [ToolResult], [Media], [Opaque] or [Unknown]. Parts are
// values, never pointers.
type Part interface{ isPart() }

// Native is a provider's own form of a part, kept byte for byte. It is replayed to the provider that made it and to no
// other; others get the neutral form beside it. Whoever edits a part takes its Native off: otherwise the provider may be sent what it said,
// and not what was made of it.
type Native struct {
	Provider string          `json:"provider"`
	Data     json.RawMessage `json:"data"`
}

// Text is plain text, by a user or by the model.
type Text struct {
	Text   string
	Native *Native
}

// Reasoning is what a model thought aloud. Signatures and encrypted content travel in Native.
type Reasoning struct {
	Text   string
	Native *Native
}

// ToolCall is a model's wish that a tool be run.
type ToolCall struct {
	// ID names the call within the session; the runner makes it, unique whatever the provider sent.
	ID   string
	Name string
	// Arguments is a JSON value, as the model wrote it; see [Arguments] for what stands here where the model's text was none.
	Arguments json.RawMessage
	// ProviderID is the id the provider gave, if any. It may repeat from turn to turn.
	ProviderID string
	Native     *Native
}

// ToolResult is the one result of a tool call. It stands in a message of [RoleTool], right after the message that asked.
type ToolResult struct {
	Call   string          // the ToolCall's ID
	Name   string          // the tool's name
	Output json.RawMessage // a JSON value; a string for plain text
	Error  bool            // the output tells of a failure
	Media  []Media         // images, documents and the like beside the output, for the model to look at
}

// Media is an image, a document or the like: its bytes, or where they are.
type Media struct {
	MediaType string // such as "image/png"
	Name      string
	Data      []byte
	URL       string // used where Data is empty
	Native    *Native
}

// Opaque is a part that only its provider understands. Other providers skip it.
type Opaque struct {
	Native Native
}

// Unknown is a stored part of a type that this version does not know. It survives a round trip unchanged.
type Unknown struct {
	Type string
	Raw  json.RawMessage // the whole part, its "type" field included
}

func (Text) isPart()       {}
func (Reasoning) isPart()  {}
func (ToolCall) isPart()   {}
func (ToolResult) isPart() {}
func (Media) isPart()      {}
func (Opaque) isPart()     {}
func (Unknown) isPart()    {}

// UserText is a user's message of one text part.
func UserText(s string) Message {
	return Message{Role: RoleUser, Parts: []Part{Text{Text: s}}}
}

// AssistantText is a model's message of one text part.
func AssistantText(s string) Message {
	return Message{Role: RoleAssistant, Parts: []Part{Text{Text: s}}}
}

// Text joins the message's text parts.
func (m Message) Text() string {
	var s string
	for _, p := range m.Parts {
		if t, ok := p.(Text); ok {
			s += t.Text
		}
	}
	return s
}

// ToolCalls lists the message's tool calls in order.
func (m Message) ToolCalls() []ToolCall {
	var calls []ToolCall
	for _, p := range m.Parts {
		if c, ok := p.(ToolCall); ok {
			calls = append(calls, c)
		}
	}
	return calls
}
