package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// version is a worker's process of one version of a program.
type version struct {
	kv      *postgres.Store
	rn      *runner.Runner
	entered chan string   // the bodies of the tool that runs
	finish  chan struct{} // closed to have those end
	stop    func()        // ends it in order
}

// deploy starts a worker.
func deploy(t *testing.T, server *postgrestest.Server, schema string) *version {
	t.Helper()
	v := &version{entered: make(chan string, 100), finish: make(chan struct{}),
		kv: open(t, server, &postgres.Options{Schema: schema})}
	build := tool.Must(tool.Func(
		tool.Spec{Name: "build", Description: "One of a test.", Effect: tool.Idempotent},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			v.entered <- in.Text
			<-v.finish
			return tool.Done(in), nil
		}))
	a, err := agent.New(agent.Config{Name: "shop",
		Tools: []tool.Tool{waiting("order", tool.Once), build},
		Model: fakellm.New(fakellm.Calls("order", `{"text":"book"}`).And("build", `{"text":"a"}`),
			fakellm.Says("Done."))})
	must(t, err)
	v.rn, err = runner.New(a, session.NewStore(v.kv, nil), nil)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		if err := v.rn.Work(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Work: %v", err)
		}
	})
	v.stop = sync.OnceFunc(func() {
		cancel()
		working.Wait()
		must(t, v.rn.Close())
		must(t, v.kv.Close())
	})
	t.Cleanup(v.stop)
	return v
}

// A process is replaced by the next version, which has migrated the schema
// before, while calls wait and run: what waited is answered by the next one, what
// ran comes to its end in the old one and is entered no second time, and no
// session waits for a lease to end.
func TestReplacedByTheNextVersion(t *testing.T) {
	t.Parallel()
	const sessions = 6
	server := postgrestest.Shared(t)
	schema := migrated(t, server)
	before := deploy(t, server, schema)
	for i := range sessions {
		_, err := before.rn.Send(t.Context(), "ada", fmt.Sprint("s", i), llm.UserText("Go."), nil)
		must(t, err)
	}
	for range sessions {
		<-before.entered
	}
	// Both versions work with the schema that the next one makes.
	sql(t, server, "INSERT INTO "+schema+".migrations VALUES (2, 1)")
	next := deploy(t, server, schema)
	begun := time.Now()
	var all sync.WaitGroup
	all.Go(before.stop)
	close(before.finish)
	for i := range sessions {
		id := fmt.Sprint("s", i)
		p, err := next.rn.Find(t.Context(), runner.Ref{Tool: "order", Key: "book", Session: id}, "")
		must(t, err)
		_, err = next.rn.Resume(t.Context(), id, runner.Complete(p.ID, "ci", text("sent")))
		must(t, err)
		all.Go(func() {
			var end event.End
			for e, err := range next.rn.Follow(t.Context(), id, "", nil) {
				must(t, err)
				if last, over := e.(event.End); over {
					end = last
				}
			}
			if end.Finish != event.FinishStop {
				t.Errorf("%s ended as %q", id, end.Finish)
			}
		})
	}
	all.Wait()
	if took := time.Since(begun); took > session.DefaultLease {
		t.Errorf("it took %v", took)
	}
	if n := len(next.entered) + len(before.entered); n > 0 {
		t.Errorf("%d bodies were entered again", n)
	}
}
