package bench

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

type echoIn struct {
	Text string `json:"text"`
}

type echoOut struct {
	Text string `json:"text"`
}

// echo has the careful effect: each call is durably claimed before its body is entered.
var echo = tool.Must(tool.Func(tool.Spec{Name: "echo", Description: "Says it again."},
	func(_ context.Context, in echoIn) (tool.Result[echoOut], error) { return tool.Done(echoOut(in)), nil }))

// BenchmarkToolCall is what a tool call costs beside the model and the tool: arguments validated and decoded, the call
// claimed, its result kept, and every message stored, in memory. The run and the body are goroutines that wake each other; with
// one processor, that costs no thread's waking, which on a virtual machine can be half of all.
func BenchmarkToolCall(b *testing.B) {
	for _, turns := range []int{10, 100} {
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) { toolCalls(b, turns) })
	}
	b.Run("turns=100/processors=1", func(b *testing.B) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		toolCalls(b, 100)
	})
}

func toolCalls(b *testing.B, turns int) {
	model := calling(turns, "echo", `{"text":"hello"}`)
	ag, err := agent.New(agent.Config{Name: "bench", Model: model, Tools: []tool.Tool{echo}, Limits: agent.Limits{Turns: 1 << 30}})
	if err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		rn, _ := runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
		drain(b, rn.Run(context.Background(), "ada", sessionID(i), llm.UserText("Go."), nil), event.FinishStop)
		rn.Close()
	}
	b.StopTimer()
	runtime.ReadMemStats(&after)
	calls := float64(b.N * turns)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/calls, "us/call")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/calls, "allocs/call")
}
