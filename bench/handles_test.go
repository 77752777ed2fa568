package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// acting is a model that makes the calls of a list, so many in a turn, one turn
// after the other since the user's last message, and then ends the run.
type acting struct {
	calls *[]llm.ToolCall
	each  int
}

func (m acting) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	turns := 0
	for i := len(r.Messages) - 1; r.Messages[i].Role != llm.RoleUser; i-- {
		if r.Messages[i].Role == llm.RoleAssistant {
			turns++
		}
	}
	all := *m.calls
	from := min(turns*m.each, len(all))
	if from == len(all) {
		return say(llm.Text{Text: "Done."})
	}
	return func(yield func(llm.Event, error) bool) {
		for _, c := range all[from:min(from+m.each, len(all))] {
			if !yield(llm.PartDone{Part: c}, nil) {
				return
			}
		}
		yield(finish, nil)
	}
}

// act calls the tool of handles.
func act(action string, i int) llm.ToolCall {
	args := fmt.Sprintf(`{"action":%q,"id":"h%d"}`, action, i)
	return llm.ToolCall{Name: "job", Arguments: json.RawMessage(args)}
}

// newHandles returns a runner whose agent has a tool of handles. Its calls wait
// for the outside, or are done at once. Its model makes so many in a turn.
func newHandles(
	b testing.TB, kv kvstore.Store, waits bool, each int, calls *[]llm.ToolCall,
) *runner.Runner {
	b.Helper()
	own := tool.Must(tool.Func(
		tool.Spec{Name: "job", MayPause: true, Effect: tool.Idempotent},
		func(context.Context, struct{}) (tool.Result[string], error) {
			if waits {
				return tool.Pending[string](tool.Await{}), nil
			}
			return tool.Done("Done."), nil
		}))
	jobs, err := handle.Stateful(own, &handle.Options{
		HandlePolicy: tool.HandlePolicy{AtEnd: tool.KeepAtEnd}})
	if err != nil {
		b.Fatal(err)
	}
	a, err := agent.New(agent.Config{Name: "ops", Model: acting{calls, each},
		Tools:  []tool.Tool{jobs},
		Limits: agent.Limits{Turns: 1 << 30, ToolCalls: 1 << 30}})
	if err != nil {
		b.Fatal(err)
	}
	rn, err := runner.New(a, session.NewStore(kv, nil), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { rn.Close() })
	return rn
}

// BenchmarkHandles compares what looking at a handle, and ending it, costs in a
// session with 1,000 open ones with the same in a session with 10, in memory:
// ten calls in one turn, for each. The x- metrics are the first over the second.
func BenchmarkHandles(b *testing.B) {
	for _, action := range []string{"fetch", "abort"} {
		b.Run(action, func(b *testing.B) {
			run := func(n int) costs {
				kv := &tally{Exclusive: kvstore.NewMemory()}
				var calls []llm.ToolCall
				rn := newHandles(b, kv, true, 50, &calls)
				for i := range n {
					calls = append(calls, act("spawn", i))
				}
				drain(b, rn.Run(b.Context(), "ada", "begin", llm.UserText("Go."), nil), event.FinishStop)
				calls = nil
				for i := range 10 {
					calls = append(calls, act(action, i))
				}
				kv.take(1)
				drain(b, rn.Run(b.Context(), "ada", "begin", llm.UserText("Go."), nil), event.FinishStop)
				rn.Close()
				return kv.take(10)
			}
			var few, many costs
			for b.Loop() {
				few, many = run(10), run(1000)
			}
			b.ReportMetric(many.commits, "commits")
			b.ReportMetric(many.commits/few.commits, "x-commits")
			b.ReportMetric(many.reads/few.reads, "x-reads")
			b.ReportMetric(0, "ns/op") // of no meaning here
		})
	}
}

// BenchmarkAwait counts the commits that handles cost which are begun, run,
// end and are awaited together: of each, with 1,000, and over those with 100.
func BenchmarkAwait(b *testing.B) {
	run := func(n int) costs {
		kv := &tally{Exclusive: kvstore.NewMemory()}
		var calls []llm.ToolCall
		rn := newHandles(b, kv, false, 50, &calls)
		ids := make([]string, n)
		for i := range n {
			calls = append(calls, act("spawn", i))
			ids[i] = fmt.Sprintf("h%d", i)
		}
		all, err := json.Marshal(map[string]any{"all": ids})
		if err != nil {
			b.Fatal(err)
		}
		calls = append(calls, llm.ToolCall{Name: "await", Arguments: all})
		drain(b, rn.Run(b.Context(), "ada", "s", llm.UserText("Go."), nil), event.FinishStop)
		rn.Close()
		return kv.take(n)
	}
	var few, many costs
	for b.Loop() {
		few, many = run(100), run(1000)
	}
	b.ReportMetric(many.commits, "commits/handle")
	b.ReportMetric(many.commits/few.commits, "x-commits")
	b.ReportMetric(many.reads/few.reads, "x-reads")
	b.ReportMetric(many.bytes/few.bytes, "x-bytes")
	b.ReportMetric(0, "ns/op") // of no meaning here
}

// BenchmarkHandleBeyond counts the commits of a handle beyond those of the same
// call in its turn, one in each turn. A test of package runner has them one by
// one.
func BenchmarkHandleBeyond(b *testing.B) {
	const n = 20
	run := func(call func(i int) llm.ToolCall) costs {
		kv := &tally{Exclusive: kvstore.NewMemory()}
		var calls []llm.ToolCall
		rn := newHandles(b, kv, false, 1, &calls)
		for i := range n {
			calls = append(calls, call(i))
		}
		drain(b, rn.Run(b.Context(), "ada", "s", llm.UserText("Go."), nil), event.FinishStop)
		for open := 1; open > 0; { // until the session was told of all ends
			st, err := rn.Show(b.Context(), "s", "ada")
			if err != nil {
				b.Fatal(err)
			}
			open = st.Handles
		}
		rn.Close()
		return kv.take(n)
	}
	var oneShot, handles costs
	for b.Loop() {
		oneShot = run(func(int) llm.ToolCall {
			return llm.ToolCall{Name: "job", Arguments: json.RawMessage(`{}`)}
		})
		handles = run(func(i int) llm.ToolCall { return act("spawn", i) })
	}
	b.ReportMetric(oneShot.commits, "commits/call")
	b.ReportMetric(handles.commits-oneShot.commits, "beyond")
	b.ReportMetric(0, "ns/op") // of no meaning here
}
