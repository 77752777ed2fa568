package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// What the API takes of JSON Schema: nearly everything where it only tells the
// model, and what its documentation of structured outputs lists where the model
// is held to it. There a type can't hold itself.
var (
	told = wire.Dialect{Refs: true, OneOf: true, Const: true}
	held = wire.Dialect{
		// Closed objects that must all fit would take nothing.
		Keywords: []string{"default", "pattern", "format"},
		Formats: []string{"date-time", "time", "date", "duration", "email", "hostname", "uri",
			"ipv4", "ipv6", "uuid"},
		Const: true, Closed: true, Optional: true,
	}
)

// What the API asks of names.
var (
	toolNames     = wire.Form{Max: 128, Also: "_-"}
	propertyNames = wire.Form{Max: 64, Also: "_.-"}
)

// CheckTools reports the first tool that the API would refuse, and what to do.
func (m *Model) CheckTools(defs []llm.ToolDef) error {
	_, err := m.definitions(defs)
	return err
}

// tools returns the request's, and those that Anthropic runs.
func (m *Model) tools(defs []llm.ToolDef) ([]sdk.ToolUnionParam, error) {
	tools, err := m.definitions(defs)
	if err != nil {
		return nil, err
	}
	for _, raw := range m.options.ServerTools {
		tools = append(tools, param.Override[sdk.ToolUnionParam](raw))
	}
	return tools, nil
}

func (m *Model) definitions(defs []llm.ToolDef) ([]sdk.ToolUnionParam, error) {
	var tools []sdk.ToolUnionParam
	taken := m.options.serverNames()
	for _, d := range defs {
		if !toolNames.Fits(d.Name) {
			return nil, invalid("tool %q: the API takes names of 1 to 128 letters, digits, _ and -: rename it", d.Name)
		}
		if slices.Contains(taken, d.Name) {
			return nil, invalid("tool %q: there are two of that name: rename one", d.Name)
		}
		taken = append(taken, d.Name)
		schema, err := m.schema(d.Input)
		if err != nil {
			return nil, invalid("tool %q: %w", d.Name, err)
		}
		p := &sdk.ToolParam{
			Name:        d.Name,
			InputSchema: param.Override[sdk.ToolInputSchemaParam](schema),
			Strict:      param.NewOpt(m.options.Strict),
		}
		if d.Description != "" {
			p.Description = param.NewOpt(d.Description)
		}
		tools = append(tools, sdk.ToolUnionParam{OfTool: p})
	}
	return tools, nil
}

// schema returns a tool's, as the API takes it.
func (m *Model) schema(input json.RawMessage) (json.RawMessage, error) {
	dialect := told
	if m.options.Strict {
		dialect = held
	}
	s, err := convert(dialect, input)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if s.Has(key) {
			return nil, fmt.Errorf("at its root, the schema has %s, which the API doesn't take there: put it into a property", key)
		}
	}
	properties, err := wire.ParseObject(s.Get("properties"))
	if err != nil {
		return nil, err
	}
	for _, p := range properties.Members { // what lies deeper, the API doesn't look at
		if !propertyNames.Fits(p.Name) {
			return nil, fmt.Errorf("the property %q: the API takes names of 1 to 64 letters, digits, _, . and -: rename it", p.Name)
		}
	}
	return s.JSON(), nil
}

func convert(dialect wire.Dialect, schema json.RawMessage) (wire.Object, error) {
	raw, err := dialect.Convert(schema)
	if err != nil {
		return wire.Object{}, err
	}
	return wire.ParseObject(raw)
}
