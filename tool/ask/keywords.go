package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// keywords are those that a form may have, and how each is read. Those of parts
// are read by parts, once the type is known.
var keywords = map[string]func(*node, any) error{
	"type":                 func(n *node, v any) error { return readType(&n.kind, v) },
	"title":                func(n *node, v any) error { return readAbout(n, v, false) },
	"description":          func(n *node, v any) error { return readAbout(n, v, true) },
	"enum":                 readEnum,
	"minimum":              func(n *node, v any) error { return n.least.read(v, 1, false) },
	"maximum":              func(n *node, v any) error { return n.most.read(v, -1, false) },
	"exclusiveMinimum":     func(n *node, v any) error { return n.least.read(v, 1, true) },
	"exclusiveMaximum":     func(n *node, v any) error { return n.most.read(v, -1, true) },
	"multipleOf":           func(n *node, v any) error { return decode(v, &n.step) },
	"minLength":            func(n *node, v any) error { return readCount(&n.minText, v, maxMinText) },
	"minItems":             func(n *node, v any) error { return readCount(&n.minItems, v, maxMin) },
	"uniqueItems":          func(n *node, v any) error { return decode(v, &n.distinct) },
	"format":               readFormat,
	"maxLength":            isCount,
	"maxItems":             isCount,
	"additionalProperties": func(_ *node, v any) error { return decode(v, new(bool)) },
	"properties":           isObject,
	"items":                isObject,
	"required":             anything,
	"default":              anything,
	"examples":             anything,
}

// types are those that a form may have.
var types = []string{"string", "integer", "number", "boolean", "array", "object"}

func readType(to *string, v any) error {
	if err := decode(v, to); err != nil || !slices.Contains(types, *to) {
		return fmt.Errorf("it is one of %q", types)
	}
	return nil
}

func readAbout(n *node, v any, first bool) error {
	var text string
	err := decode(v, &text)
	if text = strings.Join(strings.Fields(text), " "); first || n.about == "" {
		n.about = text
	}
	return err
}

func readEnum(n *node, v any) error {
	values, ok := v.([]any)
	if !ok || len(values) == 0 || len(values) > maxValues {
		return fmt.Errorf("it is a list of 1 to %d values", maxValues)
	}
	for _, v := range values {
		raw, ok := v.(json.RawMessage)
		if !ok {
			return errors.New("its values are texts, numbers or booleans")
		}
		n.enum = append(n.enum, raw)
	}
	return nil
}

func readCount(to *int, v any, most int) error {
	if err := decode(v, to); err != nil || *to < 0 || *to > most {
		return fmt.Errorf("it is a whole number from 0 to %d", most)
	}
	return nil
}

func readFormat(n *node, v any) error {
	if err := decode(v, &n.format); err != nil || samples[n.format] == "" {
		return fmt.Errorf("it is one of %q", formats())
	}
	return nil
}

func isCount(_ *node, v any) error {
	var n int
	if err := decode(v, &n); err != nil || n < 0 {
		return errors.New("it is a whole number, and not negative")
	}
	return nil
}

func isObject(_ *node, v any) error {
	if _, ok := v.(*jsontree.Object); !ok {
		return errors.New("it is an object")
	}
	return nil
}

func anything(*node, any) error { return nil }

// read reads a bound below, of side 1, or above, of side -1. Of two, the tighter
// one counts.
func (b *bound) read(v any, side float64, open bool) error {
	raw, ok := v.(json.RawMessage)
	var n float64
	if !ok || json.Unmarshal(raw, &n) != nil {
		return errors.New("it is a number")
	}
	if b.text == "" || n*side > b.n*side || n == b.n && open {
		*b = bound{n: n, text: string(raw), open: open}
	}
	return nil
}

// decode reads a value that isn't an object or a list.
func decode(v, to any) error {
	raw, ok := v.(json.RawMessage)
	if !ok || string(raw) == "null" {
		return errors.New("it is of another type")
	}
	return json.Unmarshal(raw, to)
}
