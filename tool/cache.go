package tool

import (
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/internal/recent"
)

// SchemaCache compiles each schema once, as long as it is among the last that
// were asked for. The zero value is ready to use; so is a nil one, which keeps
// nothing. It is for schemas that are stored with what they check.
type SchemaCache struct {
	Max int // how many to keep; zero: 256

	byText recent.Cache[string, *Schema]
}

// Compile is CompileSchema, remembered. Errors are not.
func (c *SchemaCache) Compile(raw json.RawMessage) (*Schema, error) {
	s, err := c.compile(raw)
	if err != nil {
		return nil, fmt.Errorf("tool: %w", err)
	}
	return s, nil
}

func (c *SchemaCache) compile(raw json.RawMessage) (*Schema, error) {
	if c == nil {
		return compileSchema(raw)
	}
	text := string(raw)
	if s, ok := c.byText.Get(text); ok {
		return s, nil
	}
	s, err := compileSchema(raw) // two may do it at once, and that is all right
	if err == nil {
		c.byText.Put(text, s, c.Max)
	}
	return s, err
}
