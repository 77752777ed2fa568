// Package llm is the neutral form of a conversation with a language model:
// messages and their parts, requests, streamed events, and [Model], the one
// interface a provider implements.
//
// It is not a client: providers live in modules of their own. It knows nothing
// of tools as Go functions, of sessions or of storage.
package llm

import "encoding/json"

// Role says who a message is from.
type Role string

// The roles. Instructions to the model are no message: they are
// [Request.System].
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool" // holds tool results and, after them, the runtime's notices
)

// Message is one entry of a conversation. Its JSON form is {"role": ...,
// "parts": [{"type": ..., ...}, ...]}; see [Message.AppendJSON].
type Message struct {
	Role  Role
	Parts []Part
	// Extra is a JSON object of members that a later version stored and this
	// one doesn't know; it keeps them, no more.
	Extra json.RawMessage
}

// UserText returns a user's message of one text part.
func UserText(s string) Message {
	return Message{Role: RoleUser, Parts: []Part{Text{Text: s}}}
}

// AssistantText returns a model's message of one text part.
func AssistantText(s string) Message {
	return Message{Role: RoleAssistant, Parts: []Part{Text{Text: s}}}
}

// Text joins the message's text parts. What the runtime says is none of them:
// see [Notice].
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
