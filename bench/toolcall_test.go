package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

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

// echo has the careful effect: each call is durably claimed before its body is
// entered.
var echo = tool.Must(tool.Func(tool.Spec{Name: "echo", Description: "Says it again."},
	func(_ context.Context, in echoIn) (tool.Result[echoOut], error) {
		return tool.Done(echoOut(in)), nil
	}))

// BenchmarkToolCall is what a tool call costs beside the model and the tool:
// arguments validated and decoded, the call claimed, its result kept, and every
// message stored, in memory. The run and the body are goroutines that wake each
// other; with one processor, that costs no thread's waking, which on a virtual
// machine can be more than all the rest.
//
// x-bare is the same as a multiple of a bare loop's time, which does nothing of
// that. It is comparable where machines, and hours, differ.
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
	model := calling{turns,
		llm.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"text":"hello"}`)}}
	ag, err := agent.New(agent.Config{Name: "bench", Model: model, Tools: []tool.Tool{echo},
		Limits: agent.Limits{Turns: 1 << 30}})
	if err != nil {
		b.Fatal(err)
	}
	runs := 0
	run := func() {
		rn, _ := runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
		drain(b, rn.Run(context.Background(), "ada", sessionID(runs), llm.UserText("Go."), nil),
			event.FinishStop)
		rn.Close()
		runs++
	}
	allocs := testing.AllocsPerRun(10, run)
	bare := bareLoop(b)
	for b.Loop() {
		run()
	}
	call := b.Elapsed() / time.Duration(b.N*turns)
	bare = (bare + bareLoop(b)) / 2
	b.ReportMetric(float64(call.Nanoseconds())/1e3, "us/call")
	b.ReportMetric(allocs/float64(turns), "allocs/call")
	b.ReportMetric(float64(call)/float64(bare), "x-bare")
}

// bareLoop returns how long a call takes that a program makes without a
// library: a tool found by its name, run in a goroutine, at most four at once,
// from JSON to JSON. Nothing is validated, kept or shown.
func bareLoop(b *testing.B) time.Duration {
	const calls = 50_000
	runtime.GC() // of what others left
	tools := map[string]func(json.RawMessage) (json.RawMessage, error){
		"echo": func(args json.RawMessage) (json.RawMessage, error) {
			var in echoIn
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, err
			}
			return json.Marshal(echoOut(in))
		},
	}
	slots := make(chan struct{}, 4)
	begun := time.Now()
	for range calls {
		var result json.RawMessage
		var err error
		var done sync.WaitGroup
		slots <- struct{}{}
		done.Go(func() {
			result, err = tools["echo"](json.RawMessage(`{"text":"hello"}`))
			<-slots
		})
		done.Wait()
		if err != nil || len(result) == 0 {
			b.Fatal(err)
		}
	}
	return time.Since(begun) / calls
}
