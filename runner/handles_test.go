package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

type target struct {
	Target string `json:"target"`
}

// stateful is a tool of which handles are begun. Its body is f.
func stateful(
	t *testing.T, name string, effect tool.Effect,
	f func(context.Context, target) (tool.Result[string], error),
) tool.Tool {
	t.Helper()
	return underPolicy(t, name, effect, tool.HandlePolicy{}, f)
}

// underPolicy is stateful with that policy.
func underPolicy(
	t *testing.T, name string, effect tool.Effect, p tool.HandlePolicy,
	f func(context.Context, target) (tool.Result[string], error),
) tool.Tool {
	t.Helper()
	own, err := tool.Func(tool.Spec{Name: name, MayPause: true, Effect: effect}, f)
	must(t, err)
	made, err := handle.Stateful(own, &handle.Options{HandlePolicy: p})
	must(t, err)
	return made
}

// builds is a tool that builds at once.
func builds(t *testing.T) tool.Tool {
	return stateful(t, "build", tool.Once,
		func(_ context.Context, in target) (tool.Result[string], error) {
			return tool.Done("built " + in.Target), nil
		})
}

// A model begins two calls, awaits both, and reads their results.
func TestHandlesAreBegunAndAwaited(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`).
			And("build", `{"action":"spawn","id":"b","target":"y"}`),
		fakellm.Calls("await", `{"all":["a","b"]}`), fakellm.Says("Both."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t)}, Model: model}, nil)
	s := r.say("Go.")
	if s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	got := r.outputs()
	if len(got) != 3 || got[0] != `{"id":"a","state":"running","content":""}` {
		t.Fatalf("%q", got)
	}
	var all struct {
		Completed []struct{ ID, Result string }
		Pending   []any
	}
	must(t, json.Unmarshal([]byte(got[2]), &all))
	if len(all.Completed) != 2 || all.Completed[0].Result != "built x" ||
		all.Completed[1].Result != "built y" || len(all.Pending) != 0 {
		t.Errorf("%s", got[2])
	}
	must(t, r.Close())
	r.sound()
}

// An await that stands before the spawns that it names waits for them, and
// takes no slot of those that run.
func TestAnAwaitBindsToWhatItsTurnBegins(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("await", `{"all":["a"]}`).
			And("build", `{"action":"spawn","id":"a","target":"x"}`),
		fakellm.Says("Done."))
	r := newRig(t, agent.Config{Concurrency: 1, Tools: []tool.Tool{builds(t)}, Model: model}, nil)
	if s := r.say("Go."); s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	if got := r.outputs(); !strings.Contains(got[0], "built x") {
		t.Errorf("%q", got)
	}
	must(t, r.Close())
	r.sound()
}

// Calls that would give a name twice are refused, with all that name it; the
// others run.
func TestANameThatIsGivenTwiceIsRefused(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`).
			And("build", `{"action":"spawn","id":"a","target":"y"}`).
			And("build", `{"action":"fetch","id":"a"}`).And("await", `{"all":["a","b"]}`).
			And("build", `{"action":"spawn","id":"b","target":"z"}`),
		fakellm.Calls("await", `{"all":["b"]}`), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t)}, Model: model}, nil)
	if s := r.say("Go."); s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	for i, got := range r.outputs() {
		if refused := strings.Contains(got, "Handle `a` was not begun"); refused != (i < 4) {
			t.Errorf("call %d comes to %s", i, got)
		}
	}
	must(t, r.Close())
	r.sound()
}

// What waits for a person is not the model's to answer, and says so. The
// person's answer ends it.
func TestAModelNeverAnswersForAPerson(t *testing.T) {
	asks := stateful(t, "build", tool.Idempotent,
		func(context.Context, target) (tool.Result[string], error) {
			return tool.NeedInput[string]("Which compiler?"), nil
		})
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
		fakellm.Calls("await", `{"all":["a"],"timeout_secs":3600}`), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{asks}, Model: model}, nil)
	s := r.say("Go.")
	if s.end.Finish != event.FinishPaused {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	var asked *tool.Pause
	for i, p := range s.end.Pending {
		if p.Await.Reason == tool.ReasonInput {
			asked = &s.end.Pending[i]
		}
	}
	if asked == nil {
		t.Fatalf("pending are %+v", s.end.Pending)
	}
	_, err := r.Resume(t.Context(), asked.Session,
		runner.Complete(asked.ID, user, json.RawMessage(`"gcc"`)))
	must(t, err)
	if s := r.carryOn(); s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	if got := r.outputs(); !strings.Contains(got[1], `"result":"gcc"`) {
		t.Errorf("%q", got)
	}
	must(t, r.Close())
	r.sound()
}

// A time-out ends an await, and a message interrupts one; the handle goes on.
func TestAwaitsEndBeforeTheirHandles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := underPolicy(t, "build", tool.Idempotent, tool.HandlePolicy{AtEnd: tool.KeepAtEnd},
			func(context.Context, target) (tool.Result[string], error) {
				return tool.Pending[string](tool.Await{}), nil
			})
		model := fakellm.New(
			fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
			fakellm.Calls("await", `{"all":["a"],"timeout_secs":0}`),
			fakellm.Calls("await", `{"all":["a"]}`),
			fakellm.Says("You said hello."),
			fakellm.Calls("build", `{"action":"abort","id":"a"}`),
			fakellm.Says("Aborted."))
		r := newRig(t, agent.Config{Tools: []tool.Tool{waits}, Model: model},
			&rigOptions{memory: true})
		if s := r.say("Go."); s.end.Finish != event.FinishPaused {
			t.Fatalf("%+v, %v", s.end, s.err)
		}
		if got := r.outputs(); !strings.Contains(got[1], `"timed_out":true`) {
			t.Errorf("%q", got)
		}
		if s := r.say("Hello?"); s.end.Finish != event.FinishStop {
			t.Fatalf("%+v, %v", s.end, s.err)
		}
		if got := r.outputs(); !strings.Contains(got[2], `"interrupted":true`) {
			t.Errorf("%q", got)
		}
		if s := r.say("Stop it."); s.end.Finish != event.FinishStop {
			t.Fatalf("%+v, %v", s.end, s.err)
		}
		if got := r.outputs(); !strings.Contains(got[3], `"state":"stopped"`) ||
			!strings.Contains(got[3], "aborted") {
			t.Errorf("%q", got)
		}
		must(t, r.Close())
		r.sound()
	})
}
