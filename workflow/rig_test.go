package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ada  = "ada"
	here = "w-1" // the session of a workflow
)

// rig is a runner over a store in memory.
type rig struct {
	*runner.Runner
	t      *testing.T
	engine kvstore.Store
	store  *session.Store
}

func newRig(t *testing.T, agents ...*agent.Agent) *rig {
	t.Helper()
	r := &rig{t: t, engine: kvstore.NewMemory()}
	r.open(agents...)
	t.Cleanup(func() { r.Close() })
	return r
}

func (r *rig) open(agents ...*agent.Agent) {
	r.t.Helper()
	r.store = session.NewStore(r.engine, nil)
	var err error
	r.Runner, err = runner.New(agents[0], r.store, &runner.Options{Agents: agents[1:],
		Logger: slog.New(slog.DiscardHandler)})
	must(r.t, err)
}

// restart closes the runner, as a deploy does, and opens another one.
func (r *rig) restart(agents ...*agent.Agent) {
	r.t.Helper()
	must(r.t, r.Close())
	r.open(agents...)
}

// run is what a run has come to.
type run struct {
	end  event.End
	err  error
	text string // what was said last
}

// say runs a session with a message of its user.
func (r *rig) say(m llm.Message) run {
	r.t.Helper()
	return r.take(r.Run(r.t.Context(), ada, here, m, nil))
}

// carryOn continues it.
func (r *rig) carryOn() run {
	r.t.Helper()
	return r.take(r.Continue(r.t.Context(), here, ada))
}

func (r *rig) take(events func(func(event.Event, error) bool)) (out run) {
	for ev, err := range events {
		if err != nil {
			out.err = err
		}
		switch ev := ev.(type) {
		case event.Message:
			if len(ev.Message.ToolCalls()) == 0 {
				out.text = ev.Message.Text()
			}
		case event.End:
			out.end = ev
		}
	}
	return out
}

// sound closes the runner and checks the store.
func (r *rig) sound() {
	r.t.Helper()
	must(r.t, r.Close())
	for p, err := range hold.Of(r.store).Check(r.t.Context()) {
		must(r.t, err)
		r.t.Error(p)
	}
}

// step is the handle of a step.
func (r *rig) step(name string) tool.Handle {
	r.t.Helper()
	h, err := r.Fetch(r.t.Context(), here, name, ada)
	must(r.t, err)
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type in struct {
	Text string `json:"text,omitempty"`
	N    int    `json:"n,omitempty"`
}

type out struct {
	Text string `json:"text"`
}

// fn is a tool of a Go function.
func fn(name string, f func(context.Context, in) (out, error)) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name, Effect: tool.Idempotent},
		func(ctx context.Context, v in) (tool.Result[out], error) { return tool.Of(f(ctx, v)) }))
}

// echo comes to its text.
func echo(name string) tool.Tool {
	return fn(name, func(_ context.Context, v in) (out, error) { return out{v.Text}, nil })
}

// asks waits for a person, whose answer it comes to.
func asks(name string) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name, MayPause: true, Effect: tool.Idempotent},
		func(_ context.Context, v in) (tool.Result[out], error) {
			return tool.NeedInput[out](v.Text), nil
		}))
}

// answer answers the step of a name.
func (r *rig) answer(step, text string) {
	r.t.Helper()
	h := r.step(step)
	if h.Pause == nil {
		r.t.Fatalf("step %s waits for nothing: %+v", step, h)
	}
	payload, err := json.Marshal(out{text})
	must(r.t, err)
	_, err = r.Resume(r.t.Context(), h.Session, runner.Complete(h.Pause.ID, ada, payload))
	must(r.t, err)
}

var errBroken = errors.New("the machine is broken")

// works has a worker carry a session on until it ends, and returns how it does.
func (r *rig) works(id string) (end event.End) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	err := r.Work(ctx, &runner.WorkOptions{OnEvent: func(of string, ev event.Event, _ error) {
		if e, ok := ev.(event.End); ok && of == id && e.Finish != event.FinishPaused {
			end = e
			cancel()
		}
	}})
	if ctx.Err() == nil {
		r.t.Fatal(err)
	}
	return end
}
