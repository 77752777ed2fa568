package runner_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// What ends a call reaches the Cancel of its tool in the words of who ended it,
// also where the call is a nested agent's. The caller's model reads that the
// agent is stopped.
func TestAReasonReachesCancelAsGiven(t *testing.T) {
	cancelCall := func(r *rig) error {
		_, err := r.Cancel(r.t.Context(), chat, r.onlyCall(), "bob", "changed mind")
		return err
	}
	cancelSession := func(r *rig) error {
		return r.CancelSession(r.t.Context(), chat, "bob", "changed mind")
	}
	expires := func(*rig) error { time.Sleep(31 * time.Minute); return nil }
	for name, test := range map[string]struct {
		nested   bool
		end      func(*rig) error
		cause    tool.Cause
		by, want string
	}{
		"a call":                     {false, cancelCall, tool.CauseCancelled, "bob", "changed mind"},
		"a session":                  {false, cancelSession, tool.CauseRunEnded, "bob", "changed mind"},
		"the call above":             {true, cancelCall, tool.CauseRunEnded, "bob", "changed mind"},
		"the session above":          {true, cancelSession, tool.CauseRunEnded, "bob", "changed mind"},
		"the time of the call above": {true, expires, tool.CauseRunEnded, "deadline", "the call that waits for it is over: expired"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				off := newCallsOff(nil)
				tools := []tool.Tool{build(off, tool.Once)}
				first := fakellm.Calls("build", `{"text":"a"}`)
				if test.nested {
					helper, err := agent.New(agent.Config{Name: "helper", Tools: tools,
						Model: fakellm.New(first)})
					must(t, err)
					nested, err := agenttool.New[task, string](helper,
						&agenttool.Options[task]{Timeout: 30 * time.Minute})
					must(t, err)
					tools, first = []tool.Tool{nested}, fakellm.Calls("helper", `{"what":"Build."}`)
				}
				r := newRig(t, agent.Config{Tools: tools,
					Model: fakellm.New(first, fakellm.Says("Well."))}, &rigOptions{memory: true})
				r.say("Go.").finished(event.FinishPaused)
				must(t, test.end(r))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_ = r.Work(ctx, nil)
				all := off.seen()
				if len(all) != 1 || all[0].Cause != test.cause || all[0].Actor != test.by ||
					all[0].Why != test.want {
					t.Errorf("it is told %+v", all)
				}
				out := strings.Join(r.outputs(), "")
				want := "is now called off"
				if test.nested {
					want = "The agent is now stopped"
				}
				if !strings.Contains(out, want) {
					t.Errorf("the model reads %s", out)
				}
				must(t, r.Close())
				r.sound()
			})
		})
	}
}
