package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// programs is a tool whose handles are programs of sh.
func programs(t *testing.T) tool.Tool {
	t.Helper()
	l, err := handle.OpenLauncher(&handle.LauncherOptions{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	type script struct {
		Script string `json:"script"`
	}
	c, err := handle.NewCommand(l, tool.Spec{Name: "sh"},
		func(_ context.Context, in script) (handle.Program, error) {
			return handle.Program{Path: "sh", Args: []string{"-c", in.Script}}, nil
		}, nil)
	must(t, err)
	live, err := handle.Live(c, nil)
	must(t, err)
	made, err := handle.Stateful(live, nil)
	must(t, err)
	return made
}

// A model types into a program that runs, and reads what it says. What it
// applies arrives once, and what it was shown isn't shown again. A call of a
// turn takes no input.
func TestAModelTypesIntoAProgram(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("sh", `{"action":"spawn","id":"a",`+
			`"script":"read x; echo got $x; read y; echo bye $y"}`),
		fakellm.Calls("sh", `{"action":"apply","id":"a","input":{"text":"one\n"}}`),
		fakellm.Calls("sh", `{"action":"apply","id":"a","input":{"text":"two\n"}}`).
			And("sh", `{"script":"cat; echo alone"}`),
		fakellm.Calls("await", `{"all":["a"]}`),
		fakellm.Calls("sh", `{"action":"fetch","id":"a"}`),
		fakellm.Calls("sh", `{"action":"fetch","id":"a"}`),
		fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{programs(t)}, Model: model}, nil)
	if s := r.say("Go."); s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	got := r.outputs()
	if len(got) != 7 || !strings.Contains(got[3], "alone") || !strings.Contains(got[4], `"exit_code":0`) ||
		!strings.Contains(got[4], `got one\nbye two`) {
		t.Fatalf("%q", got)
	}
	shown := ""
	for _, i := range []int{1, 2, 5} {
		var r struct{ Content string }
		must(t, json.Unmarshal([]byte(got[i]), &r))
		shown += r.Content
	}
	if shown != "got one\nbye two\n" || strings.Contains(got[6], "content") {
		t.Errorf("content is %q, then %s", shown, got[6])
	}
	must(t, r.Close())
	r.sound()
}

// Aborting a program ends it with all that it started.
func TestAbortEndsAProgram(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("sh", `{"action":"spawn","id":"a","script":"echo on; sleep 1000 & sleep 1000; wait"}`),
		fakellm.Calls("sh", `{"action":"abort","id":"a"}`), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{programs(t)}, Model: model}, nil)
	if s := r.say("Go."); s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	if got := r.outputs(); !strings.Contains(got[1], `"state":"stopped"`) ||
		!strings.Contains(got[1], "agent:ops") {
		t.Errorf("%q", got)
	}
	must(t, r.Close())
	r.sound()
}

// What has happened to a handle that no call fetches or awaits is told the
// model, once, before it speaks again.
func TestWhatHappensToAHandleIsToldOnce(t *testing.T) {
	done := make(chan struct{})
	slow := underPolicy(t, "build", tool.Idempotent, tool.HandlePolicy{AtEnd: tool.KeepAtEnd},
		func(context.Context, target) (tool.Result[string], error) {
			<-done
			return tool.Done("built"), nil
		})
	wait := tool.Must(tool.Func(tool.Spec{Name: "wait"},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.Done("waited"), nil
		}))
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`), fakellm.Says("Begun."),
		fakellm.Says("I see."), fakellm.Calls("wait", `{}`), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{slow, wait}, Model: model}, nil)
	if s := r.say("Go."); s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	close(done)
	for { // its end reaches its parent by itself
		st, err := r.store.Load(t.Context(), chat)
		must(t, err)
		if st.Notices == 1 {
			break
		}
	}
	r.say("And?")
	r.say("Wait.")
	told := 0
	for _, req := range model.Requests() {
		last := req.Messages[len(req.Messages)-1]
		for _, n := range last.Notices() {
			told++
			if n.Handle != "a" || n.Text != "built" || n.State == "" {
				t.Errorf("%+v", n)
			}
		}
	}
	if told != 1 {
		t.Errorf("the model was told %d times", told)
	}
	must(t, r.Close())
	r.sound()
}
