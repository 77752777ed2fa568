package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// throughPooler opens a store through a pooler, with a connection of its own to listen.
func throughPooler(
	t *testing.T, pooler string, server *postgrestest.Server, schema string,
) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), pooler, &postgres.Options{Schema: schema,
		NoPreparedStatements: true, Listen: server.URL()})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// Behind a pooler that hands each transaction another connection, the store is
// what it is elsewhere.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	at := postgrestest.Shared(t).Pooler(t)
	suite(t, func(t *testing.T, server *postgrestest.Server, schema string) kvstore.Store {
		return throughPooler(t, at, server, schema)
	})
}

// Sessions of two processes run there at once, wait, are answered by the other
// process, and come to their ends.
func TestSessionsBehindAPooler(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	at, schema := server.Pooler(t), migrated(t, server)
	process := func() *runner.Runner {
		a, err := agent.New(agent.Config{Name: "shop", Tools: []tool.Tool{waiting("order", tool.Once)},
			Model: fakellm.New(fakellm.Calls("order", `{"text":"book"}`), fakellm.Says("Done."))})
		must(t, err)
		rn, err := runner.New(a, session.NewStore(throughPooler(t, at, server, schema), nil), nil)
		must(t, err)
		t.Cleanup(func() { must(t, rn.Close()) })
		return rn
	}
	one, two := process(), process()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			id, ctx := fmt.Sprint("s", i), context.Background()
			for _, err := range one.Run(ctx, "ada", id, llm.UserText("Go."), nil) {
				if err != nil {
					t.Error(err)
				}
			}
			p, err := two.Find(ctx, runner.Ref{Tool: "order", Key: "book", Session: id}, "")
			if err != nil {
				t.Error(err)
				return
			}
			resumed, err := two.Resume(ctx, id, runner.Complete(p.ID, "ci", text("sent")))
			if err != nil {
				t.Error(err)
				return
			}
			var last event.Event
			for ev, err := range resumed.Events(ctx) {
				if last = ev; err != nil {
					t.Error(err)
				}
			}
			if end, over := last.(event.End); !over || end.Finish != event.FinishStop {
				t.Errorf("%s ends with %+v", id, last)
			}
		})
	}
	all.Wait()
}
