package agui_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fermata-ai/fermata/httpapi/internal/agui"
)

// screen is a client as the protocol describes it: what it does with each
// event, and how it reconciles a snapshot with what it shows.
type screen struct{ messages []shownMessage }

type shownMessage struct {
	ID, Role, Text string
	Calls          []string
	Call           string // of a tool's message
}

func (c *screen) find(id string) *shownMessage {
	i := slices.IndexFunc(c.messages, func(m shownMessage) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &c.messages[i]
}

func (c *screen) see(e agui.Event) error {
	switch e := e.(type) {
	case agui.Start:
		if e.Type == agui.TypeTextStart && c.find(e.ID) == nil {
			c.messages = append(c.messages, shownMessage{ID: e.ID, Role: e.Role})
		}
	case agui.Content:
		if e.Type != agui.TypeTextContent {
			return nil
		}
		m := c.find(e.ID)
		if m == nil {
			return fmt.Errorf("the message %q goes on, and isn't there", e.ID)
		}
		m.Text += e.Delta
	case agui.ToolStart:
		m := c.find(e.Parent)
		if m == nil {
			c.messages = append(c.messages, shownMessage{ID: e.Parent, Role: "assistant"})
			m = c.find(e.Parent)
		}
		m.Calls = append(m.Calls, e.Call)
	case agui.ToolResult:
		c.messages = append(c.messages, shownMessage{ID: e.ID, Role: "tool", Text: e.Content.Text,
			Call: e.Call})
	case agui.MessagesSnapshot:
		c.reconcile(e.Messages)
	}
	return nil
}

// reconcile keeps the place of what the client has, drops what the snapshot
// lacks, and appends the rest.
func (c *screen) reconcile(all []agui.Message) {
	var kept []shownMessage
	fresh := map[string]shownMessage{}
	for _, m := range all {
		fresh[m.ID] = shownOf(m)
	}
	for _, m := range c.messages {
		if now, ok := fresh[m.ID]; ok {
			kept = append(kept, now)
			delete(fresh, m.ID)
		}
	}
	for _, m := range all {
		if now, ok := fresh[m.ID]; ok {
			kept = append(kept, now)
		}
	}
	c.messages = kept
}

func shownOf(m agui.Message) shownMessage {
	out := shownMessage{ID: m.ID, Role: m.Role, Call: m.Call}
	if m.Body != nil {
		out.Text = m.Body.Text
	}
	for _, call := range m.Calls {
		out.Calls = append(out.Calls, call.ID)
	}
	return out
}

// input is what the client sends.
func (c *screen) input() *agui.Input {
	in := &agui.Input{Thread: "chat", Run: "run"}
	for _, m := range c.messages {
		body := agui.Body{Text: m.Text}
		out := agui.Message{ID: m.ID, Role: m.Role, Body: &body, Call: m.Call}
		for _, call := range m.Calls {
			out.Calls = append(out.Calls, agui.ToolCall{ID: call, Type: "function",
				Function: agui.Function{Name: "look", Arguments: string(json.RawMessage(`{}`))}})
		}
		in.Messages = append(in.Messages, out)
	}
	return in
}

// shown is what a person sees of it.
func (c *screen) shown() []shownMessage {
	all := slices.Clone(c.messages)
	for i := range all {
		all[i].ID = ""
	}
	return all
}
