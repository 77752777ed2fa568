package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// A webhook's process need not have the agent: what is needed to take an answer is stored.
func TestAnswerByARunnerWithoutTheAgent(t *testing.T) {
	var n counter
	r, p := deployed(t, &n)
	bare, err := runner.New(nil, public.NewStore(r.kv, nil), nil)
	must(t, err)
	defer bare.Close()
	if err := bare.Work(t.Context(), nil); !errors.Is(err, runner.ErrUnknownAgent) {
		t.Errorf("a worker without an agent is told %v", err)
	}
	if _, err := bare.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", []byte(`{"txt":""}`))); !errors.Is(err, session.ErrInvalidResumePayload) {
		t.Errorf("an answer that does not fit is told %v", err)
	}
	must(t, bare.Progress(t.Context(), chat, p.Call, user, tool.Progress{Message: "half"}))
	res, err := bare.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
	must(t, err)
	if s := watch(t, res.Events(t.Context())); !errors.Is(s.err, runner.ErrUnknownAgent) {
		t.Errorf("its events end with %v", s.err)
	}
	r.carryOn().finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("v2")) {
		t.Errorf("the result is %s", got)
	}
}

// Only a decision answers a layer, and only an output or a failure a tool; anything else leaves no trace.
func TestAnswerOfTheWrongKind(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{waiting("deploy", tool.Once, &n)},
		Interceptors: approval(),
		Model:        fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("Deployed.")),
	}, nil)
	refused := func(p tool.Pause, wrong ...runner.Resumption) {
		t.Helper()
		before := r.faults.Commits()
		for _, in := range wrong {
			in.Pause = p.ID
			if _, err := r.Resume(t.Context(), chat, in); !errors.Is(err, session.ErrInvalidResumePayload) {
				t.Errorf("%+v is told %v", in, err)
			}
		}
		if st, err := r.Call(t.Context(), chat, p.Call, user); err != nil || st.Status != session.Pending || r.faults.Commits() != before {
			t.Errorf("the call is %s, %v, after %d commits", st.Status, err, r.faults.Commits()-before)
		}
	}
	gate := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	refused(gate,
		runner.Complete("", "ci", text("v2")), runner.Complete("", "ci", []byte(`true`)), runner.Complete("", "ci", []byte(`{"approved":true}`)),
		runner.Fail("", "ci", "no disk", false), runner.ApproveEdited("", "ada", "", textIn2{"job-2"}), runner.ApproveEdited("", "ada", "", 7),
		runner.Resumption{Decision: &tool.Decision{Arguments: []byte(`{"text":"a"}`)}})
	job := r.answer(runner.Approve(gate.ID, "ada", "")).finished(event.FinishPaused).pause("deploy")
	refused(job, runner.Approve("", "ada", ""), runner.Deny("", "ada", ""), runner.ApproveEdited("", "ada", "", textIn{"job-2"}))
	r.answer(runner.Complete(job.ID, "ci", text("v2"))).finished(event.FinishStop)
	r.acceptable()
}

// textIn2 doesn't fit the tools' input.
type textIn2 struct {
	Txt string `json:"txt"`
}

// What an answer must fit is what was stored with the pause, whatever has been deployed since.
func TestAnswerFitsTheStoredSchema(t *testing.T) {
	type newOut struct {
		Version int `json:"version"`
	}
	var n counter
	r, p := deployed(t, &n)
	r.config.Tools = []tool.Tool{tool.Must(tool.Func(tool.Spec{Name: "deploy", MayPause: true},
		func(context.Context, textIn) (tool.Result[newOut], error) {
			return tool.Pending[newOut](tool.Await{}), nil
		}))}
	r.restart()
	if _, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", []byte(`{"version":2}`))); !errors.Is(err, session.ErrInvalidResumePayload) {
		t.Errorf("an answer of the new shape is told %v", err)
	}
	r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("v2")) {
		t.Errorf("the result is %s", got)
	}
}

// An answer to a call that nobody has begun yet goes by no gate: who would be asked is asked.
func TestAnswerBeforeTheCallIsBegunPassesTheGates(t *testing.T) {
	for name, decide := range map[string]func(string) runner.Resumption{
		"approved": func(p string) runner.Resumption { return runner.Approve(p, "eve", "") },
		"denied":   func(p string) runner.Resumption { return runner.Deny(p, "eve", "not today") },
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			entered, let := make(chan struct{}), make(chan struct{})
			first := tool.Must(tool.Func(tool.Spec{Name: "first"}, func(context.Context, textIn) (tool.Result[textOut], error) {
				close(entered)
				<-let
				return tool.Done(textOut{"first"}), nil
			}))
			r := newRig(t, agent.Config{
				Tools:        []tool.Tool{first, waiting("deploy", tool.Idempotent, &n)},
				Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"deploy"}})},
				Model:        fakellm.New(fakellm.Calls("first", `{"text":"a"}`).And("deploy", `{"text":"b"}`), fakellm.Says("Done.")),
				Concurrency:  1,
			}, nil)
			ended := r.begin("Go.")
			<-entered
			call := r.transcript().History[1].ToolCalls()[1].ID
			_, err := r.Resume(t.Context(), chat, runner.Complete(call, "ci", text("v2")))
			must(t, err)
			close(let)
			p := ended().finished(event.FinishPaused).pause("deploy")
			if p.Await.Gate != "approval" {
				t.Fatalf("it waits for %+v", p.Await)
			}
			r.restart()
			r.answer(decide(p.ID)).finished(event.FinishStop)
			res := r.result(call)
			if approved := name == "approved"; res.Error == approved || approved && string(res.Output) != string(text("v2")) {
				t.Errorf("the result is %s", res.Output)
			}
			if n.get("deploy") != 0 {
				t.Error("the body was entered, although its answer was there")
			}
			r.acceptable()
		})
	}
}

// The answer that is a call's output counts, although the tool has been changed since, and wouldn't take the call's arguments any more:
// the work is done, and the model is not told to ask for it again.
func TestAnswerOutlivesTheInputsSchema(t *testing.T) {
	deploy := func(input string) []tool.Tool {
		return []tool.Tool{rawTool{tool.Spec{Name: "deploy", MayPause: true, Input: json.RawMessage(input)},
			func(context.Context, tool.Call) (tool.Execution, error) {
				return tool.Execution{Await: &tool.Await{}}, nil
			}}}
	}
	r := newRig(t, agent.Config{Tools: deploy(`{"type":"object"}`), Model: messages(calls("deploy", `{}`), says("Done."))}, nil)
	p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("live")))
	must(t, err)
	r.config.Tools = deploy(`{"type":"object","properties":{"env":{"type":"string"}},"required":["env"]}`)
	r.restart()
	r.carryOn().finished(event.FinishStop)
	if got := r.result(p.Call); got.Error || string(got.Output) != string(text("live")) {
		t.Errorf("the result is %s", got.Output)
	}
	r.acceptable()
}
