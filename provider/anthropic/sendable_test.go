package anthropic

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// TestModelShowsNoKey: a model in a log shows no key.
func TestModelShowsNoKey(t *testing.T) {
	const key = "sk-ant-very-secret"
	m, err := New(Options{Model: "m", APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, m); strings.Contains(s, key) {
			t.Errorf("%s shows the key", verb)
		}
	}
}

// TestServerToolWithoutResultIsLeftOut: the limit of tokens, or the last pause,
// may cut a message off between a server tool's use and its result. The API
// refuses a history with one.
func TestServerToolWithoutResultIsLeftOut(t *testing.T) {
	cut := events(begin,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I'll look."}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":5}}`, stop)
	s := &service{body: cut}
	m := s.model(t, Options{})
	msg, _ := collect(t, m, hello())
	collect(t, m, llm.Request{Messages: []llm.Message{llm.UserText("Hello"), msg, llm.UserText("And?")}})
	if b := s.bodies[1]; strings.Contains(b, "srvtoolu_1") || !strings.Contains(b, "I'll look.") {
		t.Errorf("the request: %s", b)
	}
}

// TestUnsendableMediaInResults: what a tool made an hour ago must not make
// every later request fail.
func TestUnsendableMediaInResults(t *testing.T) {
	s := &service{body: events(begin, endTurn, stop)}
	m := s.model(t, Options{})
	history := []llm.Message{
		llm.UserText("Hello"),
		{Role: llm.RoleAssistant, Parts: []llm.Part{llm.ToolCall{ID: "call_1", Name: "f", Arguments: []byte(`{}`)}}},
		{Role: llm.RoleTool, Parts: []llm.Part{llm.ToolResult{Call: "call_1", Name: "f", Output: []byte(`"ok"`),
			Media: []llm.Media{{MediaType: "image/svg+xml", Name: "plot.svg", Data: []byte("<svg/>")}, {MediaType: "audio/wav", Data: []byte("RIFF")}}}}},
	}
	if _, _, err := llm.Collect(m.Generate(t.Context(), llm.Request{Messages: history})); err != nil {
		t.Error(err)
	}
}

// TestSignaturesOfAnotherServer: a compatible server's signature is no use to
// Anthropic, which refuses the request for it, and every later one.
func TestSignaturesOfAnotherServer(t *testing.T) {
	const refusal = "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block\"}}"
	for _, whole := range []bool{false, true} {
		s := &service{body: fmt.Sprintf("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(refusal), refusal)}
		good := events(begin, endTurn, stop)
		if whole {
			good = `{"type":"message","content":[],"stop_reason":"end_turn"}`
		}
		s.later = []string{good, s.body, s.body}
		m := s.model(t, Options{Whole: whole})
		thought := llm.Reasoning{Text: "Hm", Native: &llm.Native{Provider: provider, Data: []byte(`{"type":"thinking","thinking":"Hm","signature":"not-anthropics"}`)}}
		history := []llm.Message{llm.UserText("Hello"), {Role: llm.RoleAssistant, Parts: []llm.Part{thought, llm.Text{Text: "Hi"}}}, llm.UserText("And?")}
		collect(t, m, llm.Request{Messages: history})
		if len(s.bodies) != 2 || strings.Contains(s.bodies[1], "not-anthropics") || !strings.Contains(s.bodies[0], "not-anthropics") {
			t.Errorf("the requests: %s", s.bodies)
		}
		// Not for ever.
		if _, _, err := llm.Collect(m.Generate(t.Context(), llm.Request{Messages: history})); err == nil || len(s.bodies) != 4 {
			t.Errorf("%v after %d requests", err, len(s.bodies))
		}
	}
}

// TestSessionOutlivesBadMedia: the user's message is stored before the model
// refuses it. It must not be the last one.
func TestSessionOutlivesBadMedia(t *testing.T) {
	s := &service{body: events(begin, endTurn, stop)}
	ag, err := agent.New(agent.Config{Name: "a", Model: s.model(t, Options{})})
	if err != nil {
		t.Fatal(err)
	}
	rn, err := runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rn.Close()
	say := func(m llm.Message) (err error) {
		for _, e := range rn.Run(t.Context(), "ada", "chat-1", m, nil) {
			err = errors.Join(err, e)
		}
		return err
	}
	if err := say(llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Media{MediaType: "image/svg+xml", Data: []byte("<svg/>")}}}); err == nil {
		t.Error("no error")
	}
	if err := say(llm.UserText("Never mind.")); err != nil {
		t.Error(err)
	}
}
