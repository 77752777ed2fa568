package tool

import (
	"container/list"
	"encoding/json"
	"fmt"
	"sync"
)

// SchemaCache compiles each schema once, as long as it is among the last that were asked for. The zero value is ready to use;
// so is a nil one, which keeps nothing. It is for schemas that are stored with what they check.
type SchemaCache struct {
	Max int // how many to keep; zero: 256

	mu     sync.Mutex
	byText map[string]*list.Element // of *cached
	recent list.List                // the last one asked for is first
}

type cached struct {
	text   string
	schema *Schema
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
	if s := c.get(raw); s != nil {
		return s, nil
	}
	s, err := compileSchema(raw) // outside of the lock: two may do it at once, and that is all right
	if err == nil {
		c.put(string(raw), s)
	}
	return s, err
}

func (c *SchemaCache) get(raw json.RawMessage) *Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byText[string(raw)]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cached).schema
}

func (c *SchemaCache) put(text string, s *Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byText[text]; ok {
		return
	}
	if c.byText == nil {
		c.byText = map[string]*list.Element{}
	}
	c.byText[text] = c.recent.PushFront(&cached{text, s})
	limit := c.Max
	if limit <= 0 {
		limit = 256
	}
	for c.recent.Len() > limit {
		last := c.recent.Back()
		c.recent.Remove(last)
		delete(c.byText, last.Value.(*cached).text)
	}
}
