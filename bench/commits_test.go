package bench

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

var update = flag.Bool("update", false, "write the table of commits into README.md")

// exchange is what is counted: from a user's message to the model's last word,
// with one call in between. Every answer comes when no drive holds the session,
// and the next drive begins anew.
type exchange struct {
	stored bool // leases are
	effect tool.Effect
	gated  bool // a person has to allow the call
	waits  bool // the body waits for an answer, which is the output
}

// commits returns how many commits an exchange takes, once the schemas and keys
// are stored that all sessions share.
func (x exchange) commits(tb testing.TB) int {
	kv := &tally{Exclusive: kvstore.NewMemory()}
	var engine kvstore.Store = kv
	if x.stored {
		engine = kvtest.Shared(kv)
	}
	act := tool.Must(tool.Func(tool.Spec{Name: "act", Effect: x.effect, MayPause: true},
		func(context.Context, jobIn) (tool.Result[jobOut], error) {
			if x.waits {
				return tool.Pending[jobOut](tool.Await{}), nil
			}
			return tool.Done(jobOut{"done"}), nil
		}))
	c := agent.Config{Name: "bench", Tools: []tool.Tool{act},
		Model: plain{llm.ToolCall{Name: "act", Arguments: json.RawMessage(`{"text":"x"}`)},
			llm.Text{Text: "Done."}}}
	if x.gated {
		c.Interceptors = interceptor.Chain{interceptor.Approval(nil)}
	}
	ag, err := agent.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	rn, err := runner.New(ag, session.NewStore(engine, nil), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { rn.Close() })
	for i := range 2 {
		kv.take(1)
		x.run(tb, rn, sessionID(i))
	}
	return int(kv.take(1).commits)
}

func (x exchange) run(tb testing.TB, rn *runner.Runner, id string) {
	ctx := context.Background()
	events := rn.Run(ctx, "ada", id, llm.UserText("Go."), nil)
	answer := func(in func(pause string) runner.Resumption) {
		end := drain(tb, events, event.FinishPaused)
		res, err := rn.Resume(ctx, id, in(end.Pending[0].ID))
		if err != nil {
			tb.Fatal(err)
		}
		events = res.Events(ctx)
	}
	if x.gated {
		answer(func(p string) runner.Resumption { return runner.Approve(p, "eve", "") })
	}
	if x.waits {
		answer(func(p string) runner.Resumption { return runner.Complete(p, "ci", jobDone) })
	}
	drain(tb, events, event.FinishStop)
}

// commitRows are the rows of the table, and their columns.
var commitRows = []struct {
	leases, effect string
	of             exchange
}{
	{"in memory", "once", exchange{effect: tool.Once}},
	{"in memory", "idempotent, read-only", exchange{effect: tool.Idempotent}},
	{"stored", "once", exchange{stored: true, effect: tool.Once}},
	{"stored", "idempotent, read-only", exchange{stored: true, effect: tool.Idempotent}},
}

const commitHead = "| leases | effect | done at once | done, behind an approval | " +
	"waits for an answer | waits, behind an approval |\n|---|---|---|---|---|---|\n"

// TestCommits: the table in README.md is what is counted. With -update it is
// written.
func TestCommits(t *testing.T) {
	const file = "../README.md"
	table := commitHead
	for _, row := range commitRows {
		table += fmt.Sprintf("| %s | %s |", row.leases, row.effect)
		for _, waits := range []bool{false, true} {
			for _, gated := range []bool{false, true} {
				x := row.of
				x.gated, x.waits = gated, waits
				table += fmt.Sprintf(" %d |", x.commits(t))
			}
		}
		table += "\n"
	}
	readme, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(readme)
	if strings.Contains(text, "\n"+table+"\n") {
		return
	}
	begins := strings.Index(text, commitHead)
	if !*update || begins < 0 {
		t.Fatalf("README.md doesn't have this table; go test ./bench -run TestCommits -update "+
			"writes it:\n%s", table)
	}
	rest := text[begins:]
	rest = rest[strings.Index(rest, "\n\n")+1:]
	if err := os.WriteFile(file, []byte(text[:begins]+table+rest), 0o644); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkCommits counts the commits of an exchange, for each row and column
// of the table in README.md, which TestCommits keeps.
func BenchmarkCommits(b *testing.B) {
	for _, row := range commitRows {
		for _, gated := range []bool{false, true} {
			for _, waits := range []bool{false, true} {
				x := row.of
				x.gated, x.waits = gated, waits
				name := fmt.Sprintf("leases=%s/effect=%s/gated=%v/waits=%v",
					strings.ReplaceAll(row.leases, " ", "-"), x.effect, gated, waits)
				b.Run(name, func(b *testing.B) {
					commits := 0
					for b.Loop() {
						commits = x.commits(b)
					}
					b.ReportMetric(float64(commits), "commits")
					b.ReportMetric(0, "ns/op") // of no meaning here
				})
			}
		}
	}
}
