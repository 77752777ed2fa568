package agui_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/httpapi/internal/agui"
	"github.com/fermata-ai/fermata/llm"
)

// Whatever a client sends, it is refused, or makes a run that keeps the rules.
func FuzzReadInput(f *testing.F) {
	f.Add([]byte(`{"threadId":"a","runId":"r","messages":[{"id":"m","role":"user","content":"Hi."},
		{"id":"n","role":"assistant","toolCalls":[{"id":"c","type":"function","function":
		{"name":"look","arguments":"{}"}}]},{"id":"o","role":"tool","toolCallId":"c","content":"x"},
		{"id":"p","role":"user","content":[{"type":"text","text":"and"}]}]}`))
	f.Add([]byte(`{"threadId":"a","runId":"r","messages":[{"id":"m","role":"user"},{"id":"m"}],
		"resume":[{"interruptId":"c.1","status":"resolved","payload":{"approved":true}}]}`))
	stories, err := os.ReadFile("testdata/stories.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`\{.*\}`).FindAll(stories, -1) {
		f.Add(line)
	}
	stored := agui.Stored{History: []llm.Message{llm.UserText("Hi."), {Role: llm.RoleAssistant,
		Parts: []llm.Part{llm.ToolCall{ID: "c", Name: "look", Arguments: json.RawMessage(`{}`)}}}}}
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := agui.ReadInput(body)
		if err != nil {
			return
		}
		var own []agui.Queued
		for _, m := range in.Said() {
			if said, _, err := m.UserMessage(func(string) bool { return true }); err == nil {
				own = append(own, agui.Queued{ID: m.ID, Message: said.Clean()})
			}
		}
		tr := agui.NewTranslator(in, "ada", count())
		events := tr.Begin(in, own, stored)
		for _, m := range own {
			events = append(events, tr.Event(event.Message{Number: tr.Next(), Message: m.Message})...)
		}
		events = append(events, tr.Restate(stored)...)
		events = append(events, tr.Event(event.End{Finish: event.FinishStop})...)
		r := newRules()
		for _, e := range events {
			b, err := json.Marshal(e)
			if err == nil {
				err = r.see(b)
			}
			if err == nil {
				err = valid("Event", b)
			}
			if err != nil {
				t.Fatalf("%s: %v", b, err)
			}
		}
	})
}
