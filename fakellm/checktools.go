package fakellm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/llm"
)

// checkTools checks what goes along with the messages.
func checkTools(req llm.Request) error {
	names := map[string]int{}
	for i, t := range req.Tools {
		problem := tool(t)
		if first, ok := names[t.Name]; ok && problem == "" {
			problem = fmt.Sprintf("the name is that of tools[%d]", first)
		}
		if problem != "" {
			return refuse(req, whole, whole, "tools[%d] %s: %s", i, excerpt.Quote(t.Name), problem)
		}
		names[t.Name] = i
	}
	if !utf8.ValidString(req.System) {
		return refuse(req, whole, whole, "the system prompt isn't valid UTF-8")
	}
	if req.Limits.OutputTokens < 0 {
		return refuse(req, whole, whole, "the limit of output tokens is %d",
			req.Limits.OutputTokens)
	}
	return choice(req)
}

func choice(req llm.Request) error {
	c := req.ToolChoice
	switch {
	case c.Mode == llm.ToolNamed:
		if !slices.ContainsFunc(req.Tools, func(t llm.ToolDef) bool { return t.Name == c.Name }) {
			return refuse(req, whole, whole, "the tool choice is %q, which isn't offered", c.Name)
		}
	case c.Name != "":
		return refuse(req, whole, whole, "the tool choice names %q in mode %q", c.Name, c.Mode)
	case c.Mode == llm.ToolAny && len(req.Tools) == 0:
		return refuse(req, whole, whole, "a tool must be called, and none is offered")
	case c.Mode != llm.ToolAuto && c.Mode != llm.ToolNone && c.Mode != llm.ToolAny:
		return refuse(req, whole, whole, "%q is no mode of tool choice", c.Mode)
	}
	return nil
}

// tool says what is wrong with a tool's definition.
func tool(t llm.ToolDef) string {
	switch {
	case !isName(t.Name):
		return "a name has 1 to 64 letters, digits, _ and -"
	case !utf8.ValidString(t.Description):
		return "the description isn't valid UTF-8"
	}
	if problem := object(t.Input); problem != "" {
		return "the input schema " + problem
	}
	if len(t.Output) > 0 && (!json.Valid(t.Output) || !isObject(t.Output)) {
		return "the output schema is no JSON object"
	}
	return ""
}

// isName reports whether every provider takes s for a tool's name.
func isName(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' &&
			c != '-' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

// object says what keeps a schema from being an object's with properties. Some
// providers refuse the whole request for one such tool.
func object(schema json.RawMessage) string {
	var top, properties map[string]json.RawMessage
	if json.Unmarshal(schema, &top) != nil || top == nil {
		return "is no JSON object"
	}
	if string(top["type"]) != `"object"` {
		return `has no "type": "object"`
	}
	if json.Unmarshal(top["properties"], &properties) != nil || properties == nil {
		return `has no "properties" that are an object`
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !isObject(properties[name]) { // a boolean schema
			return fmt.Sprintf("has a property %q that is no object", name)
		}
	}
	var required []string
	if r, ok := top["required"]; ok && json.Unmarshal(r, &required) != nil {
		return `has a "required" that is no list of names`
	}
	for _, name := range required {
		if _, ok := properties[name]; !ok {
			return fmt.Sprintf("requires %q, which is no property", name)
		}
	}
	return ""
}
