package gemini

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// wireContents returns the conversation as it would be sent to a model.
func wireContents(t *testing.T, model string, messages ...llm.Message) string {
	t.Helper()
	m := &Model{options: Options{Model: model}}
	contents, err := m.contents(messages)
	if err != nil {
		t.Fatal(err)
	}
	return string(contents)
}

func assistant(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Parts: parts}
}
func results(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.RoleTool, Parts: parts} }

func foreign(id, theirs string) llm.ToolCall {
	return llm.ToolCall{ID: id, ProviderID: theirs, Name: "f", Arguments: json.RawMessage(`{"n":9007199254740993}`), Native: &llm.Native{Provider: "another", Data: json.RawMessage(`{}`)}}
}

func result(id, output string) llm.ToolResult {
	return llm.ToolResult{Call: id, Name: "f", Output: json.RawMessage(output)}
}

// Gemini 3 refuses the calls of the turn under way without a signature;
// elsewhere nothing is made up.
func TestCallsOfAnotherProvider(t *testing.T) {
	history := []llm.Message{
		llm.UserText("a"), assistant(foreign("c1", "x")), results(result("c1", `1`)), assistant(llm.Text{Text: "b"}),
		llm.UserText("c"), assistant(llm.Text{Text: "d"}, foreign("c2", "x"), foreign("c3", "y")), results(result("c2", `2`), result("c3", `3`)),
		assistant(foreign("c4", "")), results(result("c4", `4`)),
	}
	const c1 = `{"functionCall":{"id":"x","name":"f","args":{"n":9007199254740993}}}`
	for model, want := range map[string][]string{
		"gemini-3-flash":             {"", "c2", "c4"},
		"models/gemini-3.1-pro":      {"", "c2", "c4"},
		"gemini-flash-latest":        {"", "c2", "c4"},
		"gemini-2.5-flash":           nil,
		"gemini-robotics-er-1.5":     nil,
		"tunedModels/mine":           nil,
		"gemma-3-27b-it":             nil,
		"models/gemini-2.0-flash-01": nil,
	} {
		got := wireContents(t, model, history...)
		if !strings.Contains(got, c1) {
			t.Errorf("%s: a call of an earlier turn is signed: %s", model, got)
		}
		signed := strings.Count(got, `"thoughtSignature":"skip_thought_signature_validator"}`)
		if want == nil && signed != 0 || want != nil && signed != 2 {
			t.Errorf("%s: %d calls are signed: %s", model, signed, got)
		}
		for _, part := range []string{
			`{"functionCall":{"id":"c2","name":"f","args":{"n":9007199254740993}}`, // "x" is taken
			// Parallel: the first one alone is signed.
			`{"functionCall":{"id":"y","name":"f","args":{"n":9007199254740993}}}`,
			`{"functionCall":{"name":"f","args":{"n":9007199254740993}}`,
			`{"functionResponse":{"id":"c2","name":"f","response":{"output":2}}},{"functionResponse":{"id":"y","name":"f","response":{"output":3}}}`,
			`{"functionResponse":{"name":"f","response":{"output":4}}}`,
		} {
			if !strings.Contains(got, part) {
				t.Errorf("%s: contents don't hold %s: %s", model, part, got)
			}
		}
	}
}

// What Gemini made goes back as it was, the id of its calls included; its
// signature isn't written over.
func TestItsOwnCallsGoBackAsTheyWere(t *testing.T) {
	const raw = `{"functionCall":{"name":"f","args":{"n":18446744073709551615,"s":"\u003c"},"id":"x","new":1},"thoughtSignature":"YS8rPT0="}`
	own := llm.ToolCall{ID: "c1", ProviderID: "x", Name: "f", Arguments: json.RawMessage(`{"n":18446744073709551615,"s":"\u003c"}`), Native: &llm.Native{Provider: provider, Data: json.RawMessage(raw)}}
	again := own
	again.ID = "c2"
	got := wireContents(t, "gemini-3-flash", llm.UserText("a"), assistant(own), results(result("c1", `1`)), assistant(again), results(result("c2", `2`)))
	want := `[{"role":"user","parts":[{"text":"a"}]},` +
		`{"role":"model","parts":[` + raw + `]},{"role":"user","parts":[{"functionResponse":{"id":"x","name":"f","response":{"output":1}}}]},` +
		`{"role":"model","parts":[` + raw + `]},{"role":"user","parts":[{"functionResponse":{"id":"x","name":"f","response":{"output":2}}}]}]`
	if got != want {
		t.Errorf("contents are\n%s\nwant\n%s", got, want)
	}
}

// A call that Gemini 2.5 didn't sign, in a session that goes on with Gemini 3.
func TestAnUnsignedCallOfItsOwn(t *testing.T) {
	own := llm.ToolCall{ID: "c1", Name: "f", Arguments: json.RawMessage(`{}`), Native: &llm.Native{Provider: provider, Data: json.RawMessage(`{"functionCall":{"name":"f"}, "new":1 }`)}}
	got := wireContents(t, "gemini-3-flash", llm.UserText("a"), assistant(own), results(result("c1", `1`)))
	if want := `{"functionCall":{"name":"f"},"new":1,"thoughtSignature":"skip_thought_signature_validator"}`; !strings.Contains(got, want) {
		t.Errorf("contents are %s", got)
	}
}

func TestResultsStandInTheOrderOfTheirCalls(t *testing.T) {
	got := wireContents(t, "gemini-2.5-flash", assistant(foreign("c1", ""), foreign("c2", ""), foreign("c3", "")),
		results(result("c3", `3`)), results(result("c2", `2`), result("c1", `1`)))
	// Those of one message are put in order; messages of results, one after the
	// other, become one content.
	if want := `{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":3}}},{"functionResponse":{"name":"f","response":{"output":1}}},{"functionResponse":{"name":"f","response":{"output":2}}}]}`; !strings.Contains(got, want) {
		t.Errorf("contents are %s", got)
	}
}

// The API refuses a call that follows the model's own words in another content.
func TestTheModelsMessagesInARowAreOne(t *testing.T) {
	got := wireContents(t, "gemini-3-flash", llm.UserText("a"), assistant(llm.Text{Text: "b"}), assistant(), assistant(foreign("c1", "x")), results(result("c1", `1`)))
	want := `[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"},{"functionCall":{"id":"x","name":"f","args":{"n":9007199254740993}},"thoughtSignature":"skip_thought_signature_validator"}]},` +
		`{"role":"user","parts":[{"functionResponse":{"id":"x","name":"f","response":{"output":1}}}]}]`
	if got != want {
		t.Errorf("contents are\n%s\nwant\n%s", got, want)
	}
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		result llm.ToolResult
		want   string
	}{
		{result("c", `{"a":1}`), `{"output":{"a":1}}`},
		{result("c", `"it's"`), `{"output":"it's"}`},
		{result("c", `null`), `{"output":null}`},
		{result("c", ``), `{"output":null}`},
		{llm.ToolResult{Call: "c", Output: json.RawMessage(`"no such city"`), Error: true}, `{"error":"no such city"}`},
		{result("c", `{"$ref":"#/a"}`), `{"output":"{\"$ref\":\"#/a\"}"}`},
		{result("c", `{"$ref":1e400}`), `{"output":"{\"$ref\":1e400}"}`},
		{result("c", `[{"a":{"\u0024ref":1}}]`), `{"output":"[{\"a\":{\"\\u0024ref\":1}}]"}`},
		{result("c", `{"a":"$ref","ref":1}`), `{"output":{"a":"$ref","ref":1}}`},
		{result("c", `{"$defs":{}}`), `{"output":{"$defs":{}}}`},
	} {
		got, err := response(c.result)
		if err != nil || string(got) != c.want {
			t.Errorf("%s becomes %s, %v; want %s", c.result.Output, got, err, c.want)
		}
	}
}

func TestMediaInResults(t *testing.T) {
	r := result("c1", `1`)
	r.Media = []llm.Media{{MediaType: "image/png", Data: []byte("p")}, {MediaType: "audio/wav", Data: []byte("w")}, {MediaType: "image/png", URL: "https://x/y"}}
	history := []llm.Message{llm.UserText("a"), assistant(foreign("c1", "x"), foreign("c2", "y")), results(r, result("c2", `2`))}
	const png, wav, url = `{"inlineData":{"data":"cA==","mimeType":"image/png"}}`, `{"inlineData":{"data":"dw==","mimeType":"audio/wav"}}`, `{"fileData":{"fileUri":"https://x/y","mimeType":"image/png"}}`
	const second = `{"functionResponse":{"id":"y","name":"f","response":{"output":2}}}`
	for model, want := range map[string]string{
		"gemini-3-flash":   `{"functionResponse":{"id":"x","name":"f","response":{"output":1},"parts":[` + png + `]}},` + wav + `,` + url + `,` + second,
		"gemini-2.5-flash": `{"functionResponse":{"id":"x","name":"f","response":{"output":1}}},` + png + `,` + wav + `,` + url + `,` + second,
	} {
		if got := wireContents(t, model, history...); !strings.Contains(got, `{"role":"user","parts":[`+want+`]}`) {
			t.Errorf("%s: contents are %s\nwant %s", model, got, want)
		}
	}
}

// What can't be sent is told, and never left out.
func TestRequestsThatCannotBeSent(t *testing.T) {
	user := func(p llm.Part) llm.Request {
		return llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{p}}}}
	}
	hi := []llm.Message{llm.UserText("a")}
	for _, c := range []struct {
		req  llm.Request
		want string
	}{
		{llm.Request{}, "no message with anything in it"},
		{llm.Request{Messages: []llm.Message{llm.UserText("")}}, "no message with anything in it"},
		{llm.Request{Messages: []llm.Message{{Role: "system", Parts: []llm.Part{llm.Text{Text: "a"}}}}}, `messages[0]: the role is "system"`},
		{user(nil), "messages[0]: parts[0]"},
		{user(result("c", `1`)), "messages[0]: parts[0]: llm.ToolResult"},
		{user(llm.ToolCall{}), "messages[0]: parts[0]: a tool call"},
		{user(llm.Media{MediaType: "image/png"}), "neither bytes nor a URL"},
		{user(llm.Media{Data: []byte("a")}), "media type"},
		{user(llm.Media{MediaType: "image/png", URL: "data:image/png;base64,"}), "data: URL"},
		{user(llm.Text{Native: &llm.Native{Provider: provider, Data: json.RawMessage(`[`)}}), "no JSON object"},
		{llm.Request{Messages: []llm.Message{results(llm.Text{Text: "a"})}}, "llm.Text doesn't belong"},
		{llm.Request{Messages: []llm.Message{results(result("c", `{`))}}, "no JSON"},
		{llm.Request{Messages: hi, Limits: llm.Limits{OutputTokens: -1}}, "OutputTokens is -1"},
		{llm.Request{Messages: hi, Limits: llm.Limits{OutputTokens: math.MaxInt32 + 1}}, "OutputTokens"},
		{llm.Request{Messages: hi, ToolChoice: llm.ToolChoice{Mode: llm.ToolAny}}, "Request.Tools is empty"},
		{llm.Request{Messages: hi, ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "f"}}, `"f"`},
		{llm.Request{Messages: hi, ToolChoice: llm.ToolChoice{Mode: "perhaps"}}, `"perhaps"`},
		{llm.Request{Messages: hi, ResponseFormat: llm.ResponseFormat{Schema: json.RawMessage(`[]`)}}, "Request.ResponseFormat"},
		{llm.Request{Messages: hi, Tools: []llm.ToolDef{{Name: "two words"}}}, `tool "two words"`},
		{llm.Request{Messages: hi, Tools: []llm.ToolDef{{Name: "f", Input: json.RawMessage(`{"type":"string"}`)}}}, `tool "f"`},
	} {
		s := serve(t, stream(says("STOP", `{"text":"a"}`)))
		_, _, err := llm.Collect(s.model(t, Options{}).Generate(t.Context(), c.req))
		if kind(err) != llm.ErrInvalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want an error of %q", c.req, err, c.want)
		}
		if len(s.asked) != 0 {
			t.Errorf("%+v was sent", c.req)
		}
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"f": true, "_f": true, "a.b:c-d_9": true, strings.Repeat("a", 128): true,
		"": false, "9a": false, "-a": false, "é": false, "a b": false, strings.Repeat("a", 129): false, "a\n": false, "@a": false, "[": false,
	} {
		if isName(name) != ok {
			t.Errorf("isName(%q) is %v", name, !ok)
		}
	}
}
