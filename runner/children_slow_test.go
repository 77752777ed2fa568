package runner_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// chatty is a config whose two nested agents make large results, so many, one
// after the other. Told "quiet", they make none.
func chatty(t *testing.T, results, bytes int, made *atomic.Int32) agent.Config {
	t.Helper()
	large := tool.Must(tool.Func(tool.Spec{Name: "large", Effect: tool.ReadOnly},
		func(context.Context, struct{}) (tool.Result[string], error) {
			made.Add(1)
			return tool.Done(strings.Repeat("x", bytes)), nil
		}))
	helper := nestedTool(t, "helper", fakellm.New(append(slices.Repeat([]fakellm.Turn{
		fakellm.From(func(q llm.Request) fakellm.Turn {
			if fakellm.LastUserText(q) == "quiet" {
				return fakellm.Says("Quiet.")
			}
			return fakellm.Calls("large", `{}`)
		})}, results), fakellm.Says("That was all."))...), large)
	return agent.Config{Name: "ops", Tools: []tool.Tool{helper}, Limits: agent.Limits{Turns: 200}, Model: fakellm.New(
		fakellm.From(func(q llm.Request) fakellm.Turn {
			if fakellm.LastUserText(q) == "quiet" {
				return fakellm.Calls("helper", `{"what":"quiet"}`)
			}
			return fakellm.Calls("helper", `{"what":"a"}`).And("helper", `{"what":"b"}`)
		}), fakellm.Says("I see."))}
}

// The caller of a Run looks at the first event of its children for very long.
// They go on until a few megabytes wait for it, and no further. Meanwhile they
// take no place from the child of another root, although there is but one. Once
// the caller reads on, nothing is missing, and the run ends.
func TestASlowReaderHoldsAFewMegabytesAndNoOthersPlace(t *testing.T) {
	const results, bytes = 12, 512 << 10
	var made atomic.Int32
	r := newRig(t, chatty(t, results, bytes, &made),
		&rigOptions{memory: true, runner: &runner.Options{Children: 1}})
	looks, reads := make(chan struct{}), make(chan struct{})
	ended := make(chan *seen, 1)
	go func() {
		s, slow := &seen{t: t}, false
		for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
			if _, ok := ev.(event.Nested); ok && !slow {
				slow = true
				close(looks)
				<-reads
			}
			if s.events = append(s.events, ev); err != nil {
				s.err = err
			}
			if end, ok := ev.(event.End); ok {
				s.end = end
			}
		}
		ended <- s
	}()
	<-looks
	watch(t, r.Run(t.Context(), user, "chat-2", llm.UserText("quiet"), nil)).finished(event.FinishStop)
	if n := made.Load(); n > 10 {
		t.Errorf("%d results of %d bytes were made while none was read", n, bytes)
	}
	close(reads)
	s := (<-ended).finished(event.FinishStop)
	got, over := map[string]int{}, map[string]bool{}
	for _, n := range of[event.Nested](s) {
		switch ev := n.Event.(type) {
		case event.Result:
			got[n.Session]++
		case event.End:
			over[n.Session] = ev.Finish == event.FinishStop
		}
	}
	if len(got) != 2 || len(over) != 2 {
		t.Errorf("the caller has seen results of %d children, and the end of %d", len(got), len(over))
	}
	for child, n := range got {
		if n != results || !over[child] {
			t.Errorf("of %s the caller has seen %d results of %d, and its end: %v",
				child, n, results, over[child])
		}
	}
	must(t, r.Close())
	r.sound()
}

// A caller who has looked for very long, and leaves, holds nothing up.
func TestASlowReaderThatLeaves(t *testing.T) {
	var made atomic.Int32
	const results = 12
	r := newRig(t, chatty(t, results, 512<<10, &made), &rigOptions{memory: true})
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		must(t, err)
		if _, ok := ev.(event.Nested); ok {
			waitFor(t, func() bool { return made.Load() >= 4 })
			break
		}
	}
	waitFor(t, func() bool { return made.Load() == 2*results })
	waitFor(t, func() bool {
		st, err := r.store.Load(t.Context(), chat)
		return err == nil && st.Open() == 0
	})
	r.carryOn().finished(event.FinishStop)
	must(t, r.Close())
	r.sound()
}
