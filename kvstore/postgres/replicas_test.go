package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// decideAsChild is a replica of a program that takes people's decisions: it
// prints that it is ready, waits for a line, decides, and prints what it was
// told.
func decideAsChild(args []string) {
	url, schema, pause, actor, word := args[0], args[1], args[2], args[3], args[4]
	ctx := context.Background()
	kv, err := postgres.Open(ctx, url, &postgres.Options{Schema: schema})
	exitOn(err)
	rn, err := runner.New(nil, session.NewStore(kv, nil), nil)
	exitOn(err)
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	decide := runner.Approve
	if word == "deny" {
		decide = runner.Deny
	}
	resumed, err := rn.Resume(ctx, chat, decide(pause, runner.Actor(actor), "because"))
	var conflict *session.ConflictError
	switch {
	case errors.As(err, &conflict):
		fmt.Println("conflict", conflict.Receipt.Actor, conflict.Receipt.At.UnixMilli())
	case err != nil:
		exitOn(err)
	case resumed.Receipts[0].Duplicate:
		fmt.Println("duplicate", resumed.Receipts[0].Actor, resumed.Receipts[0].At.UnixMilli())
	default:
		fmt.Println("accepted", resumed.Receipts[0].Actor, resumed.Receipts[0].At.UnixMilli())
	}
}

// Four replicas are sent the same approval at once, and a fifth is sent a denial
// after it, each a process of its own: it is accepted once, three are told that
// it was, and the denial who approved, and when. The body is entered once.
func TestFourReplicasOneApproval(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	schema := migrated(t, server)
	var entered atomic.Int64
	refund := tool.Must(tool.Func(
		tool.Spec{Name: "refund", Description: "One of a test.", Effect: tool.Once},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			entered.Add(1)
			return tool.Done(in), nil
		}))
	a, err := agent.New(agent.Config{Name: "shop", Tools: []tool.Tool{refund},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		Model:        fakellm.New(fakellm.Calls("refund", `{"text":"10"}`), fakellm.Says("Done."))})
	must(t, err)
	rn, err := runner.New(a, session.NewStore(open(t, server, &postgres.Options{Schema: schema}), nil), nil)
	must(t, err)
	defer rn.Close()
	for _, err := range rn.Run(t.Context(), "ada", chat, llm.UserText("Refund it."), nil) {
		must(t, err)
	}
	s := &shop{t: t, server: server, schema: schema, rn: rn}
	pause := s.waits()[0].ID

	var replicas []*child
	for i, word := range []string{"approve", "approve", "approve", "approve", "deny"} {
		replicas = append(replicas,
			startChild(t, "decide", server.URL(), schema, pause, fmt.Sprint("person-", i), word))
		replicas[i].says("ready")
	}
	told := make([]string, len(replicas))
	var all sync.WaitGroup
	for i, c := range replicas[:4] {
		all.Go(func() {
			fmt.Fprintln(c.in)
			told[i] = c.line()
		})
	}
	all.Wait()
	fmt.Fprintln(replicas[4].in)
	told[4] = replicas[4].line()
	first := ""
	for _, line := range told[:4] {
		if rest, accepted := strings.CutPrefix(line, "accepted "); accepted {
			if first != "" {
				t.Errorf("it was accepted twice: %q", told)
			}
			first = rest
		}
	}
	for i, line := range told {
		want := map[bool]string{true: "duplicate " + first, false: "conflict " + first}[i < 4]
		if line != want && line != "accepted "+first {
			t.Errorf("replica %d was told %q; of all: %q", i, line, told)
		}
	}
	for _, err := range rn.Continue(t.Context(), chat, "") {
		must(t, err)
	}
	if open := s.waits(); len(open) > 0 || entered.Load() != 1 {
		t.Errorf("entered %d times; there wait %v", entered.Load(), open)
	}
}
