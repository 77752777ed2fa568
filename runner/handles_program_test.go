package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// spawned begins a handle as a program does.
func (r *rig) spawned(name, toolName, arguments string) runner.Spawned {
	r.t.Helper()
	s, err := r.Spawn(r.t.Context(), chat, runner.Spawning{Handle: name, Tool: toolName,
		Arguments: json.RawMessage(arguments), ID: "wish " + name, Actor: user})
	must(r.t, err)
	return s
}

// awaited waits for one handle to stop.
func (r *rig) awaited(name string) tool.Handle {
	r.t.Helper()
	all, err := r.Await(r.t.Context(), chat, tool.HandleWait{All: []string{name}}, user)
	must(r.t, err)
	return all[0]
}

// told waits until the session knows that all but so many of its handles have
// stopped, and closes the runner then.
func (r *rig) told(open int) {
	r.t.Helper()
	changed, stop := r.store.WatchAll(chat)
	defer stop()
	for r.transcript().Handles != open {
		<-changed
	}
	must(r.t, r.Close())
	r.sound()
}

// waits is a tool whose calls wait for an outside system.
func waits(t *testing.T, name string) tool.Tool {
	return stateful(t, name, tool.Idempotent,
		func(context.Context, target) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{}), nil
		})
}

// A program begins a handle beside an idle session. The same wish again is a
// duplicate, over a restart and after the end, too; another one is refused.
func TestSpawnIsIdempotent(t *testing.T) {
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t), waits(t, "job")},
		Model: messages(says("Hi."))}, nil)
	r.say("Hello.").finished(event.FinishStop)
	first := r.spawned("a", "build", `{"target":"x"}`)
	if h := r.awaited("a"); h.Status != "done" || string(h.Output) != `"built x"` ||
		h.Session != first.Session || h.Call != first.Call {
		t.Fatalf("%+v", h)
	}
	r.restart()
	again := r.spawned("a", "build", `{ "target": "x" }`)
	if !again.Duplicate || again.Session != first.Session || again.Call != first.Call {
		t.Errorf("again %+v, first %+v", again, first)
	}
	wish := runner.Spawning{Handle: "a", Tool: "build", ID: "wish a", Actor: user,
		Arguments: json.RawMessage(`{"target":"y"}`)}
	if _, err := r.Spawn(t.Context(), chat, wish); !errors.Is(err, runner.ErrSpawnConflict) {
		t.Errorf("another target: %v", err)
	}
	// A name that has stopped is free, and the old wish is still its own.
	wish.ID, wish.Tool = "other", "job"
	_, err := r.Spawn(t.Context(), chat, wish)
	must(t, err)
	wish.ID = "third"
	if _, err := r.Spawn(t.Context(), chat, wish); !errors.Is(err, session.ErrNameTaken) {
		t.Errorf("a name that is open: %v", err)
	}
	if again := r.spawned("a", "build", `{"target":"x"}`); !again.Duplicate {
		t.Errorf("%+v", again)
	}
	r.told(1)
}

// What can't be begun is refused, and leaves nothing.
func TestSpawnRefusesWhatIsNoHandle(t *testing.T) {
	plain, err := tool.Func(tool.Spec{Name: "plain"},
		func(context.Context, target) (tool.Result[string], error) { return tool.Done("x"), nil })
	must(t, err)
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t), plain},
		Model: messages(says("Hi."))}, nil)
	r.say("Hello.").finished(event.FinishStop)
	for what, s := range map[string]runner.Spawning{
		"an await":       {Handle: "a", Tool: "await", Arguments: json.RawMessage(`{"all":["b"]}`), ID: "1"},
		"a plain tool":   {Handle: "a", Tool: "plain", ID: "1"},
		"no tool":        {Handle: "a", Tool: "none", ID: "1"},
		"an action":      {Handle: "a", Tool: "build", Arguments: json.RawMessage(`{"action":"fetch","id":"a"}`), ID: "1"},
		"a name in two":  {Handle: "a b", Tool: "build", ID: "1"},
		"no name":        {Tool: "build", ID: "1"},
		"text, not JSON": {Handle: "a", Tool: "build", Arguments: json.RawMessage(`{`), ID: "1"},
	} {
		if _, err := r.Spawn(t.Context(), chat, s); !errors.Is(err, runner.ErrInvalidSpawn) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := r.Spawn(t.Context(), chat, runner.Spawning{Handle: "a", Tool: "build"}); !errors.Is(err,
		session.ErrInvalidID) {
		t.Errorf("without an id: %v", err)
	}
	for h, err := range r.Handles(t.Context(), chat, runner.HandleFilter{}, user) {
		t.Errorf("%+v, %v", h, err)
	}
}

// A wish whose arguments don't fit stops its handle, and what awaits it goes on.
func TestAMisfittingSpawnStops(t *testing.T) {
	model := fakellm.New(fakellm.Says("Hi."),
		fakellm.Calls("build", `{"action":"spawn","id":"b","target":7}`).
			And("await", `{"all":["a"]}`),
		fakellm.Calls("build", `{"action":"spawn","id":"b","target":"x"}`).And("await", `{"all":["b"]}`),
		fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t)}, Model: model}, nil)
	r.say("Hello.").finished(event.FinishStop)
	r.spawned("a", "build", `{"target":7}`)
	if h := r.awaited("a"); h.Status != "failed" || !strings.Contains(string(h.Output), "target") {
		t.Errorf("%+v", h)
	}
	r.say("Go.").finished(event.FinishStop)
	got := r.outputs()
	if !strings.Contains(got[0], "target") || !strings.Contains(got[1], `"error"`) ||
		!strings.Contains(got[3], "built x") {
		t.Errorf("%q", got)
	}
	r.told(0)
}

// A person answers what a handle asks, and the same again is a duplicate.
func TestApplyAnswersAnyQuestion(t *testing.T) {
	asks := stateful(t, "build", tool.Idempotent,
		func(context.Context, target) (tool.Result[string], error) {
			return tool.NeedInput[string]("Which compiler?"), nil
		})
	var asked []runner.Operation
	r := newRig(t, agent.Config{Tools: []tool.Tool{asks}, Model: messages(says("Hi."))},
		&rigOptions{runner: &runner.Options{Authorizer: func(_ context.Context, op runner.Operation) error {
			if op.Kind == runner.OpApply || op.Kind == runner.OpResume {
				asked = append(asked, op)
			}
			return nil
		}}})
	r.say("Hello.").finished(event.FinishStop)
	s := r.spawned("a", "build", `{"target":"x"}`)
	waiting := watch(t, r.Follow(t.Context(), s.Session, user, nil)).finished(event.FinishPaused)
	if len(of[event.Pause](waiting)) != 1 {
		t.Errorf("its follower is shown %v", waiting.events)
	}
	h, err := r.Fetch(t.Context(), chat, "a", user)
	must(t, err)
	if h.State != tool.HandleWaiting || h.Pause == nil || h.Pause.Await.Prompt != "Which compiler?" {
		t.Fatalf("%+v", h)
	}
	in := runner.Input{Handle: "a", Value: json.RawMessage(`"gcc"`), Actor: user, Delivery: "1"}
	rc, err := r.Apply(t.Context(), chat, in)
	must(t, err)
	if rc.Kind != session.KindComplete || rc.Actor != user || rc.Duplicate {
		t.Errorf("%+v", rc)
	}
	if len(asked) != 2 || asked[0].Kind != runner.OpApply || asked[0].Handle != "a" ||
		asked[0].Tool != "build" || asked[1].Kind != runner.OpResume || asked[1].Session != s.Session {
		t.Errorf("asked %+v", asked)
	}
	if h := r.awaited("a"); string(h.Output) != `"gcc"` {
		t.Errorf("%+v", h)
	}
	rc, err = r.Apply(t.Context(), chat, in)
	if must(t, err); !rc.Duplicate {
		t.Errorf("again: %+v", rc)
	}
	in.Value = json.RawMessage(`"clang"`)
	if _, err := r.Apply(t.Context(), chat, in); !errors.Is(err, session.ErrResumeConflict) {
		t.Errorf("another value: %v", err)
	}
	in.Delivery = "2"
	if _, err := r.Apply(t.Context(), chat, in); !errors.Is(err, runner.ErrHandleStopped) {
		t.Errorf("once it has stopped: %v", err)
	}
	r.told(0)
}

// Lists, transcripts and calls tell of handles.
func TestHandlesAreShown(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("job", `{"action":"spawn","id":"b","target":"x"}`).
			And("build", `{"action":"spawn","id":"a","target":"y"}`).And("await", `{"all":["b"]}`),
		fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t), waits(t, "job")}, Model: model}, nil)
	r.say("Go.").finished(event.FinishPaused)
	r.awaited("a")
	list := func(f runner.HandleFilter) (names []string) {
		for h, err := range r.Handles(t.Context(), chat, f, user) {
			must(t, err)
			names = append(names, h.Name+" "+string(h.State))
		}
		return names
	}
	for want, f := range map[string]runner.HandleFilter{
		"a stopped, b running": {}, "b running": {Open: true}, "a stopped": {Limit: 1},
	} {
		if got := strings.Join(list(f), ", "); got != want {
			t.Errorf("%+v lists %s, not %s", f, got, want)
		}
	}
	if got := list(runner.HandleFilter{After: "a"}); len(got) != 1 {
		t.Errorf("after a: %v", got)
	}
	shown := r.transcript()
	if shown.Handles != 1 || shown.Handle != "" || shown.Calls[0].Action != "spawn" ||
		shown.Calls[0].Handle != "b" {
		t.Errorf("%+v", shown)
	}
	h, err := r.Fetch(t.Context(), chat, "b", user)
	must(t, err)
	below, err := r.Show(t.Context(), h.Session, user)
	must(t, err)
	if below.Handle != "b" || len(below.Path) != 1 || below.Path[0].Session != chat ||
		len(below.Calls) != 1 || below.Calls[0].Tool != "job" {
		t.Errorf("%+v", below)
	}
	if _, err := r.Fetch(t.Context(), chat, "c", user); !errors.Is(err, tool.ErrUnknownHandle) {
		t.Errorf("no such handle: %v", err)
	}
	must(t, r.Abort(t.Context(), chat, "b", "grace", ""))
	if h := r.awaited("b"); h.Status != "cancelled" || h.Actor != "grace" ||
		!strings.Contains(string(h.Output), "aborted") {
		t.Errorf("%+v", h)
	}
	must(t, r.Abort(t.Context(), chat, "b", "grace", "")) // it has stopped
	r.carryOn().finished(event.FinishStop)
	r.told(0)
}
