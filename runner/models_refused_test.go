package runner_test

import (
	"context"
	"iter"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// scripted answers with events.
type scripted [][]llm.Event

func (s *scripted) Generate(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		next := (*s)[0]
		*s = (*s)[1:]
		for _, e := range next {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestRefusedCallsAreNotRun: after a refusal, what the model asked for before is not what it, or the filter, means.
func TestRefusedCallsAreNotRun(t *testing.T) {
	ran := 0
	wipe := tool.Must(tool.Func(tool.Spec{Name: "wipe", Description: "Wipes the disk."},
		func(_ context.Context, in struct {
			Disk string `json:"disk"`
		}) (tool.Result[string], error) {
			ran++
			return tool.Done("wiped"), nil
		}))
	model := &scripted{
		{llm.TextDelta{Text: "I can't."}, llm.ToolCallDelta{ProviderID: "c", Name: "wipe", Arguments: `{"disk":"/"}`}, llm.Finish{Reason: llm.StopRefusal}},
		{llm.TextDelta{Text: "ok"}, llm.Finish{Reason: llm.StopEnd}},
	}
	r := newRig(t, agent.Config{Tools: []tool.Tool{wipe}, Model: model}, nil)
	results := of[event.Result](r.say("Wipe.").finished(event.FinishRefusal))
	if ran != 0 || len(results) != 1 || results[0].Status != event.Cancelled {
		t.Errorf("it ran %d times after a refusal, and came to %v", ran, results)
	}
	r.acceptable()
	r.say("Something else.").finished(event.FinishStop)
	r.acceptable()
}
