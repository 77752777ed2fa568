package schema

import (
	"encoding/json"
	"testing"

	"github.com/fermata-ai/fermata/internal/strictjson"
)

const smallSchema = `{"type":"object","properties":{"city":{"type":"string",` +
	`"description":"City name"},` +
	`"days":{"type":"integer","minimum":-128,"maximum":127},"units":{"type":"string",` +
	`"enum":["metric","imperial"]},` +
	`"detail":{"type":"boolean"}},"required":["city"],"additionalProperties":false}`

const smallArguments = `{"city":"Oslo","days":3,"units":"metric","detail":true}`

func BenchmarkValidate(b *testing.B) {
	s, args := schema(b, smallSchema), json.RawMessage(smallArguments)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(args); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkValidateInFull is the full validator, without the quick one before
// it.
func BenchmarkValidateInFull(b *testing.B) {
	s, args := schema(b, smallSchema), json.RawMessage(smallArguments)
	b.ReportAllocs()
	for b.Loop() {
		d, err := strictjson.Parse(args, strictjson.Strict(true))
		if bad, _ := s.judge(d); err != nil || bad != nil {
			b.Fatal(err, bad)
		}
	}
}

func BenchmarkRefuse(b *testing.B) {
	s := schema(b, smallSchema)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(json.RawMessage(`{"citty":"Oslo","days":"3"}`)); err.Error() == "" {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		schema(b, smallSchema)
	}
}

func BenchmarkCompileCached(b *testing.B) {
	var c Cache
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Compile(json.RawMessage(smallSchema)); err != nil {
			b.Fatal(err)
		}
	}
}
