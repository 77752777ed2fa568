package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

type taskIn struct {
	Task string `json:"task"`
}

// delegating is a model that makes so many calls of a nested agent, so many in
// a turn, and then ends the run.
type delegating struct{ calls, each int }

func (m delegating) Generate(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	left := m.calls - len(r.Messages)/2*m.each
	if left <= 0 {
		return say(llm.Text{Text: "Done."})
	}
	return func(yield func(llm.Event, error) bool) {
		for range min(left, m.each) {
			call := llm.ToolCall{Name: "helper", Arguments: json.RawMessage(`{"task":"x"}`)}
			if !yield(llm.PartDone{Part: call}, nil) {
				return
			}
		}
		yield(finish, nil)
	}
}

// newFamily returns a runner of an agent whose model delegates to another one.
func newFamily(
	b testing.TB, store *session.Store, m llm.Model, child llm.Model, tools ...tool.Tool,
) *runner.Runner {
	b.Helper()
	limits := agent.Limits{Turns: 1 << 30, ToolCalls: 1 << 30}
	helper, err := agent.New(
		agent.Config{Name: "helper", Model: child, Tools: tools, Limits: limits})
	if err != nil {
		b.Fatal(err)
	}
	delegate, err := agenttool.New[taskIn, string](helper,
		&agenttool.Options[taskIn]{Description: "Does a task.", Template: "{{.Task}}"})
	if err != nil {
		b.Fatal(err)
	}
	lead, err := agent.New(agent.Config{Name: "lead", Model: m, Tools: []tool.Tool{delegate},
		Limits: limits})
	if err != nil {
		b.Fatal(err)
	}
	rn, err := runner.New(lead, store, &runner.Options{Agents: []*agent.Agent{helper}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { rn.Close() })
	return rn
}

// BenchmarkNestedAgent counts the commits of a run in which an agent asks
// another one, beside those of a run that makes the same turns in one session:
//
//	commits    of the run, with a nested agent that says one message
//	x-session  over those of a run with a call that has its result at once, and
//	           whose tool is idempotent
//
// With stored leases, each drive that begins without a user's message commits
// its lease first.
func BenchmarkNestedAgent(b *testing.B) {
	at := tool.Must(tool.Func(tool.Spec{Name: "helper", Effect: tool.Idempotent},
		func(_ context.Context, in taskIn) (tool.Result[string], error) {
			return tool.Done("Done."), nil
		}))
	for _, leases := range []string{"memory", "stored"} {
		b.Run("leases="+leases, func(b *testing.B) {
			commits := func(make func(*session.Store) *runner.Runner) float64 {
				kv := &tally{Exclusive: kvstore.NewMemory()}
				var shown kvstore.Store = kv
				if leases == "stored" {
					shown = struct{ kvstore.Store }{kv}
				}
				rn := make(session.NewStore(shown, nil))
				for i := range 2 { // the first stores keys and schemas
					kv.take(1)
					drain(b, rn.Run(b.Context(), "ada", sessionID(i), llm.UserText("Go."), nil),
						event.FinishStop)
				}
				rn.Close()
				return kv.take(1).commits
			}
			var nested, plainly float64
			for b.Loop() {
				nested = commits(func(s *session.Store) *runner.Runner {
					return newFamily(b, s, delegating{1, 1}, plain{llm.Text{Text: "Done."}})
				})
				plainly = commits(func(s *session.Store) *runner.Runner {
					return newRunner(b, s, delegating{1, 1}, at)
				})
			}
			b.ReportMetric(nested, "commits")
			b.ReportMetric(nested/plainly, "x-session")
			b.ReportMetric(0, "ns/op") // of no meaning here
		})
	}
}

// BenchmarkChildren compares what each of 1,000 nested agents of one session
// costs with what each of 100 does, in memory: one after the other, and 50 in a
// turn. The x- metrics are the first over the second.
func BenchmarkChildren(b *testing.B) {
	for _, each := range []int{1, 50} {
		b.Run(fmt.Sprintf("atonce=%d", each), func(b *testing.B) {
			run := func(n int) (costs, float64) {
				kv := &tally{Exclusive: kvstore.NewMemory()}
				rn := newFamily(b, session.NewStore(kv, nil), delegating{n, each},
					plain{llm.Text{Text: "Done."}})
				begun := time.Now()
				drain(b, rn.Run(b.Context(), "ada", "s", llm.UserText("Go."), nil), event.FinishStop)
				took := time.Since(begun).Seconds() / float64(n)
				rn.Close()
				return kv.take(n), took
			}
			var of costs
			var commits, reads, bytes, times []float64
			for b.Loop() {
				var few costs
				fast := 0.0
				for range 10 {
					var took float64
					few, took = run(100)
					fast += took / 10
				}
				many, slow := run(1000)
				of = many
				commits = append(commits, many.commits/few.commits)
				reads = append(reads, many.reads/few.reads)
				bytes = append(bytes, many.bytes/few.bytes)
				times = append(times, slow/fast)
			}
			b.ReportMetric(of.commits, "commits/child")
			b.ReportMetric(of.reads, "reads/child")
			b.ReportMetric(of.bytes/1000, "kB/child")
			b.ReportMetric(median(commits), "x-commits")
			b.ReportMetric(median(reads), "x-reads")
			b.ReportMetric(median(bytes), "x-bytes")
			b.ReportMetric(median(times), "x-time")
			b.ReportMetric(0, "ns/op") // of no meaning here
		})
	}
}
