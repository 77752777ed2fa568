package runner_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A caller breaks out of the loop at the first event of a child, or of its own
// session after the call. The child goes on to its end without a worker, and
// its parent has the result.
func TestBreakingOutOfTheLoopStopsNoChild(t *testing.T) {
	for name, at := range map[string]func(event.Event) bool{
		"at the child's event": func(ev event.Event) bool { _, ok := ev.(event.Nested); return ok },
		"at the pause":         func(ev event.Event) bool { _, ok := ev.(event.Pause); return ok },
	} {
		t.Run(name, func(t *testing.T) {
			c, _, let := heldUpChild(t)
			close(let) // at the first of its events, the child has yet to store what it says
			r := newRig(t, c, &rigOptions{memory: true})
			for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
				must(t, err)
				if at(ev) {
					break
				}
			}
			waitFor(t, func() bool { // the drive that was left gives the session up
				st, err := r.store.Load(t.Context(), chat)
				return err == nil && st.Open() == 0 && !r.store.HeldHere(chat)
			})
			r.carryOn().finished(event.FinishStop)
			if got := r.outputs(); len(got) != 1 || got[0] != `"Done it."` {
				t.Errorf("outputs are %q", got)
			}
			must(t, r.Close())
			r.sound()
		})
	}
}

// A child's body ignores its context. Close returns in its bound all the same,
// although the caller of the run has left long ago, and what the body returns
// then is refused. The next runner goes on with the child.
func TestCloseEndsChildrenInItsBound(t *testing.T) {
	entered, release := make(chan string, 1), make(chan struct{})
	config := func(turns ...fakellm.Turn) agent.Config {
		helper := nestedTool(t, "helper", fakellm.New(append([]fakellm.Turn{
			fakellm.Calls("slow", `{"text":"x"}`)}, turns...)...), stubborn(entered, release))
		return agent.Config{Name: "ops", Tools: []tool.Tool{helper}, Model: fakellm.New(
			fakellm.Calls("helper", `{"what":"x"}`), fakellm.Says("I see."))}
	}
	const bound = 100 * time.Millisecond
	r := newRig(t, config(), &rigOptions{memory: true, runner: &runner.Options{
		CloseTimeout: bound, Logger: slog.New(slog.DiscardHandler)}})
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan *seen, 1)
	go func() { ended <- watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil)) }()
	<-entered
	leave()
	<-ended
	began := time.Now()
	if err := r.Close(); err == nil {
		t.Error("Close says nothing of a body that still runs")
	}
	if took := time.Since(began); took < bound || took > 50*bound {
		t.Errorf("Close took %v, of %v", took, bound)
	}
	close(release)
	r.config = config(fakellm.Says("It is done, or not."))
	r.restart()
	r.carryOn().finished(event.FinishStop)
	if got := r.outputs(); len(got) != 1 || got[0] != `"It is done, or not."` {
		t.Errorf("outputs are %q", got)
	}
	must(t, r.Close())
	r.sound()
}
