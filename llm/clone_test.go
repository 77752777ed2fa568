package llm_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/internal/scribble"
	"github.com/fermata-ai/fermata/llm"
)

// everything returns a request that has each kind of part, with all that it may
// hold.
func everything() llm.Request {
	native := func() *llm.Native { return &llm.Native{Provider: "p", Data: json.RawMessage(`{"s":1}`)} }
	media := llm.Media{MediaType: "image/png", Data: []byte("png"), Native: native()}
	r := llm.Request{
		Tools: []llm.ToolDef{
			{Name: "a", Input: json.RawMessage(`{"type":"object"}`), Output: json.RawMessage(`{"type":"string"}`)}, {Name: "b"},
		},
		ResponseFormat: llm.ResponseFormat{Schema: json.RawMessage(`{}`)},
		Metadata:       map[string]string{"session": "chat-1"},
		Messages: []llm.Message{
			{Role: llm.RoleUser, Extra: json.RawMessage(`{"x":1}`), Parts: []llm.Part{llm.Text{Text: "Go."}, media}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{
				llm.Text{Text: "t", Native: native()}, llm.Reasoning{Text: "r", Native: native()}, llm.Reasoning{Text: "plain"},
				llm.Opaque{Native: *native()}, llm.Unknown{Type: "new", Raw: json.RawMessage(`{"type":"new"}`)},
				llm.ToolCall{ID: "c", Name: "a", Arguments: json.RawMessage(`{}`), Native: native()},
			}},
			{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: "c", Output: json.RawMessage(`1`), Media: []llm.Media{media}}}},
			{Role: llm.RoleAssistant}, {Role: llm.RoleAssistant, Parts: []llm.Part{}},
		},
	}
	for n := range 40 { // more than fit a box, and a piece too large to lie with others
		r.Messages = append(r.Messages, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.ToolCall{ID: fmt.Sprint(n), Arguments: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}}},
			llm.Message{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: fmt.Sprint(n), Output: json.RawMessage(fmt.Sprintf(`"%0*d"`, 4*n*n, n))}}})
	}
	return r
}

func TestClonesAreTheirReceivers(t *testing.T) {
	r := everything()
	if diff := cmp.Diff(r, r.Clone()); diff != "" {
		t.Fatalf("a copy differs (-want +got):\n%s", diff)
	}
	scribble.Over(r.Clone())
	if diff := cmp.Diff(everything(), r); diff != "" {
		t.Errorf("who writes into a copied request changes it (-want +got):\n%s", diff)
	}
	want := everything()
	for i, m := range r.Messages {
		if diff := cmp.Diff(m, m.Clone()); diff != "" {
			t.Fatalf("a copy of message %d differs (-want +got):\n%s", i, diff)
		}
		scribble.Over(m.Clone())
		if diff := cmp.Diff(want.Messages[i], m); diff != "" {
			t.Errorf("who writes into a copied message changes it (-want +got):\n%s", diff)
		}
	}
	// The other way round: what was copied is changed afterwards.
	own := r.Clone()
	scribble.Over(r)
	if diff := cmp.Diff(everything(), own); diff != "" {
		t.Errorf("who writes into a request changes its copy (-want +got):\n%s", diff)
	}
}

// What a model, or a layer around it, says in whole parts is copied when it is
// collected.
func TestCollectedPartsAreCopied(t *testing.T) {
	parts := func() []llm.Part { return append(everything().Messages[1].Parts, everything().Messages[0].Parts[1]) }
	collect := func(touch func(any)) llm.Message {
		var c llm.Collector
		for _, p := range parts() {
			if err := c.Add(llm.PartDone{Part: p}); err != nil {
				t.Fatal(err)
			}
			touch(p)
		}
		_ = c.Add(llm.Finish{Reason: llm.StopToolCalls})
		m, _, err := c.Message()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if diff := cmp.Diff(collect(func(any) {}), collect(scribble.Over)); diff != "" {
		t.Errorf("a model that goes on with its parts changes the message (-want +got):\n%s", diff)
	}
}

// A history costs few allocations, however long it is: one for some thirty
// calls or results.
func TestHistoriesAreCopiedInFewPieces(t *testing.T) {
	var r llm.Request
	for range 320 {
		r.Messages = append(r.Messages, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.ToolCall{Arguments: json.RawMessage(`{"a":1}`)}}},
			llm.Message{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Output: json.RawMessage(`1`)}}})
	}
	if n := testing.AllocsPerRun(10, func() { r.Clone() }); n > 25 {
		t.Errorf("copying 640 messages takes %v allocations", n)
	}
}
