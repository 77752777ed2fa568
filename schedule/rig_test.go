package schedule_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/schedule"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// rig is a store and the process that works on it, in the time of a bubble.
type rig struct {
	*schedule.Calendar
	t      *testing.T
	engine *kvstore.Memory
	rn     *runner.Runner
	clerk  agent.Config // who works in the sessions that schedules begin
	queue  int          // runner.Options.Queue
	others []*agent.Agent
	log    *slog.Logger                                  // nil: none
	alone  bool                                          // the runner has no schedule.Agent
	asks   func(context.Context, runner.Operation) error // runner.Options.Authorizer
	stop   context.CancelFunc
	work   chan error
}

// bubble runs a test in the time of a bubble, which begins with the year 2000.
func bubble(t *testing.T, f func(*testing.T, *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, engine: kvstore.NewMemory(),
			clerk: agent.Config{Name: "clerk", Model: fakellm.Echo()}}
		r.open()
		f(t, r)
		r.close()
		for p, err := range session.NewStore(r.engine, nil).Check(t.Context()) {
			t.Errorf("the store is left with %v, %v", p, err)
		}
		must(t, r.engine.Close())
	})
}

func (r *rig) open() {
	r.t.Helper()
	clerk, err := agent.New(r.clerk)
	must(r.t, err)
	keeper, err := agent.New(schedule.Agent())
	must(r.t, err)
	store := session.NewStore(r.engine, nil)
	log := r.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	agents := append(r.others, keeper)
	if r.alone {
		agents = r.others
	}
	r.rn, err = runner.New(clerk, store, &runner.Options{Agents: agents, Logger: log, Queue: r.queue,
		Authorizer: r.asks})
	must(r.t, err)
	r.Calendar = schedule.New(r.rn)
}

func (r *rig) close() {
	r.t.Helper()
	r.rest()
	must(r.t, r.rn.Close())
}

// works starts a worker.
func (r *rig) works() {
	var ctx context.Context
	ctx, r.stop = context.WithCancel(r.t.Context())
	r.work = make(chan error, 1)
	go func() { r.work <- r.rn.Work(ctx, &runner.WorkOptions{Poll: time.Hour}) }()
	synctest.Wait()
}

// rest ends the worker, if there is one.
func (r *rig) rest() {
	r.t.Helper()
	if r.stop == nil {
		return
	}
	r.stop()
	if err := <-r.work; err != nil && !errors.Is(err, context.Canceled) {
		r.t.Error(err)
	}
	r.stop = nil
}

// restart ends the process, and begins another one after a while.
func (r *rig) restart(after time.Duration) {
	r.t.Helper()
	r.close()
	time.Sleep(after)
	r.engine = r.engine.Reopen()
	r.open()
	r.works()
}

// sessions lists the sessions that are no schedules.
func (r *rig) sessions() (ids []string) {
	r.t.Helper()
	for s, err := range r.rn.Sessions(r.t.Context(), session.Filter{Agent: "clerk"}, "test") {
		must(r.t, err)
		ids = append(ids, s.ID)
	}
	return ids
}

// has compares the sessions that are no schedules.
func (r *rig) has(want ...string) {
	r.t.Helper()
	synctest.Wait()
	if got := r.sessions(); !slices.Equal(got, want) {
		r.t.Errorf("there are the sessions %q; want %q", got, want)
	}
}

// said lists what users have said in a session.
func (r *rig) said(id string) (all []string) {
	r.t.Helper()
	t, err := r.rn.Show(r.t.Context(), id, "test")
	must(r.t, err)
	for _, m := range t.History {
		if m.Role == llm.RoleUser {
			all = append(all, m.Text())
		}
	}
	return all
}

// stands returns how a schedule stands.
func (r *rig) stands(id string) schedule.Standing {
	r.t.Helper()
	synctest.Wait()
	is, err := r.Show(r.t.Context(), id, "test")
	must(r.t, err)
	return is
}

// nightly is a schedule of a session each night.
func nightly() schedule.Schedule {
	return schedule.Schedule{
		ID: "nightly", User: "ada", Cron: "30 2 * * *",
		Do: schedule.Target{Agent: "clerk", Message: llm.UserText("Report.")},
	}
}

// held is an agent whose sessions wait until they are answered.
func held() agent.Config {
	wait := tool.Must(tool.Func(tool.Spec{Name: "wait", Effect: tool.Idempotent, MayPause: true},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{}), nil
		}))
	return agent.Config{Name: "clerk", Tools: []tool.Tool{wait},
		Model: fakellm.New(fakellm.From(func(r llm.Request) fakellm.Turn {
			if r.Messages[len(r.Messages)-1].Role == llm.RoleUser {
				return fakellm.Calls("wait", `{}`)
			}
			return fakellm.Says("Done.")
		}).Forever())}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}
