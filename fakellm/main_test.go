package fakellm_test

import (
	"context"
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func user(s string) llm.Message { return llm.UserText(s) }

func assistant(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Parts: parts}
}

func results(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.RoleTool, Parts: parts} }

func call(id, name string) llm.ToolCall {
	return llm.ToolCall{ID: id, Name: name, Arguments: raw(`{}`)}
}

func result(id, name string) llm.ToolResult {
	return llm.ToolResult{Call: id, Name: name, Output: raw(`"ok"`)}
}

func request(messages ...llm.Message) llm.Request { return llm.Request{Messages: messages} }

// answered appends the model's answer to the request's history, and results for
// its calls, as an agent would.
func answered(t testing.TB, m llm.Model, req llm.Request) llm.Request {
	t.Helper()
	msg, _, err := llm.Collect(m.Generate(context.Background(), req))
	if err != nil {
		t.Fatal(err)
	}
	var res llm.Message
	for i, p := range msg.Parts {
		if c, ok := p.(llm.ToolCall); ok {
			c.ID = string(rune('a'+len(req.Messages))) + string(rune('0'+i))
			msg.Parts[i] = c
			res.Role = llm.RoleTool
			res.Parts = append(res.Parts, result(c.ID, c.Name))
		}
	}
	req.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], msg)
	if len(res.Parts) > 0 {
		req.Messages = append(req.Messages, res)
	}
	return req
}

// said returns what the model answers to a request: its text, the names of the
// tools it calls, or the error.
func said(m llm.Model, req llm.Request) string {
	msg, _, err := llm.Collect(m.Generate(context.Background(), req))
	if err != nil {
		return "error: " + err.Error()
	}
	s := msg.Text()
	for _, c := range msg.ToolCalls() {
		s += c.Name + string(c.Arguments)
	}
	return s
}
