package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
	"github.com/fermata-ai/fermata/workflow"
)

// toolsOfSteps have a step come to its text, wait for a person, or fail.
func toolsOfSteps(t *testing.T) *workflow.Set {
	t.Helper()
	type text struct {
		Text string `json:"text,omitempty"`
	}
	of := func(name string, f func(text) (tool.Result[text], error)) tool.Tool {
		return tool.Must(tool.Func(tool.Spec{Name: name, MayPause: true, Effect: tool.Idempotent},
			func(_ context.Context, in text) (tool.Result[text], error) { return f(in) }))
	}
	set, err := workflow.NewSet("lists", []tool.Tool{
		of("echo", func(in text) (tool.Result[text], error) { return tool.Done(in), nil }),
		of("ask", func(in text) (tool.Result[text], error) { return tool.NeedInput[text](in.Text), nil }),
	}, nil)
	must(t, err)
	return set
}

// lists begins a workflow by a call with these arguments, then makes a call on
// its handle, and speaks.
func lists(arguments, then, rest string) modelFunc {
	return messagesOf(func(n int, r llm.Request) []llm.Part {
		switch n {
		case 0:
			return calls("execute_workflow_async", arguments)
		case 1:
			return calls(then, `{"handleId":"`+begunID(r)+`"`+rest+`}`)
		}
		return says("Done.")
	})
}

func workflowRig(t *testing.T, m llm.Model, l agent.Limits) *rig {
	t.Helper()
	return newRig(t, agent.Config{Model: m, Limits: l,
		Tools: waitTools(t, wait.Config{Workflows: toolsOfSteps(t)})}, &rigOptions{memory: true})
}

// A model has a list carried out, more steps than it has model calls, and waits
// for its handle as for any other. The result is JSON.
func TestAWorkflowWorksBeside(t *testing.T) {
	r := workflowRig(t, lists(`{"workflowId":"echoes","name":"Say it.","input":{"x":"1 < 2"},"steps":[
		{"name":"a","tool":"echo","arguments":{"text":{"from":"/input/x"}}},
		{"name":"b","tool":"echo","arguments":{"text":{"from":"/steps/a/text"}}},
		{"name":"c","tool":"echo","after":["b"]},{"name":"d","tool":"echo","after":["c"]}]}`,
		"wait_for", ``), agent.Limits{Turns: 3, ToolCalls: 2})
	if s := r.say("Go."); s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v: %v", s.end, s.err, r.outputs())
	}
	got := r.outputs()
	if id := fields(t, got[0], "handleId"); !strings.HasPrefix(id, `"workflow_echoes_`) ||
		fields(t, got[0], "async", "status", "stepCount") != `true "pending" 4` {
		t.Error(got[0])
	}
	var result struct {
		Type, Status string
		Result       map[string]struct{ Output struct{ Text string } }
	}
	must(t, json.Unmarshal([]byte(got[1]), &result))
	if result.Type != "workflow" || result.Status != "completed" || len(result.Result) != 4 ||
		result.Result["b"].Output.Text != "1 < 2" {
		t.Error(got[1])
	}
	must(t, r.Close())
	r.sound()
}

// What is wrong with a list is told at once, and nothing is begun.
func TestAModelsListIsCheckedAtTheStart(t *testing.T) {
	for steps, want := range map[string]string{
		`{"name":"a","tool":"echo","arguments":{"text":{"from":"/steps/b/text"}}}`: "no step is named",
		`{"name":"a","tool":"echo","after":["b"]},{"name":"b","tool":"echo","after":["a"]}`: "the steps " +
			"wait for each other",
		`{"name":"a","tool":"eco"}`: "must be one of",
		`{"name":"a","tool":"echo","arguments":{"text":{"from":"/input/x"}}}`: "in the input there is no",
	} {
		r := workflowRig(t, lists(`{"workflowId":"w","name":"w","steps":[`+steps+`],"input":{}}`,
			"list_wait_handles", ``), agent.Limits{})
		r.say("Go.")
		if got := r.outputs(); !strings.Contains(got[0], want) {
			t.Errorf("%s: %s", steps, got[0])
		}
		must(t, r.Close())
		r.sound()
	}
}

// A workflow that takes too long is stopped with its steps, and one that fails
// tells why. One whose handle is ended by another call is stopped.
func TestAWorkflowBesideEnds(t *testing.T) {
	const ask = `{"name":"a","tool":"ask","arguments":{"text":"?"}}`
	for _, c := range []struct{ steps, rest, then, more, want string }{
		{ask, `,"timeoutMs":60000`, "wait_for", ``, `"timeout"  "Timed out after 60000ms"`},
		{ask, ``, "complete_wait_handle", `,"error":"Too slow."`, `"failed"  "Too slow."`},
		{`{"name":"a","tool":"echo"},{"name":"b","tool":"echo","arguments":{"text":` +
			`{"from":"/steps/a/text"}}}`, ``, "wait_for", ``,
			`"failed"  "The workflow failed: step \"b\": it refers to \"/steps/a/text\", and in what ` +
				`step \"a\" came to there is no \"text\"."`},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := workflowRig(t, lists(`{"workflowId":"w","name":"w","steps":[`+c.steps+`]`+c.rest+`}`,
				c.then, c.more), agent.Limits{})
			if s := r.say("Go."); s.end.Finish == event.FinishPaused {
				time.Sleep(2 * time.Minute)
				r.workUntilDone()
			}
			got := r.outputs()
			if is := fields(t, got[1], "status", "result", "error"); is != c.want {
				t.Errorf("%s, and not %s", got[1], c.want)
			}
			must(t, r.Work(t.Context(), &runner.WorkOptions{Session: chat, UntilOver: true}))
			for st, err := range r.store.List(t.Context(), session.Filter{Root: chat, Children: true}) {
				must(t, err)
				if st.Open() > 0 {
					t.Errorf("%s of %s has open calls", st.ID, st.Agent)
				}
			}
			must(t, r.Close())
			r.sound()
		})
	}
}
