package schema

import (
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/recent"
)

// Cache compiles each schema once, as long as it is among the last that were
// asked for. Any goroutine may use it. The zero value is ready to use; so is a
// nil one, which keeps nothing. It is for schemas that are stored with what
// they check.
type Cache struct {
	Max int // how many to keep; zero: 256

	byText recent.Cache[string, *Schema]
}

// Compile returns what the function Compile does, and remembers it. Errors are
// not remembered.
func (c *Cache) Compile(raw json.RawMessage) (*Schema, error) {
	if c == nil {
		return Compile(raw)
	}
	text := string(raw)
	if s, ok := c.byText.Get(text); ok {
		return s, nil
	}
	s, err := Compile(raw) // two may do it at once, and that is all right
	if err == nil {
		c.byText.Put(text, s, c.Max)
	}
	return s, err
}
