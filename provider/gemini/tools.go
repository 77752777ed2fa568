package gemini

import (
	"encoding/json"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
	"google.golang.org/genai"
)

// dialect is what the API documents of JSON Schema, at responseJsonSchema: "not
// all features are supported".
//
// Tools go as parametersJsonSchema, and not in the older form, parameters: that
// is a fixed message, so that one keyword which it doesn't know refuses the
// whole request, and it has no references, hence no recursive types. Here, what
// is unknown is told as text, rather than left to be ignored. See
// https://ai.google.dev/api/generate-content#GenerationConfig and
// https://ai.google.dev/api/caching#FunctionDeclaration.
var dialect = wire.Dialect{
	Keywords: []string{"title", "format", "prefixItems", "minItems", "maxItems", "minimum",
		"maximum"},
	Formats:  []string{"date-time", "date", "time"},
	Refs:     true,
	BareRefs: true, // "cyclic references ... may only be used within non-required properties"
	OneOf:    true,
}

// declaration is a genai.FunctionDeclaration whose schema stays as it is.
type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema"`
}

// CheckTools implements [llm.ToolChecker].
func (m *Model) CheckTools(tools []llm.ToolDef) error {
	_, err := declarations(tools)
	return err
}

// declarations returns the request's list of tools, nil where there are none.
func declarations(tools []llm.ToolDef) (json.RawMessage, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	all := make([]declaration, 0, len(tools))
	for _, t := range tools {
		if !isName(t.Name) {
			return nil, wire.Invalid(provider,
				"tool %q: its name must begin with a letter or '_', and go on with letters, digits, '_', '.', ':' and '-', up to 128", t.Name)
		}
		schema, err := dialect.Convert(t.Input)
		if err != nil {
			return nil, wire.Invalid(provider, "tool %q: %w", t.Name, err)
		}
		all = append(all, declaration{t.Name, t.Description, schema})
	}
	return json.Marshal([]map[string][]declaration{{"functionDeclarations": all}})
}

// names are what the API takes as the name of a tool; a digit or a sign other
// than '_' doesn't begin one. See
// https://ai.google.dev/api/caching#FunctionDeclaration.
var names = wire.Form{Max: 128, Also: "_.:-"}

func isName(s string) bool {
	return names.Fits(s) && !strings.ContainsRune("0123456789.:-", rune(s[0]))
}

func toolConfig(req llm.Request) *genai.ToolConfig {
	f := new(genai.FunctionCallingConfig)
	switch c := req.ToolChoice; {
	case c.Mode == llm.ToolAuto, c.Mode == llm.ToolNone && len(req.Tools) == 0:
		return nil // which is AUTO
	case c.Mode == llm.ToolNone:
		f.Mode = genai.FunctionCallingConfigModeNone
	case c.Mode == llm.ToolAny:
		f.Mode = genai.FunctionCallingConfigModeAny
	case c.Mode == llm.ToolNamed:
		f.Mode, f.AllowedFunctionNames = genai.FunctionCallingConfigModeAny, []string{c.Name}
	}
	return &genai.ToolConfig{FunctionCallingConfig: f}
}

// responseSchema is nil where the text is free. The API has no place for a name
// or a description but the schema.
func responseSchema(f llm.ResponseFormat) (json.RawMessage, error) {
	schema, err := dialect.Response(f)
	if err != nil {
		return nil, wire.Invalid(provider, "%w", err)
	}
	if schema == nil {
		return nil, nil
	}
	o, err := wire.ParseObject(schema)
	if err != nil {
		return nil, err
	}
	for _, said := range []struct{ key, text string }{{"title", f.Name},
		{"description", f.Description}} {
		if said.text != "" && !o.Has(said.key) {
			o.SetText(said.key, said.text)
		}
	}
	return o.JSON(), nil
}
