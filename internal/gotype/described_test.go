package gotype

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
)

// shape describes itself.
type shape struct{ kind string }

func (shape) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Enum: []any{"round", "square"}}
}

func (s *shape) UnmarshalText(b []byte) error { s.kind = string(b); return nil }

// chain describes itself by a reference to itself.
type chain struct{ Link json.RawMessage }

func (chain) JSONSchema() *jsonschema.Schema {
	return jsonschema.Reflect(&struct {
		Link *node `json:"link"`
	}{})
}

// extended adds to what the generator finds.
type extended struct {
	Code string          `json:"code"`
	Any  json.RawMessage `json:"any,omitempty"`
	Big  *big.Int        `json:"big,omitempty"`
	At   time.Time       `json:"at,omitzero"`
}

func (extended) JSONSchemaExtend(s *jsonschema.Schema) { s.Description = "as printed" }

// broken describes itself in no valid way.
type broken struct{}

func (broken) JSONSchema() *jsonschema.Schema { panic("no idea") }

// elsewhere refers to another document.
type elsewhere struct{}

func (elsewhere) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Ref: "https://example.com/schema"}
}

// holder has the method JSONSchema of what it embeds, whose fields stand beside
// its own.
type holder struct {
	Emb2
	Extra int `json:"extra"`
}

// Emb2 describes itself.
type Emb2 struct {
	N int `json:"n"`
}

func (Emb2) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Title: "an Emb2"}
}

// wrapper describes itself, though it embeds what does so too.
type wrapper struct{ Emb2 }

func (wrapper) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Title: "a wrapper"}
}

func TestADescriptionIsNotTakenForThatOfWhatEmbedsIt(t *testing.T) {
	same(t, input[Emb2](t), `{"type":"object","title":"an Emb2","properties":{}}`)
	same(t, input[wrapper](t), `{"type":"object","title":"a wrapper","properties":{}}`)
	same(t, input[holder](t),
		`{"type":"object","properties":{"n":{"type":"integer"},"extra":{"type":"integer"}},`+
			`"required":["n","extra"],"additionalProperties":false}`)
}

func TestATypeMayDescribeItself(t *testing.T) {
	type in struct {
		S  shape `json:"s" jsonschema:"Its form"`
		S2 *shape
		C  chain
		E  extended
	}
	s := input[in](t)
	contains(t, s, `"s":{"type":"string","enum":["round","square"],"description":"Its form"}`,
		`"description":"as printed"`,
		`"any":{}`, `"big":{"type":"integer"}`, `"at":{"type":"string","format":"date-time"}`,
		`"S2":{"anyOf":[{"type":"string","enum":["round","square"]},{"type":"null"}]}`,
		`"link":{"$ref":"#/$defs/chain_node"}`)
	if strings.Contains(s, "$schema") || strings.Contains(s, "$id") {
		t.Error(s)
	}
	if v, err := given[in](t,
		`{"s":"round","C":{"link":{"name":"x"}},"E":{"code":"a"}}`); err != nil ||
		v.S.kind != "round" {
		t.Error(v, err)
	}
	_, err := given[in](t, `{"s":"flat","C":{"link":{"name":"x"}},"E":{"code":"a"}}`)
	contains(t, err.Error(), `/s: must be one of "round", "square", got "flat"`)
	contains(t, inputError[struct{ B broken }](t), "field B", "panics: no idea")
	contains(t, inputError[struct{ B elsewhere }](t), "field B", "https://example.com/schema")
}
