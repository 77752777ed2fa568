package runner_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// worker is an agent that says one thing.
func worker(t *testing.T, name string, model llm.Model, tools ...tool.Tool) *agent.Agent {
	t.Helper()
	a, err := agent.New(agent.Config{Name: name, Model: model, Tools: tools})
	must(t, err)
	return a
}

// messagesOf is a model whose n-th answer to a message is made of the request.
func messagesOf(f func(n int, r llm.Request) []llm.Part) modelFunc {
	return func(r llm.Request) []llm.Event {
		n := 0
		for _, m := range r.Messages {
			if m.Role == llm.RoleAssistant {
				n++
			}
		}
		var events []llm.Event
		for _, p := range f(n, r) {
			events = append(events, llm.PartDone{Part: p})
		}
		return append(events, llm.Finish{Reason: llm.StopEnd})
	}
}

// begunID returns the id of the handle that the first reply tells of, in a later
// request.
func begunID(r llm.Request) string {
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			res, ok := p.(llm.ToolResult)
			if !ok {
				continue
			}
			if _, after, found := strings.Cut(string(res.Output), `"handleId":"`); found {
				id, _, _ := strings.Cut(after, `"`)
				return id
			}
		}
	}
	return ""
}

// begins begins an agent by a call with these arguments, and then makes a call
// on its handle, and speaks.
func begins(arguments, then, rest string) modelFunc {
	return messagesOf(func(n int, r llm.Request) []llm.Part {
		switch n {
		case 0:
			return calls("execute_agent_async", arguments)
		case 1:
			return calls(then, `{"handleId":"`+begunID(r)+`"`+rest+`}`)
		}
		return says("Done.")
	})
}

// An agent is begun beside the session, with the model that the call names, and
// its handle is waited for as any other.
func TestAnAgentWorksBeside(t *testing.T) {
	for model, want := range map[string]string{``: `"slow words"`, `fast`: `"fast words"`} {
		arguments := `{"agentId":"research","prompt":"Look."}`
		if model != "" {
			arguments = `{"agentId":"research","prompt":"Look.","model":"` + model + `"}`
		}
		r := newRig(t, agent.Config{
			Tools: waitTools(t, wait.Config{
				Agents: []*agent.Agent{worker(t, "research", fakellm.New(fakellm.Says("slow words")))},
				Models: map[string]llm.Model{"fast": fakellm.New(fakellm.Says("fast words"))}}),
			Model: begins(arguments, "wait_for", ``)}, &rigOptions{memory: true})
		if s := r.say("Go."); s.end.Finish != event.FinishStop {
			t.Fatalf("%+v, %v: %v", s.end, s.err, r.outputs())
		}
		got := r.outputs()
		if id := fields(t, got[0], "handleId"); !strings.HasPrefix(id, `"agent_research_`) ||
			fields(t, got[0], "async", "status") != `true "pending"` {
			t.Error(got[0])
		}
		if is := fields(t, got[1], "type", "status", "result"); is != `"agent" "completed" `+want {
			t.Error(got[1])
		}
		must(t, r.Close())
		r.sound()
	}
}

// An agent that takes too long is stopped, and its handle ends as timeout. One
// whose handle is ended by another call is stopped as well.
func TestAnAgentBesideIsStopped(t *testing.T) {
	for _, c := range []struct {
		arguments, then, rest, want string
		ends                        bool // the patience of a wait ends its handle
	}{
		{`,"timeoutMs":60000`, "wait_for", ``, `"timeout"  "Timed out after 60000ms"`, false},
		{``, "complete_wait_handle", `,"result":7`, `"completed" 7 `, false},
		{``, "complete_wait_handle", `,"error":"Too slow."`, `"failed"  "Too slow."`, false},
		{``, "wait_for", `,"timeoutMs":1000`, `"timeout"  "Wait timed out after 1000ms"`, false},
		{``, "wait_for", `,"timeoutMs":1000`, `"timeout"  "Timed out after 1000ms"`, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			job := waiting("job", tool.Once, new(counter))
			r := newRig(t, agent.Config{
				Tools: waitTools(t, wait.Config{TimeoutEnds: c.ends, Agents: []*agent.Agent{worker(t, "research",
					fakellm.New(fakellm.Calls("job", `{"text":"x"}`), fakellm.Says("Late.")), job)}}),
				Model: begins(`{"agentId":"research","prompt":"Look."`+c.arguments+`}`, c.then, c.rest),
			}, &rigOptions{memory: true})
			if s := r.say("Go."); s.end.Finish == event.FinishPaused {
				time.Sleep(2 * time.Minute)
				r.workUntilDone()
			}
			got := r.outputs()
			if is := fields(t, got[1], "status", "result", "error"); is != c.want {
				t.Errorf("%s, and not %s", got[1], c.want)
			}
			r.working() // it ends what is to be ended
			time.Sleep(time.Minute)
			open := 0
			for _, err := range r.Pending(t.Context(), session.PauseFilter{Tool: "job"}, "ops") {
				must(t, err)
				open++
			}
			if goesOn := strings.Contains(c.want, "Wait timed out"); goesOn != (open > 0) {
				t.Errorf("%+v: the agent waits for %d jobs", c, open)
			}
			must(t, r.Close())
			r.sound()
		})
	}
}
