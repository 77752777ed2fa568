package tool

import (
	"context"
	"encoding/json"
	"testing"
)

type weatherInput struct {
	City   string `json:"city" jsonschema:"City name"`
	Days   int8   `json:"days,omitempty"`
	Units  string `json:"units,omitempty" jsonschema:"enum=metric,enum=imperial"`
	Detail bool   `json:"detail,omitempty"`
}

const smallArguments = `{"city":"Oslo","days":3,"units":"metric","detail":true}`

func benchTool(b *testing.B) *typed {
	made := make1(b, func(_ context.Context, in weatherInput) (Result[weatherInput], error) { return Done(in), nil })
	t, _ := made.(*typed)
	return t
}

func BenchmarkValidate(b *testing.B) {
	s, args := benchTool(b).input, raw(smallArguments)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(args); err != nil {
			b.Fatal(err)
		}
	}
}

// What the full validator needs, without the quick one before it.
func BenchmarkValidateInFull(b *testing.B) {
	s, args := benchTool(b).input, raw(smallArguments)
	b.ReportAllocs()
	for b.Loop() {
		v, err := parseStrict(args, forGo)
		if err != nil || s.judge(v, len(args)) != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidateThenDecode(b *testing.B) {
	t, args := benchTool(b), raw(smallArguments)
	b.ReportAllocs()
	for b.Loop() {
		if err := t.input.Validate(args); err != nil {
			b.Fatal(err)
		}
		if _, err := t.decode(args); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRefuse(b *testing.B) {
	s := benchTool(b).input
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(raw(`{"citty":"Oslo","days":"3"}`)); err.Error() == "" {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrepareAndEnter(b *testing.B) {
	r := registry(b, benchTool(b))
	c := call(smallArguments)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		p, err := r.Prepare(c)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Enter(ctx, p.Call); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompileSchema(b *testing.B) {
	text := benchTool(b).spec.Input
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CompileSchema(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompileCached(b *testing.B) {
	text := benchTool(b).spec.Input
	var c SchemaCache
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Compile(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonicalHash(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CanonicalHash(raw(smallArguments)); err != nil {
			b.Fatal(err)
		}
	}
}

// For comparison: what encoding/json needs for the tree that Validate builds.
func BenchmarkEncodingJSONTree(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeTree(json.RawMessage(smallArguments)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFunc(b *testing.B) {
	for b.Loop() {
		benchTool(b)
	}
}
