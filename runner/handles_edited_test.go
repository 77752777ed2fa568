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
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
	"github.com/fermata-ai/fermata/tool/wait"
)

// ownBuild is a tool of which handles are begun, which takes parameters of any
// name. It notes what it has run with.
func ownBuild(t *testing.T, ran *[]string) tool.Tool {
	t.Helper()
	own := rawTool{tool.Spec{Name: "build", MayPause: true,
		Input: json.RawMessage(`{"type":"object","properties":{"target":{"type":"string"}}}`)},
		func(_ context.Context, c tool.Call) (tool.Execution, error) {
			*ran = append(*ran, string(c.Arguments))
			return tool.Execution{Output: json.RawMessage(`"built"`)}, nil
		}}
	made, err := handle.Stateful(own, nil)
	must(t, err)
	return made
}

// A person who edits arguments at a gate sees the tool's own schema, and can't
// make an action of a call that is none.
func TestEditedArgumentsAreNoAction(t *testing.T) {
	for _, asked := range []string{`{"target":"x"}`, `{"action":"spawn","id":"a","target":"x"}`} {
		for edited, runs := range map[string]bool{
			`{"target":"y"}`: true,
			`{"action":"spawn","id":"b","target":"y"}`:   false,
			`{"action":"abort","id":"a"}`:                false,
			`{"action":"none","id":"a"}`:                 false,
			`{"target":"y","action":"fetch","id":"a"}`:   false,
			`{"target":"y","action":null,"input":"now"}`: false,
		} {
			var ran []string
			r := newRig(t, agent.Config{Tools: []tool.Tool{ownBuild(t, &ran)},
				Model: fakellm.New(fakellm.Calls("build", asked).And("await", `{"any":["a"]}`),
					fakellm.Says("Done.")),
				Interceptors: interceptor.Chain{interceptor.Approval(nil)}}, &rigOptions{memory: true})
			run := r.say("Go.").finished(event.FinishPaused)
			in, pause := chat, ""
			if strings.Contains(asked, "spawn") {
				h, err := r.Fetch(t.Context(), chat, "a", user)
				must(t, err)
				in, pause = h.Session, h.Pause.ID
				if s := string(h.Pause.Await.Schema); strings.Contains(s, `"action"`) ||
					!strings.Contains(s, `"target"`) {
					t.Errorf("the gate shows the schema %s", s)
				}
			} else {
				pause = run.pause("build").ID
			}
			_, err := r.Resume(t.Context(), in,
				runner.ApproveEdited(pause, "bob", "", json.RawMessage(edited)))
			if !runs { // it is refused before it is accepted
				if !errors.Is(err, session.ErrInvalidResumePayload) {
					t.Errorf("%s, edited to %s: %v", asked, edited, err)
				}
				_, err = r.Resume(t.Context(), in, runner.Deny(pause, "bob", "no"))
			}
			must(t, err)
			r.carryOn().finished(event.FinishStop)
			if runs != (len(ran) == 1 && ran[0] == edited) || !runs && len(ran) > 0 {
				t.Errorf("%s, edited to %s, ran with %q", asked, edited, ran)
			}
			for h, err := range r.Handles(t.Context(), chat, runner.HandleFilter{}, user) {
				if must(t, err); h.Name != "a" || h.State != tool.HandleStopped {
					t.Errorf("%s has begun %+v", edited, h)
				}
			}
			must(t, r.Close())
			r.sound()
		}
	}
}

// Of a call that makes, or ends, a wait handle a person may change all but which
// handle that is.
func TestEditedArgumentsKeepTheirHandle(t *testing.T) {
	r := newRig(t, agent.Config{Tools: waitTools(t, wait.Config{}),
		Model: fakellm.New(fakellm.Calls("create_wait_handle", `{"handleId":"a","type":"hook"}`),
			fakellm.Says("Done.")),
		Interceptors: interceptor.Chain{interceptor.Approval(nil)}}, &rigOptions{memory: true})
	p := r.say("Go.").finished(event.FinishPaused).pause("create_wait_handle")
	edit := func(arguments string) error {
		_, err := r.Resume(t.Context(), chat,
			runner.ApproveEdited(p.ID, "bob", "", json.RawMessage(arguments)))
		return err
	}
	err := edit(`{"handleId":"b","type":"custom"}`)
	if !errors.Is(err, session.ErrInvalidResumePayload) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("another handle: %v", err)
	}
	must(t, edit(`{"handleId":"a","type":"custom","metadata":{"edited":true}}`))
	r.carryOn().finished(event.FinishStop)
	if got := r.outputs()[0]; fields(t, got, "type", "metadata") != `"custom" {"edited":true}` {
		t.Error(got)
	}
	must(t, r.Close())
	r.sound()
}
