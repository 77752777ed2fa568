package openai

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// parts returns a message's parts in short, native forms included.
func parts(m llm.Message) string {
	var all []string
	add := func(kind, text string, n *llm.Native) {
		s := kind + " " + text
		if n != nil {
			s += " " + string(n.Data)
		}
		all = append(all, s)
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.Text:
			add("text", p.Text, p.Native)
		case llm.Reasoning:
			add("reasoning", p.Text, p.Native)
		case llm.ToolCall:
			add("call", p.Name+" "+string(p.Arguments), p.Native)
		default:
			add(fmt.Sprintf("%T", p), "", nil)
		}
	}
	return strings.Join(all, "\n")
}

func TestReasoningOfManyServers(t *testing.T) {
	const call = `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`
	for _, c := range []struct {
		name   string
		deltas []string
		want   string
	}{
		{"DeepSeek", []string{`{"content":null,"reasoning_content":"Look"}`, `{"content":"","reasoning_content":" up"}`, `{"content":"Done.","reasoning_content":null}`},
			`reasoning Look up {"reasoning_content":"Look up"}` + "\ntext Done."},
		{"Ollama, before a call", []string{`{"content":"","reasoning":"Look"}`, `{"content":"","reasoning":" up"}`, call},
			`reasoning Look up {"reasoning":"Look up"}` + "\ncall f {}"},
		{"both fields at once", []string{`{"reasoning_content":"Look","reasoning":"Look"}`, `{"content":"Done."}`},
			`reasoning Look {"reasoning":"Look","reasoning_content":"Look"}` + "\ntext Done."},
		{"details alone", []string{`{"reasoning_details":[{"type":"reasoning.summary","summary":"Lo","index":0,"id":null}]}`,
			`{"reasoning_details":[{"type":"reasoning.summary","summary":"ok","index":0}]}`, `{"content":"Done."}`},
			`reasoning Look {"reasoning_details":[{"id":null,"index":0,"summary":"Look","type":"reasoning.summary"}]}` + "\ntext Done."},
		{"details of two thoughts, and one that is locked", []string{
			`{"reasoning":"A","reasoning_details":[{"type":"reasoning.text","text":"A","index":0}]}`,
			`{"reasoning_details":[{"type":"reasoning.text","signature":"s1+/=<&>","index":0}]}`,
			`{"reasoning":"B","reasoning_details":[{"type":"reasoning.text","text":"B","index":1},{"type":"reasoning.encrypted","data":"x","index":2}]}`,
			`{"reasoning_details":[{"type":"reasoning.encrypted","data":"y","index":2},null]}`, call},
			`reasoning AB {"reasoning":"AB","reasoning_details":[{"index":0,"signature":"s1+/=<&>","text":"A","type":"reasoning.text"},` +
				`{"type":"reasoning.text","text":"B","index":1},{"type":"reasoning.encrypted","data":"x","index":2},{"type":"reasoning.encrypted","data":"y","index":2}]}` + "\ncall f {}"},
		{"thoughts between texts", []string{`{"reasoning":"A"}`, `{"content":"a"}`, `{"reasoning":"B"}`, `{"content":"b"}`},
			`reasoning A {"reasoning":"A"}` + "\ntext a\n" + `reasoning B {"reasoning":"B"}` + "\ntext b"},
		{"white space in place of a thought", []string{`{"reasoning_content":"\n\n"}`, `{"content":"Done."}`}, "text Done."},
		{"a thought alone", []string{`{"reasoning_content":"Hm."}`}, `reasoning Hm. {"reasoning_content":"Hm."}`},
		{"Mistral", []string{`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Lo"}]}]}`,
			`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"ok"}]}]}`, `{"content":"Do"}`, `{"content":[{"type":"text","text":"ne."}]}`},
			`reasoning Look {"content":[{"thinking":[{"text":"Look","type":"text"}],"type":"thinking"}]}` + "\ntext Done."},
		{"Google's signature of a call", []string{
			`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"n\":1}"},"extra_content":{"google":{"thought_signature":"c2ln<>"}}}]}`},
			`call f {"n":1} {"extra_content":{"google":{"thought_signature":"c2ln<>"}}}`},
		{"a signature without an id, of two calls", []string{
			`{"tool_calls":[{"function":{"name":"f","arguments":"{}"},"extra_content":{"s":1}}]}`, `{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}`},
			`call f {} {"extra_content":{"s":1}}` + "\ncall f {}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newChatServer(t, pieces("stop", c.deltas...))
			for _, strict := range []bool{false, true} {
				model := s.model(t, Options{Strict: strict})
				m, _, err := ask(t, model, llm.Request{})
				if err != nil || parts(m) != c.want {
					t.Fatalf("strict %v: %v\n%s", strict, err, parts(m))
				}
				for _, p := range m.Parts {
					if r, ok := p.(llm.Reasoning); ok && r.Native.Provider != "openai.chat/"+strings.TrimPrefix(s.URL, "http://") {
						t.Errorf("it belongs to %s", r.Native.Provider)
					}
				}
			}
		})
	}
}

// What a server thought aloud goes back to it in the fields that it used, and
// to no other server.
func TestReasoningGoesBackToItsServer(t *testing.T) {
	s := newChatServer(t, pieces("stop", `{"reasoning":"A","reasoning_details":[{"type":"reasoning.text","text":"A","signature":"s+/=","index":0}]}`, `{"content":"a"}`,
		`{"reasoning":"B","reasoning_details":[{"type":"reasoning.encrypted","data":"d","index":1}]}`,
		`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"},"extra_content":{"s":"x"}}]}`))
	m, _, err := ask(t, s.model(t, Options{}), llm.Request{})
	if err != nil {
		t.Fatal(err)
	}
	r := llm.Request{Messages: []llm.Message{llm.UserText("hello"), m, {Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Output: []byte(`1`)}}}}}
	if _, _, err := ask(t, s.model(t, Options{}), r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"reasoning":"AB"`, `"content":"a"`, `"extra_content":{"s":"x"}`,
		`"reasoning_details":[{"type":"reasoning.text","text":"A","signature":"s+/=","index":0},{"type":"reasoning.encrypted","data":"d","index":1}]`} {
		if !strings.Contains(s.last(), want) {
			t.Errorf("the next request lacks %s: %s", want, s.last())
		}
	}
	other := newChatServer(t, pieces("stop", `{"content":"a"}`))
	if _, _, err := ask(t, other.model(t, Options{}), r); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(other.last(), "reasoning") || strings.Contains(other.last(), "extra_content") {
		t.Errorf("another server was sent %s", other.last())
	}
}

func TestUsageOfManyServers(t *testing.T) {
	for _, c := range []struct {
		name, usage string
		want        llm.Usage
	}{
		{"OpenAI", `{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":10}}`,
			llm.Usage{Input: 100, Output: 30, Cached: 60, Reasoning: 10}},
		{"xAI, whose completion has no reasoning in it", `{"prompt_tokens":32,"completion_tokens":9,"total_tokens":256,"completion_tokens_details":{"reasoning_tokens":215}}`,
			llm.Usage{Input: 32, Output: 224, Reasoning: 215}},
		{"DeepSeek", `{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}`, llm.Usage{Input: 100, Output: 30, Cached: 64}},
		{"Moonshot", `{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"cached_tokens":50}`, llm.Usage{Input: 100, Output: 30, Cached: 50}},
		{"a prediction, and what was written to the cache", `{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":20},` +
			`"completion_tokens_details":{"accepted_prediction_tokens":5,"rejected_prediction_tokens":3}}`, llm.Usage{Input: 100, Output: 30, Cached: 10, Written: 20, Predicted: 8}},
		{"LiteLLM", `{"prompt_tokens":100,"completion_tokens":30,"cache_creation_input_tokens":20}`, llm.Usage{Input: 100, Output: 30, Written: 20}},
		{"no total", `{"prompt_tokens":100,"completion_tokens":30}`, llm.Usage{Input: 100, Output: 30}},
		{"numbers with a fraction", `{"prompt_tokens":100.0,"completion_tokens":"30"}`, llm.Usage{Input: 100, Output: 30}},
		{"null", `null`, llm.Usage{}},
		{"no object", `"none"`, llm.Usage{}},
	} {
		for where, chunk := range map[string]string{
			"its own chunk": `{"choices":[],"usage":%s}`, "the choice": `{"choices":[{"index":0,"delta":{},"usage":%s}]}`,
			"beside the end": `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":%s}`,
		} {
			s := newChatServer(t, streamed(`{"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}],"usage":null}`, fmt.Sprintf(chunk, c.usage), "[DONE]"))
			if _, fin, err := ask(t, s.model(t, Options{}), llm.Request{}); err != nil || fin.Usage != c.want {
				t.Errorf("%s, in %s: %v, %+v, want %+v", c.name, where, err, fin.Usage, c.want)
			}
		}
	}
}

// Zeros at the end don't wipe out what was told before.
func TestUsageIsNotWipedOut(t *testing.T) {
	s := newChatServer(t, streamed(`{"choices":[{"index":0,"delta":{"content":"ok"}}],"usage":{"prompt_tokens":100,"completion_tokens":1}}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":30}}`, `{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`, "[DONE]"))
	if _, fin, err := ask(t, s.model(t, Options{}), llm.Request{}); err != nil || (fin.Usage != llm.Usage{Input: 100, Output: 30}) {
		t.Errorf("%v, %+v", err, fin)
	}
}

func TestWhyTheModelStopped(t *testing.T) {
	const (
		text    = `{"content":"a"}`
		call    = `{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`
		refusal = `{"refusal":"I can't."}`
	)
	for _, c := range []struct {
		finish, delta string
		want          llm.StopReason
		kind          llm.ErrorKind
	}{
		{"stop", text, llm.StopEnd, ""},
		{"stop", call, llm.StopToolCalls, ""},
		{"stop", refusal, llm.StopRefusal, ""},
		{"tool_calls", call, llm.StopToolCalls, ""},
		{"tool_calls", `{"refusal":"I can't.",` + call[1:], llm.StopRefusal, ""},
		{"length", `{"refusal":"I can't.",` + call[1:], llm.StopRefusal, ""},
		{"eos", `{"refusal":"I can't.",` + call[1:], llm.StopRefusal, ""},
		{"error", refusal, "", llm.ErrOverloaded},
		{"function_call", call, llm.StopToolCalls, ""},
		{"tool_calls", text, "", llm.ErrTruncated}, // the call was lost: tried again
		{"STOP", text, llm.StopEnd, ""},
		{"Stop", call, llm.StopToolCalls, ""},
		{"TOOL_CALLS", call, llm.StopToolCalls, ""},
		{"Tool_Calls", text, "", llm.ErrTruncated},
		{"MAX_TOKENS", text, llm.StopLength, ""},
		{"Length", call, llm.StopLength, ""},
		{"model_length", call, llm.StopLength, ""},
		{"SAFETY", text, llm.StopRefusal, ""},
		{"CONTENT_FILTER", call, llm.StopRefusal, ""},
		{"Error", text, "", llm.ErrOverloaded},
		{"length", text, llm.StopLength, ""},
		{"length", call, llm.StopLength, ""},
		{"content_filter", text, llm.StopRefusal, ""},
		{"content_filter", call, llm.StopRefusal, ""},
		{"eos", text, llm.StopOther, ""},
		{"Dreaming", call, llm.StopOther, ""},
		{"error", text, "", llm.ErrOverloaded},
		{"insufficient_system_resource", call, "", llm.ErrOverloaded},
	} {
		for _, whole := range []bool{false, true} {
			answer := pieces(c.finish, c.delta)
			if whole {
				answer = wholly(fmt.Sprintf(`{"choices":[{"index":0,"message":%s,"finish_reason":%q}]}`, c.delta, c.finish))
			}
			_, fin, err := ask(t, newChatServer(t, answer).model(t, Options{Whole: whole}), llm.Request{})
			if fin.Reason != c.want || kind(err) != c.kind || err == nil && fin.Word != c.finish {
				t.Errorf("%s with %s, whole %v: %q, %v", c.finish, c.delta, whole, fin.Reason, err)
			}
		}
	}
}

// An answer counts only as a whole, and what makes no sense is an error.
func TestAnswersThatAreNone(t *testing.T) {
	const (
		text = `{"choices":[{"index":0,"delta":{"content":"It is"},"finish_reason":null}]}`
		end  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	)
	for _, c := range []struct {
		name string
		body string
		want llm.ErrorKind // "": it counts
		says string
	}{
		{"whole", "data: " + text + "\n\ndata: " + end + "\n\ndata: [DONE]\n\n", "", ""},
		{"lines that end as in Windows", "data: " + text + "\r\n\r\ndata: " + end + "\r\n\r\ndata: [DONE]\r\n\r\n", "", ""},
		{"no empty line at the end", "data: " + text + "\n\ndata: " + end + "\n\ndata: [DONE]", "", ""},
		{"no space after the colon", "data:" + text + "\n\ndata:" + end + "\n\ndata:[DONE]\n\n", "", ""},
		{"comments, pings and ids", ": hello\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\nid: 1\nretry: 5\ndata: " + text + "\n\ndata:\n\ndata: " + end + "\n\ndata: [DONE]\n\n", "", ""},
		{"a mark at the beginning", "\uFEFF\n: x\n\ndata: " + text + "\n\ndata: " + end + "\n\ndata: [DONE]\n\n", "", ""},
		{"more after the end", "data: " + text + "\n\ndata: " + end + "\n\ndata: [DONE]\n\ndata: garbage\n\n", "", ""},
		{"an error that is null in each chunk", "data: " + strings.Replace(text, "{", `{"error":null,`, 1) + "\n\ndata: " + end + "\n\ndata: [DONE]\n\n", "", ""},
		{"Azure's first chunk", `data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}` + "\n\ndata: " + text + "\n\ndata: " + end + "\n\ndata: [DONE]\n\n", "", ""},
		{"text after the finish_reason", "data: " + end + "\n\ndata: " + text + "\n\ndata: [DONE]\n\n", "", ""},
		{"no [DONE]", "data: " + text + "\n\ndata: " + end + "\n\n", "", ""},
		{"no [DONE], and no end of the line", "data: " + text + "\n\ndata: " + end, "", ""},
		{"no finish_reason", "data: " + text + "\n\ndata: [DONE]\n\n", "", ""},
		{"a finish_reason that is empty", "data: " + strings.Replace(text, "null", `""`, 1) + "\n\ndata: [DONE]\n\n", "", ""},
		{"data that is null", "data: null\n\ndata: " + text + "\n\ndata: null\n\ndata: " + end + "\n\ndata: [DONE]\n\n", "", ""},
		{"choices that are null", `data: {"id":"x","choices":null}` + "\n\ndata: " + text + "\n\n" + `data: {"choices":null,"usage":null}` + "\n\ndata: " + end + "\n\ndata: [DONE]\n\n", "", ""},
		{"a chunk without choices", `data: {"object":"chat.completion.chunk"}` + "\n\ndata: " + text + "\n\ndata: " + end + "\n\ndata: [DONE]\n\n", "", ""},
		{"a choice and a delta that are null", `data: {"choices":[null,{"delta":null}]}` + "\n\ndata: " + text + "\n\ndata: " + end + "\n\ndata: [DONE]\n\n", "", ""},
		{"all that has come so far beside each piece, as at Perplexity", `data: {"choices":[{"index":0,"delta":{"content":"It"},"message":{"content":"It"},"finish_reason":null}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"content":" is"},"message":{"content":"It is"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n", "", ""},
		{"the message whole, in a stream", `data: {"choices":[{"index":0,"message":{"content":"It is"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n", "", ""},
		{"a whole message beside a delta", `{"choices":[{"index":0,"delta":{},"message":{"content":"It is"},"finish_reason":"stop"}]}`, "", ""},
		{"an empty function_call in each chunk", "data: " + strings.Replace(text, `"content"`, `"function_call":{},"content"`, 1) + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"function_call":{"name":"","arguments":null},"tool_calls":[null,{}]},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n", "", ""},
		{"a whole message without a reason", `{"choices":[{"index":0,"message":{"role":"assistant","content":"It is"}}]}`, "", ""},
		{"a whole message in place of a stream", `{"choices":[{"index":0,"message":{"role":"assistant","content":"It is"},"finish_reason":"stop"}]}`, "", ""},

		{"nothing", "", llm.ErrTruncated, "empty"},
		{"white space", "\n\n", llm.ErrTruncated, "empty"},
		{"neither finish_reason nor [DONE]", "data: " + text + "\n\n", llm.ErrTruncated, "[DONE]"},
		{"[DONE] alone", "data: [DONE]\n\n", llm.ErrTruncated, "finish_reason"},
		{"half of [DONE]", "data: " + text + "\n\ndata: " + end + "\n\ndata: [DON", llm.ErrTruncated, "within an event"},
		{"half of a chunk", "data: " + text + "\n\ndata: " + end[:20], llm.ErrTruncated, "within an event"},
		{"an error", "data: " + text + "\n\ndata: {\"error\":{\"message\":\"The server is overloaded\",\"type\":\"server_error\"}}\n\n", llm.ErrOverloaded, "The server is overloaded"},
		{"an error as text", "data: {\"error\":\"out of memory\"}\n\n", llm.ErrOverloaded, "out of memory"},
		{"vLLM's error", `data: {"object":"error","message":"maximum context length is 10","type":"BadRequestError","code":400}` + "\n\n", llm.ErrContextTooLong, "maximum context"},
		{"an error event", "event: error\ndata: {\"message\":\"rate limit\",\"code\":429}\n\n", llm.ErrRateLimited, "rate limit"},
		{"an error event of text", "event: error\ndata: it broke\n\n", llm.ErrOverloaded, "it broke"},
		{"an error with the answer's status", `{"error":{"message":"no credit","code":402}}`, llm.ErrAuth, "no credit"},
		{"Groq's, of what the model wrote", "data: " + text + "\n\nevent: error\ndata: " + `{"error":{"message":"Failed to call a function","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=f>","status_code":400}}` + "\n\n", llm.ErrTruncated, "Failed to call a function: <function=f>"},
		{"an error of the request's", `data: {"error":{"message":"bad tool","type":"invalid_request_error"}}` + "\n\n", llm.ErrInvalid, "bad tool"},
		{"HTML", "<html><body>Welcome</body></html>", llm.ErrOverloaded, "base URL right? It begins: <html>"},
		{"a whole message that is no JSON", "{Service unavailable}", llm.ErrOverloaded, "It begins: {Service unavailable}"},
		{"text", "Hello there", llm.ErrOverloaded, "It begins: Hello there"},
		{"text that begins like a field", "error code: 502", llm.ErrTruncated, "[DONE]"},
		{"no JSON", "data: {\"choices\":x}\n\ndata: [DONE]\n\n", llm.ErrMalformed, "invalid character"},
		{"no chunk", "data: {\"hello\":1}\n\ndata: [DONE]\n\n", llm.ErrMalformed, "no chat completion chunk"},
		{"a list", "data: [1]\n\n", llm.ErrMalformed, "[1]"},
		{"a second choice", `data: {"choices":[{"index":1,"delta":{"content":"a"}}]}` + "\n\n", llm.ErrMalformed, "index 1"},
		{"content that is a number", `data: {"choices":[{"index":0,"delta":{"content":7}}]}` + "\n\n", llm.ErrMalformed, "number"},
		{"a delta that is text", `data: {"choices":[{"index":0,"delta":"a"}]}` + "\n\n", llm.ErrMalformed, "delta"},
		{"half of a message", `{"choices":[{"index":0,"mess`, llm.ErrTruncated, "in the middle"},
		{"a message without choices", `{"id":"x"}`, llm.ErrMalformed, "no choices"},
		{"a choice without a message", `{"choices":[{"index":0,"finish_reason":"stop"}]}`, llm.ErrMalformed, "no message"},
		{"a line that is too long", "data: " + strings.Repeat("x", 33<<20), llm.ErrMalformed, "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newChatServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Request-Id", "req_1")
				_, _ = io.WriteString(w, c.body)
			})
			for _, whole := range []bool{false, true} { // whatever was asked for, what comes counts
				m, fin, err := ask(t, s.model(t, Options{Whole: whole}), llm.Request{})
				switch {
				case c.want == "" && (err != nil || m.Text() != "It is" || fin.Reason != llm.StopEnd):
					t.Errorf("%v, %v, %v", m, fin, err)
				case c.want != "" && (kind(err) != c.want || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "(request req_1)") || len(err.Error()) > 1000):
					t.Errorf("%v, want %s: %s", err, c.want, c.says)
				}
			}
		})
	}
}

// The text that came before an error is seen, and the error tells the request.
func TestAnErrorInTheMiddleOfAStream(t *testing.T) {
	for _, folder := range []string{"chat", "openrouter"} {
		recorded, err := os.ReadFile("testdata/" + folder + "/replies/error_midstream.stream.http")
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(recorded), "\n\n")
		s := newChatServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", "req_fermata_1")
			_, _ = io.WriteString(w, body)
		})
		m, _, err := ask(t, s.model(t, Options{}), llm.Request{})
		if kind(err) != llm.ErrOverloaded || !strings.HasPrefix(m.Text(), "It is") || !strings.Contains(err.Error(), "req_fermata_1") {
			t.Errorf("%s: %q, %v", folder, m.Text(), err)
		}
	}
}

func TestStrictArgumentsComeWholeAndWithoutNulls(t *testing.T) {
	s := newChatServer(t, pieces("tool_calls",
		`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"must\":null,\"n\":900719925"}}]}`,
		`{"tool_calls":[{"index":1,"id":"b","function":{"name":"f","arguments":"{\"must\":1,\"may"}}]}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":"4740993,\"may\":null}"}}]}`))
	tools := []llm.ToolDef{{Name: "f", Input: []byte(`{"type":"object","properties":{"must":{"type":["integer","null"]},"n":{"type":"integer"},"may":{"type":"string"}},"required":["must"]}`)}}
	r := llm.Request{Messages: []llm.Message{llm.UserText("x")}, Tools: tools}
	for e, err := range s.model(t, Options{Strict: true}).Generate(context.Background(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := e.(llm.ToolCallDelta); ok && d.Arguments != "" && d.Arguments[0] == '9' {
			t.Errorf("a piece of arguments: %q", d.Arguments)
		}
	}
	m, _, err := ask(t, s.model(t, Options{Strict: true}), r)
	if err != nil {
		t.Fatal(err)
	}
	all := m.ToolCalls()
	if string(all[0].Arguments) != `{"must":null,"n":9007199254740993}` {
		t.Errorf("%s", all[0].Arguments)
	}
	if _, err := llm.Arguments(all[1].Arguments); err == nil {
		t.Errorf("cut arguments were taken for %s", all[1].Arguments)
	}
	if !strings.Contains(s.last(), `"strict":true`) || !strings.Contains(s.last(), `"required":["must","n","may"]`) {
		t.Error(s.last())
	}
}
