package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// floods is a model that writes without end the first time, and answers the
// next.
type floods struct {
	event  llm.Event
	events int // that were taken of the flood
	asked  int
}

func (f *floods) Generate(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if f.asked++; f.asked > 1 {
			_ = yield(llm.TextDelta{Text: "Well."}, nil) &&
				yield(llm.Finish{Reason: llm.StopEnd}, nil)
			return
		}
		if !yield(llm.ToolCallDelta{ProviderID: "a", Name: "look"}, nil) {
			return
		}
		for yield(f.event, nil) {
			f.events++
		}
	}
}

// TestMessageOverItsLimit: the stream is left at the limit, nothing of the
// message is stored or run, and the model is not asked again before Continue.
func TestMessageOverItsLimit(t *testing.T) {
	piece := strings.Repeat("x", 1<<10)
	for name, ev := range map[string]llm.Event{
		"text":      llm.TextDelta{Text: piece},
		"reasoning": llm.ReasoningDelta{Text: piece},
		"arguments": llm.ToolCallDelta{Arguments: piece},
		"calls": llm.PartDone{Part: llm.ToolCall{Name: "look",
			Arguments: json.RawMessage(`"` + piece + `"`)}},
		"signed": llm.PartDone{
			Part: llm.Reasoning{Native: &llm.Native{Provider: "p",
				Data: json.RawMessage(`"` + piece + `"`)}},
		},
		"media": llm.PartDone{Part: llm.Media{MediaType: "image/png", Data: []byte(piece)}},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			model := &floods{event: ev}
			r := newRig(t, agent.Config{
				Model: model, Tools: []tool.Tool{instant("look", tool.ReadOnly, &n)},
				Limits: agent.Limits{Message: 64 << 10},
			}, &rigOptions{memory: true})
			r.say("Go.").finished(event.FinishMaxMessage)
			if model.events > 65 || model.asked != 1 || n.get("look") != 0 ||
				len(r.transcript().History) != 1 {
				t.Errorf("%d events were taken, the model was asked %d times, %d bodies were entered, the history is %v",
					model.events, model.asked, n.get("look"), r.transcript().History)
			}
			r.carryOn().finished(event.FinishStop)
			r.acceptable()
		})
	}
}

// TestArgumentsOverTheirLimit: no more than their beginning is kept, and the
// model reads how long they were, also after a restart; what a provider signed
// can't be shortened.
func TestArgumentsOverTheirLimit(t *testing.T) {
	args := fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("é", 300<<10))
	call := func(n *llm.Native) llm.Model {
		return modelFunc(func(req llm.Request) []llm.Event {
			if len(req.Messages) > 1 {
				return []llm.Event{llm.TextDelta{Text: "I see."}, llm.Finish{Reason: llm.StopEnd}}
			}
			return []llm.Event{
				llm.PartDone{Part: llm.ToolCall{Name: "look", ProviderID: "a",
					Arguments: json.RawMessage(args), Native: n}},
				llm.Finish{Reason: llm.StopToolCalls},
			}
		})
	}
	var n counter
	look := instant("look", tool.ReadOnly, &n)
	r := newRig(t, agent.Config{Model: call(nil), Tools: []tool.Tool{look}}, nil)
	r.say("Go.").finished(event.FinishStop)
	history := r.transcript().History
	if kept := history[1].ToolCalls()[0].Arguments; len(kept) > 2<<10 || !json.Valid(kept) {
		t.Errorf("%d bytes of arguments are kept", len(kept))
	}
	const want = "the arguments are too long: 614411 bytes, at most 262144 are taken; write less"
	if out := r.outputs()[0]; !strings.Contains(out, want) || n.get("look") != 0 {
		t.Errorf("the model reads %s; the body was entered %d times", out, n.get("look"))
	}
	r.restart()
	if again := r.transcript().History[1].ToolCalls()[0].Arguments; string(again) != string(history[1].ToolCalls()[0].Arguments) {
		t.Errorf("after a restart the arguments are %.200s", again)
	}
	r.acceptable()

	r = newRig(t, agent.Config{Model: call(&llm.Native{Provider: "p", Data: json.RawMessage(args)}),
		Tools: []tool.Tool{look}}, nil)
	r.say("Go.").finished(event.FinishMaxMessage)
	if len(r.transcript().History) != 1 {
		t.Error("a message was kept whose signature would not fit")
	}
}
