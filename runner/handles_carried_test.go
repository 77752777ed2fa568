package runner_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// deadOwner is a rig of which the process is as good as dead: it is cut off from
// the engine while a handle named a runs. Other is another process.
func deadOwner(t *testing.T, effect tool.Effect) (r *rig, other *runner.Runner) {
	t.Helper()
	var entries atomic.Int32
	build := stateful(t, "build", effect,
		func(ctx context.Context, _ target) (tool.Result[string], error) {
			if entries.Add(1) > 1 {
				return tool.Done("built again"), nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
	cut := &cable{}
	r = newRig(t, agent.Config{Tools: []tool.Tool{build}, Model: messages(says("Hi."))},
		&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
			cut.Store = kv
			return cut
		}})
	r.say("Hello.").finished(event.FinishStop)
	r.spawned("a", "build", `{"target":"x"}`)
	synctest.Wait()
	cut.cut.Store(true)
	ag, err := agent.New(r.config)
	must(t, err)
	other, err = runner.New(ag, public.NewStore(hidden(cut.Store), nil),
		&runner.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { other.Close(); r.Close(); cut.cut.Store(false) })
	return r, other
}

// Who looks at a handle whose process has died settles it, with no worker: a
// Fetch, once the lease is over, and an Await. What may run again has run.
func TestWhoLooksCarriesAHandleOn(t *testing.T) {
	looks := map[string]func(*testing.T, *runner.Runner) tool.Handle{
		"fetch": func(t *testing.T, other *runner.Runner) tool.Handle {
			h, err := other.Fetch(t.Context(), chat, "a", user)
			must(t, err)
			if h.State != tool.HandleRunning {
				t.Errorf("while the lease stands, it is %+v", h)
			}
			time.Sleep(public.DefaultLease + public.DefaultLease/10)
			h, err = other.Fetch(t.Context(), chat, "a", user)
			must(t, err)
			return h
		},
		"await": func(t *testing.T, other *runner.Runner) tool.Handle {
			all, err := other.Await(t.Context(), chat, tool.HandleWait{Any: []string{"a"}}, user)
			must(t, err)
			return all[0]
		},
	}
	for effect, want := range map[tool.Effect]string{
		tool.Once: "unknown", tool.Idempotent: "built again", tool.ReadOnly: "built again",
	} {
		for name, look := range looks {
			t.Run(name+" "+string(effect), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, other := deadOwner(t, effect)
					h := look(t, other)
					if name == "fetch" && effect != tool.Once { // it runs, and isn't waited for
						synctest.Wait()
						var err error
						h, err = other.Fetch(t.Context(), chat, "a", user)
						must(t, err)
					}
					if h.State != tool.HandleStopped || !strings.Contains(string(h.Output), want) {
						t.Errorf("it is %s, and comes to %s", h.State, h.Output)
					}
				})
			})
		}
	}
}

// Where one process has the engine, the first look after its death settles the
// handle.
func TestALookAfterARestartCarriesAHandleOn(t *testing.T) {
	entered := make(chan struct{})
	build := stateful(t, "build", tool.Once,
		func(ctx context.Context, _ target) (tool.Result[string], error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		})
	r := newRig(t, agent.Config{Tools: []tool.Tool{build}, Model: messages(says("Hi."))},
		&rigOptions{memory: true})
	r.say("Hello.").finished(event.FinishStop)
	r.spawned("a", "build", `{"target":"x"}`)
	<-entered
	r.restart()
	h, err := r.Fetch(t.Context(), chat, "a", user)
	must(t, err)
	if h.State != tool.HandleStopped || !strings.Contains(string(h.Output), "unknown") {
		t.Errorf("it is %s, and comes to %s", h.State, h.Output)
	}
	r.told(0)
}
