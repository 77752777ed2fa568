package openai

import (
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// Compatible servers leave out the index of a call's pieces, or send the same
// one for all calls. No two calls may melt into one.
func TestPiecesOfCallsFindTheirCall(t *testing.T) {
	const (
		oslo = `a get_weather {"city":"Oslo"}`
		time = `b get_time {}`
	)
	for _, c := range []struct {
		name   string
		deltas []string
		want   string // "" : an error that says
		says   string
	}{
		{"two calls without an index", []string{
			`{"tool_calls":[{"id":"a","type":"function","function":{"name":"get_weather","arguments":""}}]}`,
			`{"tool_calls":[{"function":{"arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"function":{"arguments":"\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"id":"b","type":"function","function":{"name":"get_time","arguments":""}}]}`,
			`{"tool_calls":[{"function":{"arguments":"{}"}}]}`,
		}, oslo + "\n" + time, ""},
		{"two whole calls without an index in one chunk", []string{
			`{"tool_calls":[{"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}},{"id":"b","function":{"name":"get_time","arguments":"{}"}}]}`,
		}, oslo + "\n" + time, ""},
		{"an index that is null", []string{
			`{"tool_calls":[{"index":null,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"index":null,"id":"b","function":{"name":"get_time","arguments":"{}"}}]}`,
		}, oslo + "\n" + time, ""},
		{"two calls of index 0 with different ids", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"get_time","arguments":"{}"}}]}`,
		}, oslo + "\n" + time, ""},
		{"two calls of index 0 by turns, with their ids", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"get_time","arguments":"{"}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"arguments":"}"}}]}`,
		}, oslo + "\n" + time, ""},
		{"by turns, with ids at first only", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":""}}]}`,
			`{"tool_calls":[{"index":1,"id":"b","function":{"name":"get_time","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"index":1,"function":{"arguments":"{"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}`,
		}, oslo + "\n" + time, ""},
		{"two entries of one call in the first chunk", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":""}},{"index":0,"function":{"arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}`,
		}, oslo, ""},
		{"two entries of index 0 in one chunk with different ids", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}},{"index":0,"id":"b","function":{"name":"get_time","arguments":"{}"}}]}`,
		}, oslo + "\n" + time, ""},
		{"whole calls of index 0 without ids, as Gemini sent them", []string{
			`{"tool_calls":[{"index":0,"function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}},{"index":0,"function":{"name":"get_time","arguments":"{}"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"get_time","arguments":"{}"}}]}`,
		}, `get_weather {"city":"Oslo"}` + "\nget_time {}\nget_time {}", ""},
		{"calls of index 0 without ids, of which the first is not complete", []string{
			`{"tool_calls":[{"index":0,"function":{"name":"get_weather","arguments":"{\"city\":"}},{"index":0,"function":{"name":"get_time","arguments":"{}"}}]}`,
		}, "", "two calls, or a name in pieces"},
		{"a complete call that is named again", []string{
			`{"tool_calls":[{"index":0,"function":{"name":"get_time","arguments":"{}"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"get_time","arguments":""}}]}`,
		}, "", `names the tool "get_time" again`},
		{"a complete call that is named again, without an index", []string{
			`{"tool_calls":[{"function":{"name":"get_time","arguments":"{}"}}]}`, `{"tool_calls":[{"function":{"name":"get_time","arguments":""}}]}`,
		}, "", "another call, or a name in pieces"},
		{"the id and the name in each chunk", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"\"Oslo\""}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"}"}}]}`,
		}, oslo, ""},
		{"the id in each chunk, without an index", []string{
			`{"tool_calls":[{"id":"a","function":{"name":"get_weather","arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"id":"b","function":{"name":"get_time","arguments":"{"}}]}`,
			`{"tool_calls":[{"id":"a","function":{"arguments":"\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"id":"b","function":{"arguments":"}"}}]}`,
		}, oslo + "\n" + time, ""},
		{"a name in pieces", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"weather","arguments":"{}"}}]}`,
		}, "", "a name in pieces"},
		{"a name in pieces, without an index", []string{
			`{"tool_calls":[{"id":"a","function":{"name":"get_","arguments":""}}]}`,
			`{"tool_calls":[{"function":{"name":"weather","arguments":"{}"}}]}`,
		}, "", "a name in pieces"},
		{"a name in pieces that repeats itself", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"ping","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"ping","arguments":"{}"}}]}`,
		}, "", `names the tool "ping" again`},
		{"call 1 before call 0", []string{
			`{"tool_calls":[{"index":1,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"get_time","arguments":"{}"}}]}`,
		}, oslo + "\n" + time, ""},
		{"index 0, then 5", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"index":5,"id":"b","function":{"name":"get_time","arguments":"{}"}}]}`,
		}, oslo + "\n" + time, ""},
		{"the same id under two indexes", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"index":1,"id":"a","function":{"name":"get_time","arguments":"{}"}}]}`,
		}, oslo + "\n" + `a get_time {}`, ""},
		{"calls without ids", []string{
			`{"tool_calls":[{"index":0,"function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}},{"index":1,"id":"","function":{"name":"get_time","arguments":"{}"}}]}`,
		}, `get_weather {"city":"Oslo"}` + "\nget_time {}", ""},
		{"whole calls with neither index nor id", []string{
			`{"tool_calls":[{"function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"function":{"name":"get_time","arguments":{}}}]}`,
		}, `get_weather {"city":"Oslo"}` + "\nget_time {}", ""},
		{"one call, with the index at first only", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"function":{"arguments":"\"Oslo\"}"}}]}`,
		}, oslo, ""},
		{"a piece of either of two calls", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"index":1,"id":"b","function":{"name":"get_time","arguments":"{"}}]}`,
			`{"tool_calls":[{"function":{"arguments":"\"Oslo\"}"}}]}`,
		}, "", "neither index nor id, after 2 calls"},
		{"arguments where no call began", []string{
			`{"tool_calls":[{"index":3,"function":{"arguments":"{\"city\":\"Oslo\"}"}}]}`,
		}, "", "no call began"},
		{"arguments where no call began, without an index", []string{
			`{"tool_calls":[{"function":{"arguments":"{}"}}]}`,
		}, "", "no call began"},
		{"the arguments as an object", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"transfer","arguments":{"id":9007199254740993}}}]}`,
		}, `a transfer {"id":9007199254740993}`, ""},
		{"the arguments as null", []string{
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"get_time","arguments":null}}]}`,
		}, time, ""},
		{"no arguments", []string{
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"get_time"}}]}`,
		}, time, ""},
		{"the older function_call", []string{
			`{"function_call":{"name":"get_weather","arguments":""}}`,
			`{"function_call":{"arguments":"{\"city\":\"Oslo\"}"}}`,
		}, `get_weather {"city":"Oslo"}`, ""},
		{"two entries of one chunk without an index, with one id", []string{
			`{"tool_calls":[{"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}},{"id":"a","function":{"name":"get_time","arguments":"{}"}}]}`,
		}, oslo + "\na get_time {}", ""},
		{"two entries of one chunk without an index, alike", []string{
			`{"tool_calls":[{"id":"b","function":{"name":"get_time","arguments":"{}"}},{"id":"b","function":{"name":"get_time","arguments":"{}"}}]}`,
		}, time + "\n" + time, ""},
		{"two entries of one chunk with neither index nor id", []string{
			`{"tool_calls":[{"function":{"name":"get_time","arguments":""}},{"function":{"name":"get_time","arguments":""}}]}`,
		}, "get_time {}\nget_time {}", ""},
		{"one id over chunks, without an index", []string{
			`{"tool_calls":[{"id":"a","function":{"name":"get_weather","arguments":"{\"city\":"}},{"id":"b","function":{"name":"get_time","arguments":"{"}}]}`,
			`{"tool_calls":[{"id":"a","function":{"arguments":"\"Oslo\"}"}},{"id":"b","function":{"arguments":"}"}}]}`,
		}, oslo + "\n" + time, ""},
		{"pieces of either of two calls with one id, without an index", []string{
			`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}},{"id":"a","function":{"name":"g","arguments":"{"}}]}`,
			`{"tool_calls":[{"id":"a","function":{"arguments":"}"}}]}`,
		}, "", "2 calls have its id"},
		{"two nameless entries of one chunk", []string{
			`{"tool_calls":[{"function":{"name":"f","arguments":""}},{"function":{"name":"g","arguments":""}}]}`,
			`{"tool_calls":[{"function":{"arguments":"{\"a\":1}"}},{"function":{"arguments":"{\"b\":2}"}}]}`,
		}, "", "neither index, id nor name beside another"},
		{"entries that are empty", []string{
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"get_time","arguments":"{}"}}]}`, `{"tool_calls":[{"index":0},null,{"type":"function","function":{}}]}`,
		}, time, ""},
		{"{} first, and then the arguments", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{}"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}`,
		}, oslo, ""},
		{"an object first that is empty, and then the arguments, without an index", []string{
			`{"tool_calls":[{"id":"a","function":{"name":"get_weather","arguments":{}}}]}`,
			`{"tool_calls":[{"id":"a","function":{"arguments":"{\"city\":\"Oslo\"}"}}]}`,
		}, oslo, ""},
		{"null first, and then the arguments", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"null"}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`,
		}, oslo, ""},
		{`"" first, and then the arguments`, []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"\"\""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Oslo\"}"}}]}`,
		}, oslo, ""},
		{"{} alone", []string{
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"get_time","arguments":"{}"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":" "}}]}`,
		}, time, ""},
		{"{} in two pieces", []string{
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"get_time","arguments":"{"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}`,
		}, time, ""},
		{"{} after the arguments is none of them", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}`,
		}, `a f "{\"n\":1}{}"`, ""},
		{"the arguments once more, whole", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`,
		}, oslo, ""},
		{"the arguments once more, with white space, and without the id", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"name":"get_weather","arguments":"{ \"city\": \"Oslo\" }\n"}}]}`,
		}, oslo, ""},
		{"the arguments once more, with neither index nor id", []string{
			`{"tool_calls":[{"function":{"name":"get_weather","arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"function":{"arguments":"\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`,
		}, `get_weather {"city":"Oslo"}`, ""},
		{"other arguments once more, whole", []string{
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"1.0}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}]}`,
		}, `a f "{\"n\":1.0}{\"n\":1}"`, ""},
		{"pieces without an id, and then the whole with one", []string{
			`{"tool_calls":[{"index":0,"function":{"name":"get_weather","arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`,
		}, oslo, ""},
		{"pieces with neither index nor id, and then the whole with an id", []string{
			`{"tool_calls":[{"function":{"name":"get_weather","arguments":"{\"city\":"}}]}`,
			`{"tool_calls":[{"function":{"arguments":"\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"id":"a","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`,
		}, oslo, ""},
		{"a call without an id, and then another with one", []string{
			`{"tool_calls":[{"index":0,"function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"get_time","arguments":"{}"}}]}`,
		}, `get_weather {"city":"Oslo"}` + "\n" + time, ""},
		{"an empty function_call beside a call", []string{
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"get_time","arguments":""}}],"function_call":{"name":"","arguments":""}}`, `{"function_call":null}`,
		}, time, ""},
		{"a tool that is no function", []string{
			`{"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"sql","input":"select 1"}}]}`,
		}, "", `type "custom"`},
		{"a tool that is no function, and has no id", []string{`{"tool_calls":[{"index":0,"type":"custom","custom":{"name":"sql"}}]}`}, "", `type "custom"`},
		{"calls that are no list", []string{`{"tool_calls":{"index":0}}`}, "", "tool_calls of type"},
		{"an index that is text", []string{`{"tool_calls":[{"index":"0","id":"a","function":{"name":"get_time"}}]}`}, "", "index"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Some servers say "stop" whatever they send.
			for _, finish := range []string{"tool_calls", "stop"} {
				s := newChatServer(t, pieces(finish, c.deltas...))
				m, fin, err := ask(t, s.model(t, Options{}), llm.Request{})
				if c.want == "" {
					if kind(err) != llm.ErrMalformed || !strings.Contains(err.Error(), c.says) {
						t.Fatalf("%v, want malformed: %s; calls\n%s", err, c.says, calls(m))
					}
					continue
				}
				if err != nil || calls(m) != c.want || fin.Reason != llm.StopToolCalls {
					t.Fatalf("%v, %v, calls\n%s", err, fin, calls(m))
				}
				// Held back to the end, the arguments are the same.
				m, _, err = ask(t, s.model(t, Options{Strict: true}), llm.Request{})
				if err != nil || calls(m) != c.want {
					t.Fatalf("strict: %v, calls\n%s", err, calls(m))
				}
			}
		})
	}
}
