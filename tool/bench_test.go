package tool

import (
	"context"
	"testing"
)

type weatherInput struct {
	City   string `json:"city" jsonschema:"City name"`
	Days   int8   `json:"days,omitempty"`
	Units  string `json:"units,omitempty" jsonschema:"enum=metric,enum=imperial"`
	Detail bool   `json:"detail,omitempty"`
}

const smallArguments = `{"city":"Oslo","days":3,"units":"metric","detail":true}`

func benchTool(b *testing.B) Tool {
	return make1(b, func(_ context.Context, in weatherInput) (Result[weatherInput], error) {
		return Done(in), nil
	})
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

func BenchmarkFunc(b *testing.B) {
	for b.Loop() {
		benchTool(b)
	}
}
