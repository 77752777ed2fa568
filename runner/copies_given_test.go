package runner_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/scribble"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestWhatWasGivenIsKept: what an agent, a runner and a run were made of may be
// changed, and appended to, afterwards.
func TestWhatWasGivenIsKept(t *testing.T) {
	var n counter
	names := append(make([]string, 0, 4), "audit")
	gate := interceptor.Approval(&interceptor.ApprovalOptions{Tools: append(names, "refund")})
	_ = append(names, "other")
	layers := append(make(interceptor.Chain, 0, 4), gate)
	raw := &tool.Spec{Name: "raw", Effect: tool.ReadOnly,
		Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)}
	tools := append(make([]tool.Tool, 0, 4), instant("refund", tool.Once, &n),
		instant("audit", tool.Once, &n),
		rawTool{*raw, func(context.Context, tool.Call) (tool.Execution, error) {
			return tool.Execution{}, nil
		}})
	model := fakellm.New(fakellm.Calls("refund", `{"text":"a"}`).And("audit", `{"text":"b"}`),
		fakellm.Says("Done."))
	format := llm.ResponseFormat{Name: "answer", Schema: json.RawMessage(`{"type":"object"}`)}
	c := agent.Config{Model: model, Tools: tools, Interceptors: layers, ResponseFormat: format}
	r := newRig(t, c, &rigOptions{memory: true})
	scribble.Over(raw)
	scribble.Over(format)
	layers[0] = interceptor.Layer{}
	clear(tools)
	_ = append(layers, interceptor.Layer{})
	_ = append(tools, nil)
	m := llm.Message{
		Role: llm.RoleUser, Parts: append(make([]llm.Part, 0, 2), llm.Text{Text: "Go."}),
	}
	o := &runner.RunOptions{MessageID: "m1"}
	events := r.Run(t.Context(), user, chat, m, o)
	m.Parts[0], o.MessageID, o.Agent = llm.Text{Text: "Stop."}, "m2", "nobody"
	run := watch(t, events).finished(event.FinishPaused)
	if len(run.end.Pending) != 2 || n.get("refund")+n.get("audit") != 0 {
		t.Errorf("%d calls wait, and the bodies ran %v", len(run.end.Pending), n.n)
	}
	req := model.Requests()[0]
	if said := fakellm.LastUserText(req); said != "Go." ||
		string(req.ResponseFormat.Schema) != `{"type":"object"}` ||
		string(req.Tools[2].Input) != `{"type":"object","properties":{"text":{"type":"string"}}}` {
		t.Errorf("the model is sent %+v", req)
	}
	again := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Go."),
		&runner.RunOptions{MessageID: "m1"}))
	if again.err != nil || len(r.transcript().History) != 2 {
		t.Errorf("the message isn't known by its id: %v", again.err)
	}
}

// TestFollowersGetTheirOwn: several callers follow a session and write over all
// that they are shown; the reporter of progress writes over its data. Each
// follower is shown what was reported.
func TestFollowersGetTheirOwn(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("Deployed.")),
	}, &rigOptions{memory: true})
	p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	const followers = 3
	shown := make(chan string, followers)
	ctx, leave := context.WithCancel(t.Context())
	var watching, ended sync.WaitGroup
	watching.Add(followers)
	for range followers {
		ended.Go(func() {
			for ev, err := range r.Follow(ctx, chat, user,
				&runner.FollowOptions{ThroughWaits: true}) {
				if err != nil {
					return
				}
				switch ev := ev.(type) {
				case event.Pause:
					if string(ev.Pause.Arguments) != `{"text":"job-1"}` {
						t.Errorf("the pause is of %s", ev.Pause.Arguments)
					}
					scribble.Over(ev)
					watching.Done()
				case event.Progress:
					shown <- string(ev.Progress.Data)
					scribble.Over(ev)
				default:
					scribble.Over(ev)
				}
			}
		})
	}
	watching.Wait()
	report := tool.Progress{Message: "half", Data: json.RawMessage(`{"done":0.5}`)}
	must(t, r.Progress(t.Context(), chat, p.Call, user, report))
	scribble.Over(report)
	for range followers {
		if got := <-shown; got != `{"done":0.5}` {
			t.Errorf("a follower is shown %s", got)
		}
	}
	leave()
	ended.Wait()
	if len(shown) > 0 {
		t.Errorf("the same progress was shown twice, as %s", <-shown)
	}
}
