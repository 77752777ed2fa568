package fakellm_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
)

var tools = []llm.ToolDef{
	{Name: "deploy", Input: raw(`{"type":"object","properties":{"v":{"type":"string"}},"required":["v"]}`), Output: raw(`{"type":"string"}`)},
	{Name: "get_weather", Description: "Weather.", Input: raw(`{"type":"object","properties":{}}`)},
}

func TestCheckAccepts(t *testing.T) {
	native := &llm.Native{Provider: "acme", Data: raw(`{"sig":1}`)}
	failed := llm.ToolResult{Call: "c1", Name: "deply", Output: raw(`"no such tool"`), Error: true}
	broken := llm.ToolCall{ID: "c1", Name: "deploy", Arguments: raw(`"{\"v\":1"`)}
	refusedArgs := llm.ToolResult{Call: "c1", Name: "deploy", Output: raw(`"not JSON"`), Error: true}
	for name, m := range map[string][]llm.Message{
		"one message":                {user("hi")},
		"a finished transcript":      {user("hi"), assistant(llm.Text{Text: "hello"})},
		"the user twice":             {user("hi"), user("there"), assistant(llm.Text{Text: "x"}), user("y"), user("z")},
		"calls with results":         {user("go"), assistant(call("c1", "deploy"), call("c2", "deploy")), results(result("c1", "deploy"), result("c2", "deploy"))},
		"results message by message": {user("go"), assistant(call("c1", "deploy"), call("c2", "deploy")), results(result("c1", "deploy")), results(result("c2", "deploy"))},
		"the user right after":       {user("go"), assistant(call("c1", "deploy")), results(result("c1", "deploy")), user("and?")},
		"calls turn after turn":      {user("go"), assistant(call("c1", "deploy")), results(result("c1", "deploy")), assistant(call("c2", "deploy")), results(result("c2", "deploy"))},
		"notices after results":      {user("go"), assistant(call("c1", "deploy")), notified(result("c1", "deploy")), assistant(llm.Text{Text: "x"})},
		"notices alone":              {user("go"), assistant(llm.Text{Text: "x"}), notified(), assistant(llm.Text{Text: "y"}), notified()},
		"an unknown tool":            {user("go"), assistant(call("c1", "deply")), results(failed)},
		"broken arguments":           {user("go"), assistant(broken), results(refusedArgs)},
		"parts only some know":       {user("go"), assistant(llm.Opaque{Native: *native}, llm.Unknown{Type: "x", Raw: raw(`{"type":"x"}`)}, llm.Text{Text: "y"})},
		"a native form without data": {user("go"), assistant(llm.Text{Text: "x", Native: &llm.Native{Provider: "acme"}})},
		"blank parts with a native":  {user("go"), assistant(llm.Reasoning{Native: native}, llm.Text{Native: native})},
		"reasoning, media, provider": {
			{Role: llm.RoleUser, Parts: []llm.Part{llm.Media{MediaType: "image/png", Data: []byte{1}}, llm.Media{MediaType: "image/png", URL: "u"}}},
			assistant(llm.Reasoning{Text: "hm", Native: native}, llm.Text{Text: "x"})},
	} {
		if err := fakellm.Check(llm.Request{Messages: m, Tools: tools}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone := []llm.Message{user("go"), assistant(call("c1", "gone")), results(result("c1", "gone"))}
	for _, offered := range [][]llm.ToolDef{nil, tools} {
		if err := fakellm.Check(llm.Request{Messages: gone, Tools: offered}); err != nil {
			t.Errorf("what an earlier agent's tool returned, among %d tools: %v", len(offered), err)
		}
	}
	for _, c := range []llm.ToolChoice{{}, {Mode: llm.ToolNone}, {Mode: llm.ToolAny}, {Mode: llm.ToolNamed, Name: "deploy"}} {
		if err := fakellm.Check(llm.Request{Messages: []llm.Message{user("hi")}, Tools: tools, ToolChoice: c}); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestCheckRefusesTranscripts(t *testing.T) {
	go1 := user("go")
	one := assistant(call("c1", "deploy"))
	two := assistant(llm.Text{Text: "on it"}, call("c1", "deploy"), call("c2", "get_weather"))
	r1, r2 := result("c1", "deploy"), result("c2", "get_weather")
	text := func(role llm.Role, p llm.Part) llm.Message { return llm.Message{Role: role, Parts: []llm.Part{p}} }
	answeredWith := func(c llm.ToolCall, r llm.ToolResult) []llm.Message {
		return []llm.Message{go1, assistant(c), results(r)}
	}
	for _, c := range []struct {
		name     string
		messages []llm.Message
		want     string
	}{
		{"no messages", nil, "there are no messages"},
		{"system role", []llm.Message{text("system", llm.Text{Text: "x"}), go1}, "messages[0] (system): system is no role of a message: instructions belong in Request.System"},
		{"developer role", []llm.Message{go1, text("developer", llm.Text{Text: "x"})}, "messages[1] (developer): developer is no role"},
		{"unknown role", []llm.Message{text("model", llm.Text{Text: "x"})}, `messages[0] (model): "model" is no role`},
		{"no role", []llm.Message{text("", llm.Text{Text: "x"})}, `messages[0] (): "" is no role`},
		{"the assistant first", []llm.Message{assistant(llm.Text{Text: "x"}), go1}, "messages[0] (assistant): the first message isn't the user's"},
		{"a result first", []llm.Message{results(r1)}, "messages[0] (tool): the first message isn't the user's"},
		{"the assistant twice", []llm.Message{go1, assistant(llm.Text{Text: "x"}), assistant(llm.Text{Text: "y"})}, "messages[2] (assistant): the assistant speaks twice in a row"},
		{"empty message", []llm.Message{go1, assistant()}, "messages[1] (assistant): the message is empty"},
		{"empty results", []llm.Message{go1, one, results()}, "messages[2] (tool): the message is empty"},

		{"no result at the end", []llm.Message{go1, one}, `messages[1] (assistant) parts[0]: call "c1" of "deploy" has no result, and the transcript ends`},
		{"no result in the middle", []llm.Message{go1, two, results(r1), user("and?")}, `messages[1] (assistant) parts[2]: call "c2" of "get_weather" has no result, and messages[3] (user) follows`},
		{"no result before the next answer", []llm.Message{go1, two, results(r1), assistant(llm.Text{Text: "x"})}, `messages[1] (assistant) parts[2]: call "c2" of "get_weather" has no result, and messages[3] (assistant) follows`},
		{"the user in between", []llm.Message{go1, one, user("wait"), results(r1)}, `messages[1] (assistant) parts[0]: call "c1" of "deploy" has no result, and messages[2] (user) follows`},
		{"orphan", []llm.Message{go1, one, results(r1, result("c9", "deploy"))}, `messages[2] (tool) parts[1]: a result for "c9", and there is no such call before it`},
		{"result before its call", []llm.Message{go1, results(r1), one}, `messages[1] (tool) parts[0]: a result for "c1", and there is no such call before it`},
		{"result without an id", []llm.Message{go1, one, results(result("", "deploy"))}, `messages[2] (tool) parts[0]: a result for "", and there is no such call before it`},
		{"doubled result", []llm.Message{go1, two, results(r1, r1, r2)}, `messages[2] (tool) parts[1]: a second result for call "c1"`},
		{"doubled result in another message", []llm.Message{go1, two, results(r1, r2), results(r2)}, `messages[3] (tool) parts[0]: a second result for call "c2"`},
		{"misordered results", []llm.Message{go1, two, results(r2, r1)}, `messages[2] (tool) parts[0]: the result for call "c2" stands where that for "c1" belongs: results are in call order`},
		{"a late result", []llm.Message{go1, one, results(r1), assistant(call("c2", "get_weather")), results(r1)}, `messages[4] (tool) parts[0]: a result for call "c1" belongs right after messages[1]`},
		{"a result after the user", []llm.Message{go1, one, results(r1), user("and?"), results(r1)}, `messages[4] (tool) parts[0]: a result for call "c1" belongs right after messages[1]`},
		{"an id again", []llm.Message{go1, one, results(r1), one, results(r1)}, `messages[3] (assistant) parts[0]: the id "c1" is that of the call in messages[1] parts[0]`},
		{"an id twice in a message", []llm.Message{go1, assistant(call("c1", "deploy"), call("c1", "deploy"))}, `messages[1] (assistant) parts[1]: the id "c1" is that of the call in messages[1] parts[0]`},
		{"no id", []llm.Message{go1, assistant(call("", "deploy"))}, "messages[1] (assistant) parts[0]: the call has no id"},
		{"another name", []llm.Message{go1, one, results(result("c1", "get_weather"))}, `messages[2] (tool) parts[0]: the result names the tool "get_weather", its call "deploy"`},
		{"broken arguments that ran", answeredWith(llm.ToolCall{ID: "c1", Name: "deploy", Arguments: raw(`"{"`)}, r1), `messages[2] (tool) parts[0]: the arguments of call "c1" are no object, and yet it has a result that is no error`},

		{"a call by the user", []llm.Message{text(llm.RoleUser, call("c1", "deploy"))}, "messages[0] (user) parts[0]: llm.ToolCall doesn't belong in a message of role user"},
		{"a result by the user", []llm.Message{go1, one, text(llm.RoleUser, r1)}, `messages[1] (assistant) parts[0]: call "c1" of "deploy" has no result, and messages[2] (user) follows`},
		{"a result in the user's first message", []llm.Message{text(llm.RoleUser, r1)}, "messages[0] (user) parts[0]: llm.ToolResult doesn't belong in a message of role user"},
		{"reasoning by the user", []llm.Message{text(llm.RoleUser, llm.Reasoning{Text: "hm"})}, "llm.Reasoning doesn't belong in a message of role user"},
		{"a result by the assistant", []llm.Message{go1, text(llm.RoleAssistant, r1)}, "llm.ToolResult doesn't belong in a message of role assistant"},
		{"text by a tool", []llm.Message{go1, one, results(r1, llm.Text{Text: "x"})}, "messages[2] (tool) parts[1]: llm.Text doesn't belong in a message of role tool"},
		{"a notice before a result", []llm.Message{go1, two, notified(r1), results(r2)}, `messages[2] (tool) parts[1]: a notice stands before the result of call "c2": results come first`},
		{"a notice in place of a result", []llm.Message{go1, one, notified()}, `messages[2] (tool) parts[0]: a notice stands before the result of call "c1": results come first`},
		{"a notice by the user", []llm.Message{text(llm.RoleUser, llm.Notice{State: "stopped"})}, "llm.Notice doesn't belong in a message of role user"},
		{"a notice by the assistant", []llm.Message{go1, assistant(llm.Notice{State: "stopped"})}, "llm.Notice doesn't belong in a message of role assistant"},
		{"a notice of nothing", []llm.Message{go1, results(llm.Notice{Handle: "build"})}, "the notice has neither a state nor a text"},
		{"no part", []llm.Message{text(llm.RoleUser, nil)}, "<nil> doesn't belong"},
		{"a pointer", []llm.Message{text(llm.RoleUser, &llm.Text{Text: "x"})}, "*llm.Text doesn't belong"},

		{"blank text", []llm.Message{user(" \n")}, "messages[0] (user) parts[0]: the text is blank"},
		{"blank reasoning", []llm.Message{go1, assistant(llm.Reasoning{})}, "the reasoning is blank"},
		{"no arguments", []llm.Message{go1, assistant(llm.ToolCall{ID: "c1", Name: "deploy"})}, "the call has no arguments: none are {}"},
		{"no output", []llm.Message{go1, one, results(llm.ToolResult{Call: "c1", Name: "deploy"})}, "the result has no output"},
		{"media without a type", []llm.Message{text(llm.RoleUser, llm.Media{URL: "u"})}, "the media has no type"},
		{"media without data", []llm.Message{text(llm.RoleUser, llm.Media{MediaType: "image/png"})}, "the media has neither data nor URL"},

		{"broken JSON in arguments", []llm.Message{go1, assistant(llm.ToolCall{ID: "c1", Name: "deploy", Arguments: raw(`{"v":1`)})}, "messages[1] (assistant) parts[0]: it holds what is no JSON: arguments: the text ends too early (at byte 6)"},
		{"broken JSON in an output", []llm.Message{go1, one, results(llm.ToolResult{Call: "c1", Name: "deploy", Output: raw(`ok`)})}, "messages[2] (tool) parts[0]: it holds what is no JSON: output: "},
		{"broken JSON in a native form", []llm.Message{go1, assistant(llm.Text{Text: "x", Native: &llm.Native{Data: raw(`{`)}})}, "it holds what is no JSON: data: the text ends too early (at byte 1)"},
		{"broken JSON in a native reasoning", []llm.Message{go1, assistant(llm.Reasoning{Text: "x", Native: &llm.Native{Data: raw(`{`)}})}, "it holds what is no JSON: data: the text ends too early (at byte 1)"},
		{"broken JSON in an opaque part", []llm.Message{go1, assistant(llm.Opaque{Native: llm.Native{Data: raw(`{`)}})}, "it holds what is no JSON: data: the text ends too early (at byte 1)"},
		{"broken JSON in an unknown part", []llm.Message{go1, assistant(llm.Unknown{Raw: raw(`{`)})}, "it holds what is no JSON: unknown part"},
		{"a lone surrogate", []llm.Message{go1, one, results(llm.ToolResult{Call: "c1", Name: "deploy", Output: raw(`"\ud800"`)})}, "it holds invalid UTF-8, or a lone surrogate"},
		{"invalid UTF-8", []llm.Message{user("a\xff")}, "messages[0] (user) parts[0]: it holds invalid UTF-8, or a lone surrogate"},
		{"invalid UTF-8 in reasoning", []llm.Message{go1, assistant(llm.Reasoning{Text: "\xff"})}, "it holds invalid UTF-8, or a lone surrogate"},
		{"invalid UTF-8 in a call", []llm.Message{go1, assistant(call("\xff", "deploy"))}, "it holds invalid UTF-8, or a lone surrogate"},
		{"invalid UTF-8 in a tool's name", []llm.Message{go1, assistant(call("c1", "\xff"))}, "it holds invalid UTF-8, or a lone surrogate"},
		{"invalid UTF-8 in a provider's id", []llm.Message{go1, assistant(llm.ToolCall{ID: "c1", Arguments: raw(`{}`), ProviderID: "\xff"})}, "it holds invalid UTF-8, or a lone surrogate"},
		{"invalid UTF-8 in media", []llm.Message{text(llm.RoleUser, llm.Media{MediaType: "image/png", URL: "\xff"})}, "it holds invalid UTF-8, or a lone surrogate"},
		{"invalid UTF-8 in a native form", []llm.Message{text(llm.RoleUser, llm.Opaque{Native: llm.Native{Provider: "\xff"}})}, "it holds invalid UTF-8, or a lone surrogate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, llm.Request{Messages: c.messages, Tools: tools}, c.want)
		})
	}
}

func TestCheckRefusesTools(t *testing.T) {
	def := func(name, input string) llm.ToolDef { return llm.ToolDef{Name: name, Input: raw(input)} }
	const good = `{"type":"object","properties":{}}`
	for _, c := range []struct {
		name string
		req  llm.Request
		want string
	}{
		{"no name", llm.Request{Tools: []llm.ToolDef{def("", good)}}, "tools[0] \"\": a name has 1 to 64"},
		{"dot", llm.Request{Tools: []llm.ToolDef{def("a.b", good)}}, "tools[0] \"a.b\": a name has 1 to 64 letters, digits, _ and -"},
		{"long name", llm.Request{Tools: []llm.ToolDef{def(strings.Repeat("a", 65), good)}}, "a name has 1 to 64"},
		{"duplicate", llm.Request{Tools: []llm.ToolDef{def("a", good), def("b", good), def("a", good)}}, "tools[2] \"a\": the name is that of tools[0]"},
		{"no schema", llm.Request{Tools: []llm.ToolDef{def("a", ``)}}, "tools[0] \"a\": the input schema is no JSON object"},
		{"null", llm.Request{Tools: []llm.ToolDef{def("a", `null`)}}, "the input schema is no JSON object"},
		{"boolean", llm.Request{Tools: []llm.ToolDef{def("a", `true`)}}, "the input schema is no JSON object"},
		{"no type", llm.Request{Tools: []llm.ToolDef{def("a", `{"properties":{}}`)}}, `the input schema has no "type": "object"`},
		{"array", llm.Request{Tools: []llm.ToolDef{def("a", `{"type":"array","properties":{}}`)}}, `has no "type": "object"`},
		{"no properties", llm.Request{Tools: []llm.ToolDef{def("a", `{"type":"object"}`)}}, `has no "properties" that are an object`},
		{"null properties", llm.Request{Tools: []llm.ToolDef{def("a", `{"type":"object","properties":null}`)}}, `has no "properties" that are an object`},
		{"boolean property", llm.Request{Tools: []llm.ToolDef{def("a", `{"type":"object","properties":{"z":true,"b":true,"c":{}}}`)}}, `has a property "b" that is no object`},
		{"required of the wrong shape", llm.Request{Tools: []llm.ToolDef{def("a", `{"type":"object","properties":{},"required":true}`)}}, `has a "required" that is no list of names`},
		{"required, but no property", llm.Request{Tools: []llm.ToolDef{def("a", `{"type":"object","properties":{},"required":["x"]}`)}}, `requires "x", which is no property`},
		{"output", llm.Request{Tools: []llm.ToolDef{{Name: "a", Input: raw(good), Output: raw(`true`)}}}, "the output schema is no JSON object"},
		{"description", llm.Request{Tools: []llm.ToolDef{{Name: "a", Description: "\xff", Input: raw(good)}}}, "the description isn't valid UTF-8"},
		{"system prompt", llm.Request{System: "\xff"}, "the system prompt isn't valid UTF-8"},
		{"limit", llm.Request{Limits: llm.Limits{OutputTokens: -1}}, "the limit of output tokens is -1"},
		{"choice of what isn't offered", llm.Request{Tools: tools, ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "x"}}, `the tool choice is "x", which isn't offered`},
		{"name in another mode", llm.Request{Tools: tools, ToolChoice: llm.ToolChoice{Name: "deploy"}}, `the tool choice names "deploy" in mode ""`},
		{"any of none", llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ToolAny}}, "a tool must be called, and none is offered"},
		{"unknown mode", llm.Request{ToolChoice: llm.ToolChoice{Mode: "maybe"}}, `"maybe" is no mode of tool choice`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Messages = []llm.Message{user("hi")}
			refused(t, c.req, c.want)
		})
	}
}

func TestToolNamesAreOfFewCharacters(t *testing.T) {
	check := func(name string) error {
		def := llm.ToolDef{Name: name, Input: raw(`{"type":"object","properties":{}}`)}
		return fakellm.Check(llm.Request{Messages: []llm.Message{user("hi")}, Tools: []llm.ToolDef{def}})
	}
	for _, name := range []string{"a", "azAZ09_-", strings.Repeat("z", 64)} {
		if err := check(name); err != nil {
			t.Error(err)
		}
	}
	for _, c := range "@[`{/:. é" {
		if check("a"+string(c)) == nil {
			t.Errorf("%q was accepted", c)
		}
	}
}

// refused checks that Check refuses a request for the reason, and so does a model.
func refused(t *testing.T, req llm.Request, want string) {
	t.Helper()
	err := fakellm.Check(req)
	var r *fakellm.Refusal
	if !errors.As(err, &r) || !strings.Contains(strings.Split(err.Error(), "\n")[0], want) {
		t.Fatalf("%v\nwant\n%s", err, want)
	}
	_, _, viaModel := llm.Collect(fakellm.Echo().Generate(context.Background(), req))
	var e *llm.Error
	if !errors.As(viaModel, &e) || e.Kind != llm.ErrInvalid || e.Retryable() || !strings.HasSuffix(viaModel.Error(), err.Error()) {
		t.Errorf("the model says %v", viaModel)
	}
}

func TestRefusalShowsTheSpot(t *testing.T) {
	long := llm.ToolCall{ID: "c2", Name: "get_weather", Arguments: raw(`{"city":"` + strings.Repeat("é", 40) + `"}`)}
	err := fakellm.Check(request(
		user("before"), user("Deploy `checkout`\nand look outside."),
		assistant(llm.Reasoning{Text: "Two calls."}, llm.Text{Text: "On it."}, call("c1", "deploy"), call("c3", "x"), long, call("c4", "x"),
			llm.Opaque{Native: llm.Native{Provider: "acme", Data: raw("1")}}, llm.Media{MediaType: "image/png", URL: "u"}, llm.Unknown{Type: "new", Raw: raw(`{"type":"new"}`)}),
		results(result("c1", "deploy"), llm.ToolResult{Call: "c3", Name: "x", Output: raw(`"boom"`), Error: true}),
		user("after"), user("later"),
	))
	want := `messages[2] (assistant) parts[4]: call "c2" of "get_weather" has no result, and messages[4] (user) follows
  messages[1] user
      [0] {"type":"text","text":"Deploy ` + "`checkout`" + `\nand look outside."}
  messages[2] assistant
      ...
      [1] {"type":"text","text":"On it."}
      [2] {"type":"tool_call","id":"c1","name":"deploy","arguments":{}}
      [3] {"type":"tool_call","id":"c3","name":"x","arguments":{}}
>     [4] {"type":"tool_call","id":"c2","name":"get_weather","arguments":{"city":"` + strings.Repeat("é", 24) + `...
      [5] {"type":"tool_call","id":"c4","name":"x","arguments":{}}
      [6] {"type":"opaque","native":{"provider":"acme","data":1}}
      [7] {"type":"media","media_type":"image/png","url":"u"}
      ...
  messages[3] tool
      [0] {"type":"tool_result","call":"c1","name":"deploy","output":"ok"}
      [1] {"type":"tool_result","call":"c3","name":"x","output":"boom","error":true}`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
	err = fakellm.Check(request(user("hi"), assistant()))
	want = "messages[1] (assistant): the message is empty\n  messages[0] user\n      [0] {\"type\":\"text\",\"text\":\"hi\"}\n> messages[1] assistant"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}
