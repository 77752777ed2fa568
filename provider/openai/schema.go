package openai

import (
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// What both APIs take of JSON Schema.
var (
	// Where the model isn't held to it: everything.
	told = wire.Dialect{Refs: true, OneOf: true, Const: true}
	// See "Supported schemas" in OpenAI's guide to structured outputs.
	held = wire.Dialect{
		Keywords: []string{"pattern", "format", "multipleOf", "minimum", "maximum",
			"exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"},
		Formats: []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4",
			"ipv6", "uuid"},
		Refs: true, Const: true, Closed: true,
	}
)

// names are what OpenAI takes as the name of a tool.
var names = wire.Form{Max: 64, Also: "_-"}

func errName(name string) error {
	return fmt.Errorf("tool %q: OpenAI takes names of 1 to %d letters, digits, _ and -: rename it",
		name, names.Max)
}

func dialect(strict bool) wire.Dialect {
	if strict {
		return held
	}
	return told
}

// schemas are those of tools, by name.
func schemas(tools []llm.ToolDef) map[string]json.RawMessage {
	by := map[string]json.RawMessage{}
	for _, t := range tools {
		by[t.Name] = t.Input
	}
	return by
}
