package event_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/scribble"
	"github.com/fermata-ai/fermata/llm"
)

// all has an event of each type, with all that it may hold.
func all() []event.Event {
	m := event.Message{Number: 1, Message: llm.Message{Parts: []llm.Part{scribble.Filled[llm.ToolCall](), scribble.Filled[llm.ToolResult]()}}}
	return []event.Event{
		event.TextDelta{Delta: "a"}, event.ReasoningDelta{Delta: "a"}, m, scribble.Filled[event.Call](), scribble.Filled[event.Progress](),
		scribble.Filled[event.Result](), scribble.Filled[event.Artifact](), scribble.Filled[event.Pause](), scribble.Filled[event.Retry](),
		scribble.Filled[event.End](), scribble.Filled[event.Undriven](), scribble.Filled[event.Parked](),
		event.Nested{Path: scribble.Filled[event.Nested]().Path, Session: "child:1", Agent: "helper", Event: m},
		event.Handoff{From: "a", To: "b"}, scribble.Filled[event.Started](), scribble.Filled[event.Other](),
	}
}

// A receiver that writes into a copy of an event changes nothing of the event,
// whatever its type.
func TestClonesShareNothing(t *testing.T) {
	seen := map[string]bool{}
	for i, ev := range all() {
		copied := event.Clone(ev)
		if diff := cmp.Diff(ev, copied); diff != "" {
			t.Errorf("a copy of %T differs (-want +got):\n%s", ev, diff)
		}
		scribble.Over(copied)
		if diff := cmp.Diff(all()[i], ev); diff != "" {
			t.Errorf("who writes into a copy of %T changes it (-want +got):\n%s", ev, diff)
		}
		seen[fmt.Sprintf("%T", ev)] = true
	}
	for _, name := range types(t) {
		if !seen[name] {
			t.Errorf("there is no %s in this test", name)
		}
	}
}

// types returns the types of events, as fmt's %T has them.
func types(t *testing.T) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if m, ok := d.(*ast.FuncDecl); ok && m.Name.Name == "isEvent" {
			names = append(names, "event."+m.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	return names
}
