package fakellm

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/fermata-ai/fermata/internal/modeltext"
	"github.com/fermata-ai/fermata/llm"
)

// part checks a part, and where it stands. What there is to know of a kind of
// part by itself, package llm knows.
func (c *checker) part(i, j int, role llm.Role, p llm.Part) error {
	if err := llm.CheckPart(role, p); err != nil {
		return c.refuse(i, j, "%v", err)
	}
	if i >= c.known {
		if problem := unreadable(p); problem != "" {
			return c.refuse(i, j, "%s", problem)
		}
	}
	switch p := p.(type) {
	case llm.ToolCall:
		return c.call(i, j, p)
	case llm.ToolResult:
		return c.result(i, j, p)
	case llm.Notice:
		if c.answered < len(c.asked) {
			return c.refuse(i, j, "a notice stands before the result of call %q: results come first",
				c.asked[c.answered].call.ID)
		}
	}
	return nil
}

// unreadable says what in a part is no JSON, or no text.
func unreadable(p llm.Part) string {
	m := llm.Message{Parts: []llm.Part{p}}
	if _, err := p.MarshalJSON(); err != nil {
		return "it holds what is no JSON: " + strings.TrimPrefix(err.Error(), "llm: ")
	}
	if clean := m.Clean(); &clean.Parts[0] != &m.Parts[0] {
		return "it holds invalid UTF-8, or a lone surrogate"
	}
	return ""
}

// holdsObject reports whether a tool may have taken the arguments.
func holdsObject(raw json.RawMessage) bool {
	_, ok := modeltext.ArgumentsObject(raw)
	return ok
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}
