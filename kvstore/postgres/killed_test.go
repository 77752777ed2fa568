package postgres_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// engine keeps each history in a schema of its own.
func engine(server *postgrestest.Server) fermatatest.Engine {
	return fermatatest.Engine{Name: "postgres", New: func() (fermatatest.Place, error) {
		p := &place{server: server, schema: "test_" + strings.ToLower(rand.Text()[:16])}
		return p, p.migrate()
	}}
}

type place struct {
	server *postgrestest.Server
	schema string
}

func (p *place) migrate() error {
	return withConn(p.server, func(ctx context.Context, c conn) error {
		return postgres.Migrate(ctx, c, &postgres.MigrateOptions{Schema: p.schema})
	})
}

func (p *place) Open() (kvstore.Store, error) {
	return postgres.Open(context.Background(), p.server.URL()+"&pool_max_conns=2",
		&postgres.Options{Schema: p.schema})
}

func (p *place) Remove() error {
	return withConn(p.server, func(ctx context.Context, c conn) error {
		_, err := c.Exec(ctx, "DROP SCHEMA "+p.schema+" CASCADE")
		return err
	})
}

// The scenarios of fermatatest that commit in the most ways are cut on
// PostgreSQL as they are in memory.
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	every := 18 // a short test; FERMATA_TESTS=full cuts each write
	if os.Getenv("FERMATA_TESTS") == "full" {
		every = 1
	}
	fermatatest.Run(t, &fermatatest.Options{
		Engines: []fermatatest.Engine{engine(postgrestest.Shared(t))}, Every: every,
	}, scenarios()...)
}

type textIn struct {
	Text string `json:"text"`
}

type textOut = textIn

func text(s string) json.RawMessage {
	b, _ := json.Marshal(textOut{s})
	return b
}

// waiting waits for an outside job.
func waiting(name string, e tool.Effect) tool.Tool {
	return tool.Must(tool.Func(
		tool.Spec{Name: name, Description: "One of a test.", Effect: e, MayPause: true},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			return tool.Pending[textOut](tool.Await{Key: in.Text, Timeout: time.Hour}), nil
		}))
}

func instant(name string, e tool.Effect) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name, Description: "One of a test.", Effect: e},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			return tool.Done(textOut{"done: " + in.Text}), nil
		}))
}

func scenarios() []fermatatest.Scenario {
	world := func(c agent.Config) func() fermatatest.World {
		c.Name = "ops"
		return func() fermatatest.World {
			return fermatatest.World{Agent: func() agent.Config { return c }}
		}
	}
	hello := fermatatest.Message("m1", "Please do it.")
	gate := interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"deploy"}})
	large := text(strings.Repeat("x", 200<<10))
	return []fermatatest.Scenario{{
		Name: "two in parallel, once",
		World: world(agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Once), instant("work", tool.Once)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`).And("work", `{"text":"a"}`),
				fakellm.Says("Done.")),
		}),
		Inputs: []fermatatest.Input{hello,
			fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2")))},
	}, {
		Name: "approval, then a large answer, idempotent",
		World: world(agent.Config{
			Tools:        []tool.Tool{waiting("deploy", tool.Idempotent)},
			Interceptors: interceptor.Chain{gate},
			Model:        fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done.")),
		}),
		Inputs: []fermatatest.Input{hello,
			fermatatest.Answer("deploy", runner.Approve("", "ada", "fine")),
			fermatatest.Answer("deploy", runner.Complete("", "ci", large)).OfPause(2)},
	}}
}
