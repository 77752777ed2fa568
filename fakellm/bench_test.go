package fakellm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
)

// A long session: the thousandth turn, 20 KB a result.
func BenchmarkGenerateLongHistory(b *testing.B) {
	req := request(user("go"))
	req.Metadata = map[string]string{"session": "s"}
	big := raw(`"` + strings.Repeat("x", 20<<10) + `"`)
	for i := range 1000 {
		id := fmt.Sprint("c", i)
		req.Messages = append(req.Messages, assistant(call(id, "deploy")), results(llm.ToolResult{Call: id, Name: "deploy", Output: big}))
	}
	m := fakellm.New(fakellm.Says("done").Forever())
	if _, _, err := llm.Collect(m.Generate(b.Context(), req)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := llm.Collect(m.Generate(b.Context(), req)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	req := llm.Request{Tools: tools, Messages: []llm.Message{user("go"), assistant(call("c1", "deploy")), results(result("c1", "deploy"))}}
	b.ReportAllocs()
	for b.Loop() {
		if err := fakellm.Check(req); err != nil {
			b.Fatal(err)
		}
	}
}
