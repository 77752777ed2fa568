package machines

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/fleet"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// Four replicas are sent the same approval at once, and a fifth is sent a denial
// after it, each a process of its own: it is accepted once, three are told that
// it was, and the denial who approved, and when. The body is entered once.
func TestFourReplicasOneApproval(t *testing.T) {
	engines := map[string]func(t *testing.T) fleet.Engine{
		"PostgreSQL": func(t *testing.T) fleet.Engine { return newPostgres(t, 0) },
		"etcd":       func(t *testing.T) fleet.Engine { return newEtcd(t, 0) },
	}
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) { oneApproval(t, engine(t)) })
	}
}

func oneApproval(t *testing.T, e fleet.Engine) {
	const chat = "chat-1"
	var entered atomic.Int64
	refund := tool.Must(tool.Func(
		tool.Spec{Name: "refund", Description: "One of a test.", Effect: tool.Once},
		func(_ context.Context, in struct{}) (tool.Result[string], error) {
			entered.Add(1)
			return tool.Done("paid"), nil
		}))
	a, err := agent.New(agent.Config{Name: "shop", Tools: []tool.Tool{refund},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		Model:        fakellm.New(fakellm.Calls("refund", `{}`), fakellm.Says("Done."))})
	must(t, err)
	rn, err := runner.New(a, session.NewStore(e.Store(), nil), nil)
	must(t, err)
	defer rn.Close()
	waits := func() (all []tool.Pause) {
		for p, err := range rn.Pending(t.Context(), session.PauseFilter{}, "") {
			must(t, err)
			all = append(all, p)
		}
		return all
	}
	for _, err := range rn.Run(t.Context(), "ada", chat, llm.UserText("Refund it."), nil) {
		must(t, err)
	}
	pause := waits()[0].ID

	var replicas []*replica
	for i, word := range []string{"approve", "approve", "approve", "approve", "deny"} {
		name := fmt.Sprint("person-", i)
		replicas = append(replicas, startReplica(t, decision{e.URL(name), chat, pause, name, word}))
	}
	told := make([]string, len(replicas))
	var all sync.WaitGroup
	for i, r := range replicas[:4] {
		all.Go(func() { told[i] = r.told() })
	}
	all.Wait()
	told[4] = replicas[4].told()
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
	if open := waits(); len(open) > 0 || entered.Load() != 1 {
		t.Errorf("entered %d times; there wait %v", entered.Load(), open)
	}
}
