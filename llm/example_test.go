package llm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/fermata-ai/fermata/llm"
)

// The stored form of a message. Raw JSON in it stays byte for byte.
func ExampleMessage_AppendJSON() {
	m := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{
		llm.Text{Text: "a < b"},
		llm.ToolCall{ID: "c1", Name: "charge", Arguments: json.RawMessage(`{"order":9007199254740993}`)},
	}}
	b, err := m.AppendJSON(nil)
	fmt.Println(string(b), err)

	var back llm.Message
	err = back.UnmarshalJSON(b)
	fmt.Println(string(back.ToolCalls()[0].Arguments), err)
	// Output:
	// {"role":"assistant","parts":[{"type":"text","text":"a < b"},{"type":"tool_call","id":"c1","name":"charge","arguments":{"order":9007199254740993}}]} <nil>
	// {"order":9007199254740993} <nil>
}

// A part that a later version stored is kept as it is.
func ExampleUnknown() {
	var m llm.Message
	err := m.UnmarshalJSON([]byte(`{"role":"assistant","parts":[{"type":"hologram","depth":3}]}`))
	b, _ := m.AppendJSON(nil)
	fmt.Println(string(b), err)
	// Output: {"role":"assistant","parts":[{"type":"hologram","depth":3}]} <nil>
}

// What a model wrote as arguments becomes JSON, or an error that the model can
// act on.
func ExampleArguments() {
	for _, text := range []string{"", "```json\n{\"city\":\"Oslo\"}\n```", `{"city":"Oslo"} as you asked`} {
		args, err := llm.Arguments(text)
		fmt.Println(string(args))
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// {}
	// {"city":"Oslo"}
	// "{\"city\":\"Oslo\"} as you asked"
	// arguments must be one JSON object: at byte 16, there is text after the end of the JSON value: "as you asked": {"city":"Oslo"} <<HERE>>as you asked
}

func ExampleMessage_Clean() {
	m := llm.UserText("caf\xe9").Clean()
	fmt.Println(m.Text())
	// Output: caf�
}

// A provider's adapter is tested by collecting what it streams.
func ExampleCollect() {
	m, fin, err := llm.Collect(twoCalls)
	for _, c := range m.ToolCalls() {
		fmt.Println(c.Name, string(c.Arguments))
	}
	fmt.Println(fin.Reason, err)
	// Output:
	// get_weather {"city":"Oslo"}
	// get_time {}
	// tool_calls <nil>
}

// A caller that shows a stream while it comes feeds a Collector on the way.
func ExampleCollector() {
	var c llm.Collector
	for ev, err := range cutOff {
		if err == nil {
			err = c.Add(ev)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		if d, ok := ev.(llm.TextDelta); ok {
			fmt.Println("shown:", d.Text)
		}
	}
	_, _, err := c.Message()
	var e *llm.Error
	fmt.Println(errors.As(err, &e) && e.Retryable(), err)
	// Output:
	// shown: It is
	// true truncated: the stream ended without its end marker
}

func streamOf(events ...llm.Event) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

var twoCalls = streamOf(
	llm.ToolCallDelta{Index: 0, ProviderID: "call_0", Name: "get_weather", Arguments: `{"city"`},
	llm.ToolCallDelta{Index: 1, ProviderID: "call_1", Name: "get_time"},
	llm.ToolCallDelta{Index: 0, Arguments: `:"Oslo"}`},
	llm.Finish{Reason: llm.StopToolCalls},
)

var cutOff = streamOf(llm.TextDelta{Text: "It is"})
