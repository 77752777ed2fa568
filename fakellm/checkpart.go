package fakellm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/llm"
)

// part checks a part, and where it stands.
func (c *checker) part(i, j int, role llm.Role, p llm.Part) error {
	if !belongs(role, p) {
		return c.refuse(i, j, "%T doesn't belong in a message of role %s", p, role)
	}
	if problem := blank(p); problem != "" {
		return c.refuse(i, j, "%s", problem)
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
	}
	return nil
}

func belongs(role llm.Role, p llm.Part) bool {
	switch p.(type) {
	case llm.Text, llm.Media, llm.Opaque, llm.Unknown:
		return role != llm.RoleTool
	case llm.Reasoning, llm.ToolCall:
		return role == llm.RoleAssistant
	case llm.ToolResult:
		return role == llm.RoleTool
	}
	return false // nil, or a pointer to a part
}

// blank says what a part lacks.
func blank(p llm.Part) string {
	switch p := p.(type) {
	case llm.Text:
		if p.Native == nil && strings.TrimSpace(p.Text) == "" {
			return "the text is blank"
		}
	case llm.Reasoning:
		if p.Native == nil && strings.TrimSpace(p.Text) == "" {
			return "the reasoning is blank"
		}
	case llm.ToolCall:
		if len(p.Arguments) == 0 {
			return "the call has no arguments: none are {}"
		}
	case llm.ToolResult:
		if len(p.Output) == 0 {
			return "the result has no output"
		}
		for _, m := range p.Media {
			if problem := blank(m); problem != "" {
				return problem
			}
		}
	case llm.Media:
		if p.MediaType == "" {
			return "the media has no type"
		}
		if len(p.Data) == 0 && p.URL == "" {
			return "the media has neither data nor URL"
		}
	}
	return ""
}

// unreadable says what in a part is no JSON, or no text.
func unreadable(p llm.Part) string {
	var r readability
	switch p := p.(type) {
	case llm.Text:
		r.text("text", p.Text)
		r.native(p.Native)
	case llm.Reasoning:
		r.text("reasoning", p.Text)
		r.native(p.Native)
	case llm.ToolCall:
		r.text("id", p.ID)
		r.text("name", p.Name)
		r.text("provider id", p.ProviderID)
		r.json("arguments", p.Arguments)
		r.native(p.Native)
	case llm.ToolResult:
		r.json("output", p.Output)
		for _, m := range p.Media {
			r.media(m)
		}
	case llm.Media:
		r.media(p)
	case llm.Opaque:
		r.native(&p.Native)
	case llm.Unknown:
		r.json("raw", p.Raw)
	}
	return r.problem
}

// readability keeps the first problem.
type readability struct{ problem string }

func (r *readability) text(name, s string) {
	if r.problem == "" && !utf8.ValidString(s) {
		r.problem = "the " + name + " isn't valid UTF-8"
	}
}

func (r *readability) json(name string, raw json.RawMessage) {
	switch {
	case r.problem != "":
	case !json.Valid(raw):
		r.problem = fmt.Sprintf("the %s: no JSON: %s", name, short(string(raw)))
	case !bytes.Equal(raw, llm.CleanJSON(raw)):
		r.problem = "the " + name + ": JSON with invalid UTF-8 or a lone surrogate"
	}
}

func (r *readability) media(m llm.Media) {
	r.text("type", m.MediaType)
	r.text("name", m.Name)
	r.text("URL", m.URL)
	r.native(m.Native)
}

func (r *readability) native(n *llm.Native) {
	if n == nil {
		return
	}
	r.text("native provider", n.Provider)
	if len(n.Data) > 0 {
		r.json("native data", n.Data)
	}
}

// isObject says of JSON whether it is an object.
// holdsObject reports whether a tool may have taken the arguments.
func holdsObject(raw json.RawMessage) bool {
	_, ok := llm.ArgumentsObject(raw)
	return ok
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}
