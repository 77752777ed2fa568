package agui_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/httpapi/internal/agui"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

var update = flag.Bool("update", false, "write what is made into testdata")

// What a session shows, as a client of AG-UI reads it.
func TestWhatEventsBecome(t *testing.T) {
	var got bytes.Buffer
	for _, s := range stories() {
		in := &agui.Input{Thread: "chat-1", Run: "run-1", Messages: []agui.Message{}}
		tr := agui.NewTranslator(in, "ada", count())
		events := tr.Begin(in, nil, agui.Stored{})
		for _, e := range s.events {
			events = append(events, tr.Event(e)...)
			if tr.Stale() {
				events = append(events, tr.Restate(s.stored)...)
			}
		}
		fmt.Fprintf(&got, "-- %s --\n", s.name)
		for _, e := range events {
			b, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if err := valid("Event", b); err != nil {
				t.Errorf("%s: %s: %v", s.name, b, err)
			}
			got.Write(append(b, '\n'))
		}
	}
	const file = "testdata/stories.txt"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("the events differ (-want +got):\n%s", diff)
	}
}

// story is what a session shows.
type story struct {
	name   string
	events []event.Event
	stored agui.Stored // when something is taken back
}

func stories() []story {
	refund := llm.ToolCall{ID: "call-1", Name: "refund", Arguments: json.RawMessage(`{"cents":900}`)}
	asked := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text{Text: "One moment."}, refund}}
	helper := func(e event.Event) event.Event {
		return event.Nested{Session: "s-2", Agent: "helper", Event: e,
			Path: []tool.PathStep{{Session: "chat-1", Agent: "desk", Call: "call-1", Tool: "helper"}}}
	}
	approval := tool.Pause{ID: "call-1.1", Call: "call-1", Session: "chat-1", User: "ada", Tool: "refund",
		Number: 1, Arguments: refund.Arguments, Deadline: time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC),
		Await: tool.Await{Reason: tool.ReasonApproval, Mode: tool.ModeReenter, Gate: "approval",
			Prompt: "Refund 9.00?", Schema: json.RawMessage(`{"type":"object","required":["cents"]}`)}}
	question := tool.Pause{ID: "call-9.1", Call: "call-9", Session: "s-2", Tool: "ask", Number: 1,
		Await: tool.Await{Reason: tool.ReasonInput, Prompt: "Which one?",
			Schema: json.RawMessage(`{"type":"string"}`)}, Path: []tool.PathStep{{Session: "chat-1"}}}
	job := tool.Pause{ID: "call-8.1", Call: "call-8", Session: "chat-1", Tool: "deploy", Number: 1,
		Await: tool.Await{Reason: tool.ReasonExternal}}
	return []story{
		{name: "a call that a person has to approve", events: []event.Event{
			event.ReasoningDelta{Delta: "Nine euros."},
			event.TextDelta{Delta: "One "}, event.TextDelta{Delta: "moment."},
			event.Message{Number: 0, Message: asked}, event.Call{Call: refund},
			event.Pause{Pause: approval},
			event.End{Finish: event.FinishPaused, Pending: []tool.Pause{approval, job}},
		}},
		{name: "the end of it", events: []event.Event{
			event.Result{Status: event.Done, Result: llm.ToolResult{Call: "call-1", Name: "refund",
				Output: json.RawMessage(`{"id":"r-7"}`)}},
			event.Message{Number: 0, Message: llm.Message{Role: llm.RoleTool, Parts: []llm.Part{
				llm.ToolResult{Call: "call-1", Name: "refund", Output: json.RawMessage(`{"id":"r-7"}`)}}}},
			event.TextDelta{Delta: "It is "}, event.Message{Number: 1, Message: llm.AssistantText("It is done.")},
			event.End{Finish: event.FinishStop},
		}},
		{name: "a model that fails on its way", events: []event.Event{
			event.TextDelta{Delta: "It w"}, event.Retry{Failures: 1,
				Err: &llm.Error{Kind: llm.ErrOverloaded, Err: errors.New("10.0.0.1 is busy")},
				At:  time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
			event.TextDelta{Delta: "It is"}, event.Message{Number: 0, Message: llm.AssistantText("It is done.")},
			event.End{Finish: event.FinishStop},
		}},
		{name: "an agent in a tool, which asks", events: []event.Event{
			helper(event.TextDelta{Delta: "I look."}),
			helper(event.Message{Number: 1, Message: llm.AssistantText("I look.")}),
			helper(event.Pause{Pause: question}),
			event.End{Finish: event.FinishPaused, Pending: []tool.Pause{question}},
		}},
		{name: "an agent that works twice in a run", events: []event.Event{
			helper(event.Message{Number: 1, Message: llm.AssistantText("One.")}),
			helper(event.End{Finish: event.FinishStop}),
			helper(event.Message{Number: 3, Message: llm.AssistantText("Two.")}),
			helper(event.End{Finish: event.FinishFailed, Why: "dial tcp 10.0.0.1"}),
			event.End{Finish: event.FinishStop},
		}},
		{name: "progress, a file, and a picture", events: []event.Event{
			event.Progress{Call: "call-1", Tool: "scan", Progress: tool.Progress{Fraction: 0.5}},
			event.Result{Status: event.Done, Result: llm.ToolResult{Call: "call-1", Name: "scan",
				Output: json.RawMessage(`"scanned"`), Media: []llm.Media{{MediaType: "image/png",
					Data: []byte{1}}}}},
			event.End{Finish: event.FinishMaxTurns},
		}},
		{name: "a run that fails", events: []event.Event{
			event.TextDelta{Delta: "I "}, event.End{Finish: event.FinishFailed, Why: "dial tcp 10.0.0.1"},
		}},
	}
}
