package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// runsThenAsks is a tool whose calls take input as soon as they run, and ask
// two questions once they may go on.
func runsThenAsks(t *testing.T, entered, goOn chan struct{}) tool.Tool {
	t.Helper()
	own := rawTool{tool.Spec{Name: "build", MayPause: true, Effect: tool.Idempotent,
		Mailbox: []tool.MailboxEvent{{Name: tool.InputEvent}}},
		func(_ context.Context, c tool.Call) (tool.Execution, error) {
			switch {
			case c.Answer == nil:
				close(entered)
				<-goOn
			case c.Pauses == 2:
				return tool.Execution{Output: json.RawMessage(`"both"`)}, nil
			}
			return tool.Execution{Await: &tool.Await{Prompt: "And?", Mode: tool.ModeReenter}}, nil
		}}
	made, err := handle.Stateful(own, nil)
	must(t, err)
	return made
}

// One input that two callers give counts once, also where one of them has seen
// the handle run, and the other one has seen it ask. Another input under its
// delivery is refused.
func TestOneInputOfTwoCallersCountsOnce(t *testing.T) {
	for value, want := range map[string]error{`"x"`: nil, `"y"`: session.ErrResumeConflict} {
		entered, goOn := make(chan struct{}), make(chan struct{})
		r := newRig(t, agent.Config{Tools: []tool.Tool{runsThenAsks(t, entered, goOn)},
			Model: messages(says("Hi."))}, &rigOptions{memory: true})
		r.say("Hello.").finished(event.FinishStop)
		s := r.spawned("a", "build", `{}`)
		<-entered
		asks := func(n int) {
			changed, stop := r.store.WatchAll(s.Session)
			defer stop()
			for {
				st, err := r.store.Load(t.Context(), s.Session)
				must(t, err)
				if c := st.Call(s.Call); c.Status == session.Pending && c.Pauses == n {
					return
				}
				<-changed
			}
		}
		give := func(value string) (session.Receipt, error) {
			return r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user,
				Value: json.RawMessage(value), Delivery: "1"})
		}
		r.before(func() {
			close(goOn)
			asks(1)
			if rc, err := give(`"x"`); err != nil || rc.Duplicate {
				t.Errorf("the first: %+v, %v", rc, err)
			}
			asks(2)
		})
		rc, err := give(value)
		if !errors.Is(err, want) || err == nil && !rc.Duplicate {
			t.Errorf("the second, of %s: %+v, %v", value, rc, err)
		}
		c, err := r.Call(t.Context(), s.Session, s.Call, user)
		must(t, err)
		if c.Mail.Count != 0 || c.Pauses != 2 || c.Status != session.Pending {
			t.Errorf("%+v", c)
		}
		must(t, r.Abort(t.Context(), chat, "a", user, ""))
		r.awaited("a")
		r.told(0)
	}
}

// Of many callers that give one input at once, one is told that it counts, and
// the others that it counted before.
func TestManyCallersGiveOneInput(t *testing.T) {
	r := newRig(t, agent.Config{Tools: []tool.Tool{asksTwice(t)}, Model: messages(says("Hi."))}, nil)
	r.say("Hello.").finished(event.FinishStop)
	s := r.spawned("a", "build", `{}`)
	for question := 1; question <= 2; question++ {
		watch(t, r.Follow(t.Context(), s.Session, user, nil)).finished(event.FinishPaused)
		counted := 0
		var mu sync.Mutex
		var race sync.WaitGroup
		for range 20 {
			race.Go(func() {
				rc, err := r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user,
					Value: json.RawMessage(`"go on"`), Delivery: fmt.Sprint(question)})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				} else if !rc.Duplicate {
					counted++
				}
			})
		}
		race.Wait()
		if counted != 1 {
			t.Errorf("question %d: the input counts %d times", question, counted)
		}
	}
	if h := r.awaited("a"); string(h.Output) != `"both"` {
		t.Errorf("%+v", h)
	}
	must(t, r.Close())
	r.sound()
}
