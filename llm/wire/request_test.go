package wire

import (
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// What no provider can be told is refused in the same words for all of them.
func TestCheckRequest(t *testing.T) {
	tools := []llm.ToolDef{{Name: "look"}, {Name: "deploy"}}
	object := []byte(`{"type":"object"}`)
	for _, c := range []struct {
		name   string
		r      llm.Request
		served []string
		says   string // "": nothing is wrong
	}{
		{"nothing", llm.Request{}, nil, ""},
		{"none of none", llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ToolNone}}, nil, ""},
		{"any", llm.Request{Tools: tools, ToolChoice: llm.ToolChoice{Mode: llm.ToolAny}}, nil, ""},
		{"any of the provider's", llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ToolAny}}, []string{"web_search"}, ""},
		{"named", llm.Request{Tools: tools, ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "deploy"}}, nil, ""},
		{"one of the provider's", llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "web_search"}}, []string{"web_search"}, ""},
		{"any of none", llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ToolAny}}, nil, "Request.Tools is empty: offer a tool"},
		{"no such", llm.Request{Tools: tools, ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "x"}}, nil, `Request.ToolChoice.Name is "x", which is none of Request.Tools: name one of them, look, deploy`},
		{"no such of none", llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "x"}}, nil, "none of Request.Tools"},
		{"no mode", llm.Request{ToolChoice: llm.ToolChoice{Mode: "maybe"}}, nil, `Request.ToolChoice.Mode is "maybe": it must be empty, "none", "any" or "named"`},
		{"no hint", llm.Request{Cache: "forever"}, nil, `Request.Cache is "forever": it must be empty, "none", "short" or "long"`},
		{"below zero", llm.Request{Limits: llm.Limits{OutputTokens: -1}}, nil, "Request.Limits.OutputTokens is -1"},
		{"a format's name", llm.Request{ResponseFormat: llm.ResponseFormat{Name: "my answer", Schema: object}}, nil, `Request.ResponseFormat.Name is "my answer"`},
		{"the name of no format", llm.Request{ResponseFormat: llm.ResponseFormat{Name: "my answer"}}, nil, ""},
	} {
		err := CheckRequest(c.r, c.served...)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	if _, err := (Dialect{}).Response(llm.ResponseFormat{Name: "r", Schema: []byte(`[]`)}); err == nil || !strings.Contains(err.Error(), `Request.ResponseFormat "r": the schema is no object`) {
		t.Error(err)
	}
	if s, err := (Dialect{}).Response(llm.ResponseFormat{Name: "r"}); s != nil || err != nil {
		t.Error(s, err)
	}
}
