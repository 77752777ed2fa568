package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/llm"
)

// at wraps blocks' events: the first is a block's beginning, the others its
// deltas.
func at(index int, block string, deltas ...string) []string {
	all := []string{fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block)}
	for _, d := range deltas {
		all = append(all, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, index, d))
	}
	return append(all, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index))
}

func message(end string, blocks ...[]string) string {
	all := []string{begin}
	for _, b := range blocks {
		all = append(all, b...)
	}
	return events(append(all, end, stop)...)
}

func native(data string) *llm.Native {
	return &llm.Native{Provider: "anthropic", Data: json.RawMessage(data)}
}

// What only Anthropic understands is kept, in a stream as in a whole message,
// and goes back byte for byte.
func TestNative(t *testing.T) {
	const (
		cited = `{"type":"text","text":"It <rains> & \"pours\".","citations":[{"type":"char_location","cited_text":"<wet>","document_index":0,"document_title":null,"start_char_index":0,"end_char_index":5,"file_id":null}]}`
		look  = `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"rain in Oslo","n":1.0},"caller":{"type":"direct"}}`
		found = `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"Rain","url":"https://example.com/?a=1&b=2","encrypted_content":"RW5jcnlwdGVk","page_age":null}],"caller":{"type":"direct"}}`
		think = `{"type":"thinking","thinking":"Is 1 < 2?\n","signature":"c2ln"}`
		black = `{"type":"redacted_thinking","data":"cmVk"}`
	)
	blocks := []string{think, look, found, `{"type":"text","text":"So: "}`, cited, black, `{"type":"text","text":"Done."}`}
	want := []llm.Part{
		llm.Reasoning{Text: "Is 1 < 2?\n", Native: native(think)},
		llm.Opaque{Native: *native(look)},
		llm.Opaque{Native: *native(found)},
		llm.Text{Text: "So: "},
		llm.Text{Text: `It <rains> & "pours".`, Native: native(cited)},
		llm.Reasoning{Native: native(black)},
		llm.Text{Text: "Done."},
	}
	stream := message(endTurn,
		at(0, `{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":"Is 1 "}`, `{"type":"thinking_delta","thinking":"< 2?\n"}`, `{"type":"signature_delta","signature":"c2ln"}`),
		at(1, `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{},"caller":{"type":"direct"}}`,
			`{"type":"input_json_delta","partial_json":""}`, `{"type":"input_json_delta","partial_json":"{\"query\":\"rain in "}`, `{"type":"input_json_delta","partial_json":"Oslo\",\"n\":1.0}"}`),
		at(2, found),
		at(3, `{"type":"text","text":""}`, `{"type":"text_delta","text":"So: "}`),
		at(4, `{"type":"text","text":"","citations":[]}`, `{"type":"citations_delta","citation":`+between(cited, `"citations":[`, `]}`)+`}`,
			`{"type":"text_delta","text":"It <rains> "}`, `{"type":"text_delta","text":"& \"pours\"."}`),
		at(5, black),
		at(6, `{"type":"text","text":""}`, `{"type":"text_delta","text":"Done."}`))
	whole := `{"type":"message","content":[` + strings.Join(blocks, ",") + `],"stop_reason":"end_turn","usage":{}}`
	for name, s := range map[string]*service{"stream": {body: stream}, "whole": {body: whole, kind: "application/json"}} {
		t.Run(name, func(t *testing.T) {
			m, _ := collect(t, s.model(t, Options{Whole: name == "whole"}), hello())
			if d := cmp.Diff(want, m.Parts); d != "" {
				t.Fatalf("the message differs (-want +got):\n%s", d)
			}
			req := hello()
			req.Messages = append(req.Messages, m, llm.UserText("Go on."))
			collect(t, s.model(t, Options{Whole: name == "whole"}), req)
			for _, b := range blocks {
				if strings.HasPrefix(b, `{"type":"text","text":"`) && !strings.Contains(b, "citations") {
					continue
				}
				if !strings.Contains(s.bodies[1], b) {
					t.Errorf("the next request doesn't hold %s:\n%s", b, s.bodies[1])
				}
			}
		})
	}
}

func between(s, after, before string) string {
	_, s, _ = strings.Cut(s, after)
	return s[:strings.LastIndex(s, before)]
}

// A call that code of the model's made says so, also when its id had to be
// another.
func TestCaller(t *testing.T) {
	const caller = `{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}`
	block := `{"type":"tool_use","id":"toolu_1","name":"look","input":{},"caller":` + caller + `}`
	s := &service{body: message(callsOut, at(0, block, `{"type":"input_json_delta","partial_json":"{\"n\":"}`, `{"type":"input_json_delta","partial_json":"1}"}`))}
	m, fin := collect(t, s.model(t, Options{}), hello())
	want := []llm.Part{llm.ToolCall{Name: "look", ProviderID: "toolu_1", Arguments: json.RawMessage(`{"n":1}`), Native: native(`{"caller":` + caller + `}`)}}
	if d := cmp.Diff(want, m.Parts); d != "" || fin.Reason != llm.StopToolCalls {
		t.Fatalf("%v; the message differs (-want +got):\n%s", fin, d)
	}
	req := hello()
	for _, id := range []string{"call_1", "call_2"} {
		c := m.Parts[0].(llm.ToolCall)
		c.ID = id
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{c}},
			llm.Message{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: id, Name: "look", Output: json.RawMessage(`1`)}}})
	}
	collect(t, s.model(t, Options{}), req)
	for _, id := range []string{"toolu_1", "call_2"} {
		if want := `{"type":"tool_use","id":"` + id + `","name":"look","input":{"n":1},"caller":` + caller + `}`; !strings.Contains(s.bodies[1], want) {
			t.Errorf("the next request doesn't hold %s:\n%s", want, s.bodies[1])
		}
	}
}

// Blocks may be written side by side.
func TestInterleaved(t *testing.T) {
	s := &service{body: events(begin,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"look","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"n\":"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"x"}}`,
		`{"type":"content_block_stop","index":2}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"c"}}`,
		`{"type":"content_block_stop","index":0}`,
		callsOut, stop)}
	m, _ := collect(t, s.model(t, Options{}), hello())
	want := []llm.Part{llm.Text{Text: "abc"}, llm.ToolCall{Name: "look", ProviderID: "toolu_1", Arguments: json.RawMessage(`{"n":1}`)}, llm.Text{Text: "x"}}
	if d := cmp.Diff(want, m.Parts); d != "" {
		t.Errorf("the message differs (-want +got):\n%s", d)
	}
}

// What a service says that keeps to the rules in its own way.
func TestOddReplies(t *testing.T) {
	call := func(args string) llm.ToolCall {
		return llm.ToolCall{Name: "look", ProviderID: "toolu_1", Arguments: json.RawMessage(args)}
	}
	const look = `{"type":"tool_use","id":"toolu_1","name":"look","input":%s}`
	for _, c := range []struct {
		name, body string
		parts      []llm.Part
		stop       llm.StopReason
	}{
		{"the input at the beginning", message(callsOut, at(0, fmt.Sprintf(look, `{"n":18446744073709551615}`))), []llm.Part{call(`{"n":18446744073709551615}`)}, llm.StopToolCalls},
		{"no input", message(callsOut, at(0, `{"type":"tool_use","id":"toolu_1","name":"look"}`)), []llm.Part{call(`{}`)}, llm.StopToolCalls},
		{"no input at first", message(callsOut, at(0, `{"type":"tool_use","id":"toolu_1","name":"look"}`, `{"type":"input_json_delta","partial_json":"{\"n\":1}"}`)), []llm.Part{call(`{"n":1}`)}, llm.StopToolCalls},
		{"a call that a filter cut off", message(`{"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{}}`, at(0, fmt.Sprintf(look, `{}`))), []llm.Part{call(`"(cut off before its arguments came)"`)}, llm.StopRefusal},
		{"blank text with citations", message(endTurn, at(0, `{"type":"text","text":" ","citations":[{"type":"x"}]}`)), nil, llm.StopEnd},
		{"input null", message(callsOut, at(0, fmt.Sprintf(look, `null`))), []llm.Part{call(`{}`)}, llm.StopToolCalls},
		{"no id", message(callsOut, at(0, `{"type":"tool_use","name":"look","input":{}}`)), []llm.Part{llm.ToolCall{Name: "look", Arguments: json.RawMessage(`{}`)}}, llm.StopToolCalls},
		{"end_turn with a call", message(endTurn, at(0, fmt.Sprintf(look, `{}`))), []llm.Part{call(`{}`)}, llm.StopToolCalls},
		{"tool_use without a call", message(callsOut, at(0, `{"type":"text","text":"a"}`)), []llm.Part{llm.Text{Text: "a"}}, llm.StopOther},
		{"thinking without a signature", message(endTurn, at(0, `{"type":"thinking","thinking":"Hm."}`), at(1, `{"type":"thinking","thinking":"So.","signature":"cw"}`)),
			[]llm.Part{llm.Reasoning{Text: "Hm."}, llm.Reasoning{Text: "So.", Native: native(`{"type":"thinking","thinking":"So.","signature":"cw"}`)}}, llm.StopEnd},
		{"thinking that isn't shown", message(endTurn, at(0, `{"type":"thinking","thinking":"","signature":""}`, `{"type":"signature_delta","signature":"c2"}`, `{"type":"signature_delta","signature":"ln"}`)),
			[]llm.Part{llm.Reasoning{Native: native(`{"type":"thinking","thinking":"","signature":"c2ln"}`)}}, llm.StopEnd},
		{"text in two blocks", message(endTurn, at(0, `{"type":"text","text":"a"}`), at(1, `{"type":"text","text":"b"}`)), []llm.Part{llm.Text{Text: "a"}, llm.Text{Text: "b"}}, llm.StopEnd},
		{"blank text", message(callsOut, at(0, `{"type":"text","text":"\n\n"}`), at(1, fmt.Sprintf(look, `{}`))), []llm.Part{call(`{}`)}, llm.StopToolCalls},
		{"a block of a kind to come", message(endTurn, at(0, `{"type":"dream","of":"sheep","n":1e2}`)), []llm.Part{llm.Opaque{Native: *native(`{"type":"dream","of":"sheep","n":1e2}`)}}, llm.StopEnd},
		{"text with more to it", message(endTurn, at(0, `{"type":"text","text":"a","mood":"calm"}`)), []llm.Part{llm.Text{Text: "a", Native: native(`{"type":"text","text":"a","mood":"calm"}`)}}, llm.StopEnd},
		{"an event of a kind to come", events(begin, `{"type":"weather"}`, endTurn, stop), nil, llm.StopEnd},
		{"pause_turn with nothing", message(`{"type":"message_delta","delta":{"stop_reason":"pause_turn"},"usage":{}}`), nil, llm.StopOther},
		{"pause_turn with a call", message(`{"type":"message_delta","delta":{"stop_reason":"pause_turn"},"usage":{}}`, at(0, fmt.Sprintf(look, `{}`))), []llm.Part{call(`{}`)}, llm.StopToolCalls},
		{"stop_sequence", message(`{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"X"},"usage":{}}`, at(0, `{"type":"text","text":"a"}`)), []llm.Part{llm.Text{Text: "a"}}, llm.StopEnd},
		{"window", message(`{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"},"usage":{}}`, at(0, `{"type":"text","text":"a"}`)), []llm.Part{llm.Text{Text: "a"}}, llm.StopLength},
		{"a reason to come", message(`{"type":"message_delta","delta":{"stop_reason":"boredom"},"usage":{}}`), nil, llm.StopOther},
		{"a reason to come, and a call without input", message(`{"type":"message_delta","delta":{"stop_reason":"boredom"},"usage":{}}`, at(0, fmt.Sprintf(look, `{}`)), at(1, fmt.Sprintf(look, `{}`))), []llm.Part{call(`{}`), call(`{}`)}, llm.StopOther},
		{"a reason to come, and a call that is cut off", message(`{"type":"message_delta","delta":{"stop_reason":"boredom"},"usage":{}}`, at(0, fmt.Sprintf(look, `{}`), `{"type":"input_json_delta","partial_json":"{\"n\":"}`)), []llm.Part{call(`"{\"n\":"`)}, llm.StopOther},
		{"a reason to come, and a call of code's", message(`{"type":"message_delta","delta":{"stop_reason":"boredom"},"usage":{}}`, at(0, `{"type":"tool_use","id":"toolu_1","name":"look","input":{},"mood":"calm"}`)),
			[]llm.Part{llm.ToolCall{Name: "look", ProviderID: "toolu_1", Arguments: json.RawMessage(`{}`), Native: native(`{"mood":"calm"}`)}}, llm.StopOther},
		{"no reason", events(begin, stop), nil, llm.StopOther},
		{"lines of Windows", strings.ReplaceAll(message(endTurn, at(0, `{"type":"text","text":"a"}`)), "\n", "\r\n"), []llm.Part{llm.Text{Text: "a"}}, llm.StopEnd},
		{"comments", ": hello\n\n" + message(endTurn, at(0, `{"type":"text","text":"a"}`)), []llm.Part{llm.Text{Text: "a"}}, llm.StopEnd},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, fin := collect(t, (&service{body: c.body}).model(t, Options{}), hello())
			if d := cmp.Diff(c.parts, m.Parts); d != "" || fin.Reason != c.stop {
				t.Errorf("the model stopped for %q, want %q; the message differs (-want +got):\n%s", fin.Reason, c.stop, d)
			}
		})
	}
}

// A message that the API pauses, while a tool of its own works, goes on in
// another; they are one.
func TestPauseTurn(t *testing.T) {
	const (
		paused = `{"type":"message_delta","delta":{"stop_reason":"pause_turn"},"usage":{"output_tokens":5}}`
		look   = `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"a"}}`
		found  = `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}`
		again  = `{"type":"server_tool_use","id":"srvtoolu_2","name":"web_search","input":{"query":"b"}}`
		use    = `{"type":"tool_use","id":"toolu_1","name":"look","input":{"n":1}}`
	)
	says := func(s string) string { return `{"type":"text","text":"` + s + `"}` }
	each := func(blocks ...string) (all [][]string) {
		for i, b := range blocks {
			all = append(all, at(i, b))
		}
		return all
	}
	whole := func(reason string, blocks ...string) string {
		return `{"type":"message","content":[` + strings.Join(blocks, ",") + `],"stop_reason":"` + reason + `","usage":{"input_tokens":3,"output_tokens":5}}`
	}
	for name, s := range map[string]*service{
		"stream": {body: message(paused, each(says("One."), look)...),
			later: []string{message(paused, each(found, says("  "), again)...), message(callsOut, each(says("Two."), use)...)}},
		"whole": {kind: "application/json", body: whole("pause_turn", says("One."), look),
			later: []string{whole("pause_turn", found, says("  "), again), whole("tool_use", says("Two."), use)}},
	} {
		t.Run(name, func(t *testing.T) {
			m, fin := collect(t, s.model(t, Options{Whole: name == "whole"}), hello())
			want := []llm.Part{llm.Text{Text: "One."}, llm.Opaque{Native: *native(look)}, llm.Opaque{Native: *native(found)}, llm.Opaque{Native: *native(again)},
				llm.Text{Text: "Two."}, llm.ToolCall{Name: "look", ProviderID: "toolu_1", Arguments: json.RawMessage(`{"n":1}`)}}
			if d := cmp.Diff(want, m.Parts); d != "" {
				t.Errorf("the message differs (-want +got):\n%s", d)
			}
			if want := (llm.Finish{Reason: llm.StopToolCalls, Word: "tool_use", Usage: llm.Usage{Input: 9, Output: 15}}); fin != want {
				t.Errorf("%+v, want %+v", fin, want)
			}
			if len(s.bodies) != 3 {
				t.Fatalf("%d requests, want 3", len(s.bodies))
			}
			for i, want := range []string{says("One.") + "," + look, says("One.") + "," + look + "," + found + "," + again} {
				if want = `{"content":[` + want + `],"role":"assistant"}]`; !strings.Contains(s.bodies[i+1], want) {
					t.Errorf("request %d doesn't end with %s:\n%s", i+1, want, s.bodies[i+1])
				}
			}
		})
	}
	t.Run("for ever", func(t *testing.T) {
		s := &service{body: message(paused, each(look)...)}
		m, fin := collect(t, s.model(t, Options{}), hello())
		if len(s.bodies) != maxPauses+1 || fin.Reason != llm.StopOther || len(m.Parts) != maxPauses+1 {
			t.Errorf("%d requests, %v, %d parts", len(s.bodies), fin, len(m.Parts))
		}
	})
	t.Run("an error later", func(t *testing.T) {
		s := &service{body: message(paused, each(look)...), later: []string{recorded(t, "error_overloaded.http")}}
		_, _, err := llm.Collect(s.model(t, Options{}).Generate(t.Context(), hello()))
		var e *llm.Error
		if !errors.As(err, &e) || e.Kind != llm.ErrOverloaded {
			t.Errorf("%v, want an error of kind %s", err, llm.ErrOverloaded)
		}
	})
	t.Run("left in between", func(t *testing.T) {
		s := &service{body: message(paused, each(look, look)...)}
		for _, err := range s.model(t, Options{}).Generate(t.Context(), hello()) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if len(s.bodies) != 1 {
			t.Errorf("%d requests, want one", len(s.bodies))
		}
	})
}

// An input that came whole is JSON, but not what it was going to be where the
// message was cut off: at once, and with the beginning of a block of a stream.
func TestWholeInputsThatWereCutOff(t *testing.T) {
	const (
		use    = `{"type":"tool_use","id":"toolu_1","name":"look","input":{"city":"Os"}}`
		signed = `{"type":"tool_use","id":"toolu_1","name":"look","input":{"city":"Os"},"mood":"calm"}`
		pieces = `{"type":"tool_use","id":"toolu_1","name":"look","input":{}}`
		input  = `{"type":"input_json_delta","partial_json":"{\"city\":\"Os\"}"}`
		text   = `{"type":"text","text":"So"}`
	)
	for _, c := range []struct {
		name   string
		blocks []string
		runs   []bool // the calls
	}{
		{"the last of two", []string{use, use}, []bool{true, false}},
		{"the last of two, with more to it", []string{signed, signed}, []bool{true, false}},
		{"before text", []string{use, text}, []bool{false}},
		{"before one in pieces", []string{use, pieces}, []bool{true, true}},
	} {
		for reason, cuts := range map[string]bool{"max_tokens": true, "model_context_window_exceeded": true, "refusal": true, "tool_use": false, "boredom": false} {
			var stream [][]string
			for i, b := range c.blocks {
				if b == pieces {
					stream = append(stream, at(i, b, input))
				} else {
					stream = append(stream, at(i, b))
				}
			}
			s := []*service{{body: message(`{"type":"message_delta","delta":{"stop_reason":"`+reason+`"},"usage":{}}`, stream...)}}
			if !slices.Contains(c.blocks, pieces) {
				s = append(s, &service{kind: "application/json", body: `{"type":"message","content":[` + strings.Join(c.blocks, ",") + `],"stop_reason":"` + reason + `","usage":{}}`})
			}
			for whole, s := range s {
				m, _ := collect(t, s.model(t, Options{Whole: whole == 1}), hello())
				for i, call := range m.ToolCalls() {
					args, err := llm.Arguments(call.Arguments)
					if runs := c.runs[i] || !cuts; (err == nil) != runs || runs && string(args) != `{"city":"Os"}` {
						t.Errorf("%s, %s, whole %v: call %d has the arguments %s, %v", c.name, reason, whole == 1, i, call.Arguments, err)
					}
				}
				if len(m.ToolCalls()) != len(c.runs) {
					t.Errorf("%s, %s: %v", c.name, reason, m.Parts)
				}
			}
		}
	}
}

// Events that make no sense are errors: nothing is guessed.
func TestMalformed(t *testing.T) {
	text := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	use := `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"look","input":{}}}`
	end := `{"type":"content_block_stop","index":0}`
	delta := func(s string) string { return `{"type":"content_block_delta","index":0,"delta":` + s + `}` }
	for name, data := range map[string][]string{
		"no beginning":                {text, end, endTurn, stop},
		"two beginnings":              {begin, begin, stop},
		"a beginning with content":    {strings.Replace(begin, `"content":[]`, `"content":[{"type":"text","text":"a"}]`, 1), stop},
		"only an end":                 {stop},
		"a delta for no block":        {begin, delta(`{"type":"text_delta","text":"a"}`), stop},
		"a delta after the end":       {begin, text, end, delta(`{"type":"text_delta","text":"a"}`), stop},
		"an end for no block":         {begin, end, stop},
		"an end without an index":     {begin, text, `{"type":"content_block_stop"}`, stop},
		"two ends":                    {begin, text, end, end, stop},
		"a block twice":               {begin, text, text, end, stop},
		"a gap":                       {begin, strings.Replace(text, `"index":0`, `"index":1`, 1), stop},
		"a block that doesn't end":    {begin, text, endTurn, stop},
		"no block":                    {begin, `{"type":"content_block_start","index":0}`, end, stop},
		"a block without a type":      {begin, `{"type":"content_block_start","index":0,"content_block":{"text":"a"}}`, end, stop},
		"a use without a name":        {begin, strings.Replace(use, `"name":"look",`, "", 1), end, stop},
		"text for a use":              {begin, use, delta(`{"type":"text_delta","text":"a"}`), end, stop},
		"input for text":              {begin, text, delta(`{"type":"input_json_delta","partial_json":"{"}`), end, stop},
		"a delta of no kind":          {begin, text, delta(`{"dream":"a"}`), end, stop},
		"another message":             {first, strings.Replace(first, "msg_1", "msg_2", 1), text, end, stop},
		"a delta without its text":    {begin, text, delta(`{"type":"text_delta"}`), end, stop},
		"text that is a list":         {begin, text, delta(`{"type":"text_delta","text":["a"]}`), end, stop},
		"a negative index":            {begin, text, `{"type":"content_block_delta","index":-1,"delta":{"type":"text_delta","text":"a"}}`, stop},
		"no JSON":                     {begin, `{"type":"content_block_start",`, stop},
		"JSON that is no object":      {begin, `["type":"content_block_start"]`, stop},
		"a huge index, and no memory": {begin, strings.Replace(text, `"index":0`, `"index":9223372036854775807`, 1), stop},
	} {
		t.Run(name, func(t *testing.T) {
			_, fin, err := llm.Collect((&service{body: events(data...)}).model(t, Options{}).Generate(t.Context(), hello()))
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind != llm.ErrMalformed || e.Provider != "anthropic" {
				t.Errorf("%v, %v, want an error of kind %s", fin, err, llm.ErrMalformed)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		start, delta string
		want         llm.Usage
	}{
		"the end counts all":     {`{"input_tokens":1,"cache_read_input_tokens":2,"cache_creation_input_tokens":4,"output_tokens":1}`, `{"input_tokens":8,"cache_read_input_tokens":16,"cache_creation_input_tokens":32,"output_tokens":64,"output_tokens_details":{"thinking_tokens":7}}`, llm.Usage{Input: 56, Cached: 16, Written: 32, Output: 64, Reasoning: 7}},
		"the end counts output":  {`{"input_tokens":1,"cache_read_input_tokens":2,"cache_creation_input_tokens":4,"output_tokens":1}`, `{"output_tokens":64}`, llm.Usage{Input: 7, Cached: 2, Written: 4, Output: 64}},
		"null counts nothing":    {`{"input_tokens":1,"output_tokens":1}`, `{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":2,"output_tokens_details":null}`, llm.Usage{Input: 1, Output: 2}},
		"zeros wipe out nothing": {`{"input_tokens":3,"cache_read_input_tokens":2,"cache_creation_input_tokens":4,"output_tokens":1}`, `{"input_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":5}`, llm.Usage{Input: 9, Cached: 2, Written: 4, Output: 5}},
		"no counts":              {`null`, `null`, llm.Usage{}},
		"counts of nonsense":     {`{"input_tokens":"many"}`, `{"output_tokens":-5}`, llm.Usage{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{body: events(`{"type":"message_start","message":{"type":"message","content":[],"usage":`+c.start+`}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":`+c.delta+`}`, stop)}
			if _, fin := collect(t, s.model(t, Options{}), hello()); fin.Usage != c.want {
				t.Errorf("%+v, want %+v", fin.Usage, c.want)
			}
		})
	}
}

// A model may be asked by many at once.
func TestMany(t *testing.T) {
	body := recorded(t, "parallel.stream.http")
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return (&service{body: body}).RoundTrip(r)
	})}
	m, err := New(Options{Model: "m", APIKey: "sk-test", Client: client})
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			msg, _, err := llm.Collect(m.Generate(t.Context(), hello()))
			if err != nil || len(msg.ToolCalls()) != 3 {
				t.Errorf("%v, %v", msg, err)
			}
		})
	}
	wait.Wait()
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// FuzzStream reads any body as a stream: no panic, and exactly one end.
func FuzzStream(f *testing.F) {
	for _, name := range []string{"text", "reasoning", "parallel", "error_midstream"} {
		_, body, _ := strings.Cut(recorded(f, name+".stream.http"), "\n\n")
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if strings.HasPrefix(body, "HTTP/") {
			return
		}
		ends := 0
		for e, err := range (&service{body: body}).model(t, Options{}).Generate(t.Context(), hello()) {
			if ends > 0 {
				t.Fatalf("after the end, %v, %v", e, err)
			}
			if _, ok := e.(llm.Finish); ok || err != nil {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("%d ends", ends)
		}
	})
}
