package schema_test

import (
	"encoding/json"
	"testing"

	"github.com/fermata-ai/fermata/internal/schema"
)

// A member's schema keeps what it refers to, and takes what it took before.
func TestMember(t *testing.T) {
	for _, c := range []struct{ of, good, bad string }{
		{"", `{"answer":"a"}`, `{"answer":1}`},
		{`{"type":"integer"}`, `{"answer":1}`, `{"answer":"a"}`},
		{`{"$ref":"#/$defs/n","$defs":{"n":{"type":"integer"}}}`, `{"answer":1}`, `{"answer":"a"}`},
		{`{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}`,
			`{"answer":{"a":true}}`, `{"a":true}`},
	} {
		made, err := schema.Member("answer", json.RawMessage(c.of))
		if err != nil {
			t.Fatal(err)
		}
		s, err := schema.Compile(made)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ValidateResult([]byte(c.good)); err != nil {
			t.Errorf("%s: %s: %v", c.of, c.good, err)
		}
		if s.ValidateResult([]byte(c.bad)) == nil {
			t.Errorf("%s takes %s", made, c.bad)
		}
	}
}
