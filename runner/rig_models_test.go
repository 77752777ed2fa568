package runner_test

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/fermata-ai/fermata/llm"
)

// modelFunc is a model that does what a test needs and fakellm would refuse to.
type modelFunc func(llm.Request) []llm.Event

func (f modelFunc) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for _, ev := range f(r) {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// messages is a model that says one list of parts after the other, by the
// number of its messages in the history.
func messages(turns ...[]llm.Part) modelFunc {
	return func(r llm.Request) []llm.Event {
		n := 0
		for _, m := range r.Messages {
			if m.Role == llm.RoleAssistant {
				n++
			}
		}
		var events []llm.Event
		for _, p := range turns[n] {
			events = append(events, llm.PartDone{Part: p})
		}
		return append(events, llm.Finish{Reason: llm.StopEnd})
	}
}

func calls(parts ...string) (out []llm.Part) {
	for i := 0; i < len(parts); i += 2 {
		out = append(out, llm.ToolCall{Name: parts[i], Arguments: json.RawMessage(parts[i+1])})
	}
	return out
}

func says(s string) []llm.Part { return []llm.Part{llm.Text{Text: s}} }

// streams is a model by its method.
type streams func(context.Context, llm.Request) iter.Seq2[llm.Event, error]

func (f streams) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return f(ctx, r)
}

// script answers the first request with the events given, and every other one
// with a word.
func script(events ...llm.Event) modelFunc {
	asked := 0
	return func(llm.Request) []llm.Event {
		if asked++; asked == 1 {
			return events
		}
		return []llm.Event{
			llm.TextDelta{Text: "Done."}, llm.Finish{Reason: llm.StopEnd, Word: "stop"},
		}
	}
}

// switching is the model that f returns at the time.
type switching struct{ f func() llm.Model }

func (s switching) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return s.f().Generate(ctx, r)
}
