package runner_test

import (
	"context"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// overtaken is a rig on an engine that processes share, and another runner on it.
func overtaken(t *testing.T, m llm.Model) (r *rig, second *runner.Runner) {
	r = newRig(t, agent.Config{Model: m}, &rigOptions{memory: true, wrap: hidden})
	return r, r.another()
}

// before has f run before the next write.
func (r *rig) before(f func()) {
	first := true
	r.faults.Before(func(faultkv.Call) {
		if first {
			first = false
			f()
		}
	})
}

// A run of a message that another process brings at the same time takes it once.
func TestOneMessageThroughTwoProcesses(t *testing.T) {
	asked := 0
	script := messages(says("Hello."), says("Hello again."))
	r, second := overtaken(t, modelFunc(func(req llm.Request) []llm.Event { asked++; return script(req) }))
	o := &runner.RunOptions{MessageID: "m1"}
	r.before(func() { watch(t, r.Run(t.Context(), user, chat, llm.UserText("Hi."), o)).finished(event.FinishStop) })
	watch(t, second.Run(t.Context(), user, chat, llm.UserText("Hi."), o)).finished(event.FinishStop)
	if got := r.transcript().History; len(got) != 2 || asked != 1 {
		t.Errorf("the history is %v, and the model was asked %d times", got, asked)
	}
}

// interrupted is a session whose model's answer is due, and which nobody carries on.
func interrupted(t *testing.T, asked *int) (r *rig, second *runner.Runner) {
	script := messages(says("Hello."), says("Hello once more."))
	r, second = overtaken(t, modelFunc(func(req llm.Request) []llm.Event { *asked++; return script(req) }))
	ctx, cancel := context.WithCancel(t.Context())
	r.before(cancel)
	watch(t, r.Run(ctx, user, chat, llm.UserText("Hi."), nil))
	if got := r.transcript(); got.Finish != event.FinishInterrupted || *asked != 0 {
		t.Fatalf("it is %q, and the model was asked %d times", got.Finish, *asked)
	}
	return r, second
}

// The model's answer was due when a drive began, and is there when the drive has its lease: the model isn't asked again.
func TestModelIsNotAskedForWhatIsThere(t *testing.T) {
	asked := 0
	r, second := interrupted(t, &asked)
	r.before(func() { r.carryOn().finished(event.FinishStop) })
	watch(t, second.Continue(t.Context(), chat)).finished(event.FinishStop)
	if got := r.transcript().History; len(got) != 2 || asked != 1 {
		t.Errorf("the history is %v, and the model was asked %d times", got, asked)
	}
}

// A caller leaves what somebody else has just finished: it stays finished.
func TestLeavingWhatIsFinished(t *testing.T) {
	asked := 0
	r, _ := interrupted(t, &asked)
	ctx, cancel := context.WithCancel(t.Context())
	reading := &reader{Store: r.kv, after: cancel} // before the drive does anything
	ag, err := agent.New(r.config)
	must(t, err)
	second, err := runner.New(ag, session.NewStore(reading, nil), nil)
	must(t, err)
	t.Cleanup(func() { second.Close() })
	r.before(func() { r.carryOn().finished(event.FinishStop) })
	watch(t, second.Continue(ctx, chat))
	if got := r.transcript(); got.Finish != event.FinishStop || asked != 1 {
		t.Errorf("it is %q, and the model was asked %d times", got.Finish, asked)
	}
}

// reader has something happen after each Get.
type reader struct {
	kvstore.Store
	after func()
}

func (r *reader) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	defer r.after()
	return r.Store.Get(ctx, key)
}
