package agui

import (
	"strconv"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
)

// Stored is a session as it stands in the store.
type Stored struct {
	History []llm.Message
	// Open are the results of an open turn so far, which stand in no message.
	Open []event.Result
	// Queue is what the user has sent that waits, in order.
	Queue []Queued
}

// Queued is a user's message that stands in no history yet, under the id that
// the client gave it.
type Queued struct {
	ID      string
	Message llm.Message
}

// messages returns what is committed as the protocol has it. Messages without
// anything to show are left out.
func (s Stored) messages() []Message {
	all := []Message{}
	for number, m := range s.History {
		switch m.Role {
		case llm.RoleUser:
			body := bodyOf(m.Parts)
			all = append(all, Message{ID: numberedID(number), Role: roleUser, Body: &body})
		case llm.RoleAssistant:
			if said := assistantMessage(m); said.Body != nil || said.Calls != nil {
				said.ID = numberedID(number)
				all = append(all, said)
			}
		case llm.RoleTool:
			for _, p := range m.Parts {
				if r, ok := p.(llm.ToolResult); ok {
					all = append(all, toolMessage(r))
				}
			}
		}
	}
	for _, r := range s.Open {
		all = append(all, toolMessage(r.Result))
	}
	return all
}

func assistantMessage(m llm.Message) Message {
	out := Message{Role: roleAssistant}
	if text := m.Text(); text != "" {
		out.Body = &Body{Text: text}
	}
	for _, c := range m.ToolCalls() {
		out.Calls = append(out.Calls, ToolCall{ID: c.ID, Type: "function",
			Function: Function{Name: c.Name, Arguments: string(c.Arguments)}})
	}
	return out
}

func toolMessage(r llm.ToolResult) Message {
	body := resultBody(r)
	m := Message{ID: resultID(r.Call), Role: roleTool, Body: &body, Call: r.Call}
	if r.Error {
		m.Error = failed
	}
	return m
}

// failed is what a tool's message has for its error. What happened stands in
// the content, which the model reads.
const failed = "the call has failed"

// resultID names the message that a call's result makes.
func resultID(call string) string { return ours + "result:" + call }

// numberedID names a message by its place.
func numberedID(number int) string { return ours + "message:" + strconv.Itoa(number) }
