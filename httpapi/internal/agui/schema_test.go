package agui_test

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaText is the protocol's forms as the schema of its version 1.0 has them:
// of the events that are made here, and of what a client sends. It is written
// anew from that schema's facts, and is as strict: an object has no member that
// the version doesn't know. In internal/aguiclient the protocol's own client
// reads the same events.
//
//go:embed testdata/agui-1.0.json
var schemaText []byte

var schemas = sync.OnceValue(func() *jsonschema.Compiler {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("agui.json", doc); err != nil {
		panic(err)
	}
	return c
})

// valid returns why a text is none of the definition's, or nil.
func valid(definition string, text []byte) error {
	s, err := compiled(definition)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

var (
	compileMu sync.Mutex
	byName    = map[string]*jsonschema.Schema{}
)

func compiled(definition string) (*jsonschema.Schema, error) {
	compileMu.Lock()
	defer compileMu.Unlock()
	if s := byName[definition]; s != nil {
		return s, nil
	}
	s, err := schemas().Compile(fmt.Sprintf("agui.json#/$defs/%s", definition))
	if err == nil {
		byName[definition] = s
	}
	return s, err
}
