package openai

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// TestDamagedStreamsRunNothingElse: a stream with an event lost, repeated or
// moved, or cut off anywhere, is an error, or has no call but those that the
// model made.
func TestDamagedStreamsRunNothingElse(t *testing.T) {
	chatEnd := []string{`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]"}
	piece := func(calls string) string {
		return `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[` + calls + `]}}]}`
	}
	item := func(i int, status, args string) string {
		return fmt.Sprintf(`{"type":"function_call","id":"fc_%d","call_id":"c%d","name":"f","status":%q,"arguments":%q}`, i, i, status, args)
	}
	added := func(i int) string {
		return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, i, item(i, "in_progress", ""))
	}
	delta := func(i int, s string) string {
		return fmt.Sprintf(`{"type":"response.function_call_arguments.delta","output_index":%d,"item_id":"fc_%d","delta":%q}`, i, i, s)
	}
	done := func(i int, s string) string {
		return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, i, item(i, "completed", s))
	}
	at0 := func(event string) string { return strings.Replace(event, `"output_index":1`, `"output_index":0`, 1) }
	streams := map[string][]string{
		"ids": append([]string{
			piece(`{"index":0,"id":"c0","function":{"name":"f","arguments":""}}`), piece(`{"index":0,"function":{"arguments":"{\"a\""}}`), piece(`{"index":0,"function":{"arguments":":1}"}}`),
			piece(`{"index":1,"id":"c1","function":{"name":"f","arguments":""}}`), piece(`{"index":1,"function":{"arguments":"{\"b\""}}`), piece(`{"index":1,"function":{"arguments":":2}"}}`)}, chatEnd...),
		"interleaved": append([]string{
			piece(`{"index":0,"id":"c0","function":{"name":"f","arguments":""}}`), piece(`{"index":1,"id":"c1","function":{"name":"f","arguments":""}}`),
			piece(`{"index":0,"function":{"arguments":"{\"a\""}}`), piece(`{"index":1,"function":{"arguments":"{\"b\""}}`),
			piece(`{"index":0,"function":{"arguments":":1}"}}`), piece(`{"index":1,"function":{"arguments":":2}"}}`)}, chatEnd...),
		"no index": append([]string{
			piece(`{"id":"c0","function":{"name":"f","arguments":""}}`), piece(`{"function":{"arguments":"{\"a\""}}`), piece(`{"function":{"arguments":":1}"}}`),
			piece(`{"id":"c1","function":{"name":"f","arguments":""}}`), piece(`{"function":{"arguments":"{\"b\""}}`), piece(`{"function":{"arguments":":2}"}}`)}, chatEnd...),
		"no ids": append([]string{
			piece(`{"index":0,"function":{"name":"f","arguments":"{\"a\""}}`), piece(`{"index":0,"function":{"arguments":":1}"}}`),
			piece(`{"index":0,"function":{"name":"f","arguments":"{\"b\""}}`), piece(`{"index":0,"function":{"arguments":":2}"}}`)}, chatEnd...),
		"placeholders": append([]string{
			piece(`{"index":0,"id":"c0","function":{"name":"f","arguments":"{}"}}`), piece(`{"index":0,"function":{"arguments":"{\"a\""}}`), piece(`{"index":0,"function":{"arguments":":1}"}}`),
			piece(`{"index":1,"id":"c1","function":{"name":"f","arguments":"null"}}`), piece(`{"index":1,"function":{"arguments":"{\"b\""}}`), piece(`{"index":1,"function":{"arguments":":2}"}}`)}, chatEnd...),
		"once more": append([]string{
			piece(`{"index":0,"id":"c0","function":{"name":"f","arguments":""}}`), piece(`{"index":0,"function":{"arguments":"{\"a\""}}`), piece(`{"index":0,"function":{"arguments":":1}"}}`),
			piece(`{"index":0,"id":"c0","function":{"name":"f","arguments":"{\"a\":1}"}}`),
			piece(`{"index":1,"id":"c1","function":{"name":"f","arguments":""}}`), piece(`{"index":1,"function":{"arguments":"{\"b\""}}`), piece(`{"index":1,"function":{"arguments":":2}"}}`),
			piece(`{"index":1,"id":"c1","function":{"name":"f","arguments":"{\"b\":2}"}}`)}, chatEnd...),
		"responses, one place": {at0(added(0)), at0(delta(0, `{"a"`)), at0(added(1)), at0(delta(1, `{"b"`)), at0(delta(0, `:1}`)), at0(done(0, `{"a":1}`)), at0(delta(1, `:2}`)), at0(done(1, `{"b":2}`)),
			`{"type":"response.completed","response":{"status":"completed","output":[` + item(0, "completed", `{"a":1}`) + "," + item(1, "completed", `{"b":2}`) + `]}}`},
		"responses": {added(0), delta(0, `{"a"`), delta(0, `:1}`), done(0, `{"a":1}`), added(1), delta(1, `{"b"`), delta(1, `:2}`), done(1, `{"b":2}`),
			`{"type":"response.completed","response":{"status":"completed","output":[` + item(0, "completed", `{"a":1}`) + "," + item(1, "completed", `{"b":2}`) + `]}}`},
	}
	var body string
	client := &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)),
			Header: http.Header{"Content-Type": {"text/event-stream"}}}, nil
	})}
	text := func(events []string) string { return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n" }
	for name, events := range streams {
		for _, strict := range []bool{false, true} {
			var m llm.Model
			m, err := NewChat(Options{Model: "m", BaseURL: "http://memory.invalid", Client: client, Strict: strict})
			if strings.HasPrefix(name, "responses") {
				m, err = NewResponses(Options{Model: "m", BaseURL: "http://memory.invalid", Origin: "api.openai.com", Client: client, Strict: strict})
			}
			if err != nil {
				t.Fatal(err)
			}
			tools := []llm.ToolDef{{Name: "f", Input: []byte(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}`)}}
			try := func(what, b string, both bool) {
				body = b
				msg, fin, err := llm.Collect(m.Generate(t.Context(), llm.Request{Tools: tools, Messages: []llm.Message{llm.UserText("x")}}))
				if err != nil {
					return
				}
				var got []string
				for _, c := range msg.ToolCalls() {
					if _, err := llm.Arguments(c.Arguments); err == nil && strings.HasPrefix(string(c.Arguments), "{") {
						got = append(got, string(c.Arguments))
					}
				}
				s := strings.Join(got, " ")
				switch {
				case s == `{"a":1} {"b":2}`, !both && (s == `{"a":1}` || s == `{"b":2}` || s == `{"b":2} {"a":1}` || s == ""):
				default:
					t.Errorf("%s strict %v, %s: %v %s", name, strict, what, fin.Reason, s)
				}
			}
			whole := text(events)
			for i := range whole { // strict or not makes no difference to how a reply is read
				if (i%7 == 0 || i > len(whole)-100) && (i%2 == 0) == strict {
					try(fmt.Sprintf("cut at %d", i), whole[:i], true)
				}
			}
			try("whole", whole, true)
			for i := range events {
				without := append(append([]string{}, events[:i]...), events[i+1:]...)
				try(fmt.Sprintf("without %d", i), text(without), false)
				twice := append(append(append([]string{}, events[:i]...), events[i]), events[i:]...)
				try(fmt.Sprintf("twice %d", i), text(twice), false)
				for j := range without {
					if name == "no index" { // nothing tells the pieces apart then
						break
					}
					// What stands for the arguments is whole JSON, and all that
					// came.
					if name == "placeholders" && events[i] == "[DONE]" && j == 1 {
						continue
					}
					moved := append(append(append([]string{}, without[:j]...), events[i]), without[j:]...)
					try(fmt.Sprintf("%d moved to %d", i, j), text(moved), false)
				}
			}
		}
	}
}
