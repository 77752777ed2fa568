package tool

import (
	"encoding/json"
	"sync/atomic"

	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// checked are a call's arguments that were found valid. They are parsed once,
// checked on that tree, and decoded once, before the call is claimed or shown
// to a layer. Then they travel with the call, and each copy of it, to the
// tool's function. Only taken is written after that, atomically: of all copies
// of a call, one body gets what was decoded.
type checked struct {
	doc   strictjson.Doc
	typed *typed      // the tool that in is for; nil: there is none
	in    any         // what was decoded, as a *In, for the body that comes first
	taken atomic.Bool // by a body, which may change it
}

// checkedBy returns the call with its arguments marked as checked by a schema,
// and decoded for a typed tool, if there is one. Without arguments it has {},
// which is what a model sends for a tool that needs none; those that were
// encoded twice are decoded once: see [schema.Schema.Arguments].
func (c Call) checkedBy(s *schema.Schema, t *typed) (Call, error) {
	if schema.IsNull(c.Arguments) {
		c.Arguments = json.RawMessage("{}")
	}
	if c.isChecked() {
		return c, nil
	}
	doc, err := s.Arguments(c.Arguments)
	if err != nil {
		return c, err
	}
	if doc.Text != string(c.Arguments) {
		c.Arguments = json.RawMessage(doc.Text)
	}
	valid := &checked{doc: doc, typed: t}
	if t != nil {
		if valid.in, err = t.decoded(doc, c.Arguments); err != nil {
			return c, err
		}
	}
	c.checked = valid
	return c, nil
}

// isChecked reports whether the arguments are, byte for byte, those that were
// found valid. Layers may have written into them, or put others in their place.
func (c Call) isChecked() bool {
	return c.checked != nil && string(c.Arguments) == c.checked.doc.Text
}

// take returns what was decoded of the arguments for t when they were checked,
// once.
func (c Call) take(t *typed) (in any, ok bool) {
	if !c.isChecked() || c.checked.typed != t || c.checked.taken.Swap(true) {
		return nil, false
	}
	return c.checked.in, true
}
