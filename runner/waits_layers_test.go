package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// A person approves that a handle is made, and that one is ended, once each. The
// handle's own call passes no layer, so a hook's token is good from the start.
func TestLayersAroundWaitHandles(t *testing.T) {
	asked := map[string]int{}
	count := toolLayer("count",
		func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
			asked[c.Tool]++
			return next(ctx, c)
		})
	r := newRig(t, agent.Config{Tools: waitTools(t, wait.Config{}),
		Interceptors: interceptor.Chain{count, interceptor.Approval(nil)},
		Model: fakellm.New(fakellm.Calls("create_wait_handle", `{"handleId":"h","type":"hook"}`),
			fakellm.Calls("complete_wait_handle", `{"handleId":"h","error":"No."}`),
			fakellm.Calls("wait_for", `{"handleId":"h"}`), fakellm.Says("Well."))},
		&rigOptions{memory: true})
	s := r.say("Go.")
	s.finished(event.FinishPaused)
	for h := range r.store.AllHandles(t.Context(), chat) {
		t.Errorf("the handle %q was made without an approval", h.Name)
	}
	s = r.answer(runner.Approve(s.pause("create_wait_handle").ID, "bob", ""))
	p := s.finished(event.FinishPaused).pause("complete_wait_handle")
	var hook struct{ Token string }
	must(t, json.Unmarshal([]byte(r.outputs()[0]), &hook))
	tok, err := r.ReadToken(t.Context(), hook.Token)
	must(t, err)
	_, err = r.Resume(t.Context(), tok.Session, runner.Complete(tok.PauseID(), "web", text("ok")))
	must(t, err)
	r.answer(runner.Deny(p.ID, "bob", "Leave it.")).finished(event.FinishStop)
	got := r.outputs()
	if is := fields(t, got[2], "status", "result"); is != `"completed" {"text":"ok"}` {
		t.Error(got[2])
	}
	if asked["create_wait_handle"] != 2 || asked["wait_for"] != 0 { // again after the approval
		t.Errorf("layers saw %v", asked)
	}
	must(t, r.Close())
	r.sound()
}

// What ends handles is asked of the Authorizer, by the agent at the handle's own
// session, as any answer is.
func TestTheAuthorizerIsAskedWhoEndsWaits(t *testing.T) {
	var asked []string
	r := newRig(t, agent.Config{Tools: waitTools(t, wait.Config{}),
		Model: fakellm.New(fakellm.Calls("create_wait_handle", `{"handleId":"a","type":"custom"}`),
			fakellm.Calls("complete_wait_handle", `{"handleId":"a","result":1}`), fakellm.Says("Well."))},
		&rigOptions{memory: true, runner: &runner.Options{
			Authorizer: func(_ context.Context, op runner.Operation) error {
				if op.Kind != runner.OpResume {
					return nil
				}
				asked = append(asked, string(op.Actor))
				return errors.New("not by a model")
			}}})
	r.say("Go.").finished(event.FinishStop)
	if got := r.outputs()[1]; !strings.Contains(got, "not by a model") ||
		strings.Join(asked, " ") != "agent:ops" {
		t.Errorf("%s, by %q", got, asked)
	}
	must(t, r.Close())
	r.sound()
}

// A message of the user ends a wait and not what is waited for; so does Cancel
// of the call. CancelSession leaves wait handles as well.
func TestWaitsEndAndHandlesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := waitRig(t, fakellm.Calls("create_wait_handle", `{"handleId":"a","type":"hook"}`),
			fakellm.Calls("wait_for", `{"handleId":"a"}`).
				And("wait_for_multiple", `{"handleIds":["a"],"mode":"race"}`), fakellm.Says("Yes?"),
			fakellm.Calls("wait_for", `{"handleId":"a"}`), fakellm.Says("Cancelled."),
			fakellm.Calls("wait_for", `{"handleId":"a"}`), fakellm.Says("It came."))
		r.say("Go.").finished(event.FinishPaused)
		time.Sleep(time.Minute)
		r.say("And now?").finished(event.FinishStop)
		got := r.outputs()
		for i, want := range map[int]string{
			1: `"pending" "The wait was interrupted, and what it waits for goes on." 60000`,
			2: `"pending" "The wait was interrupted, and what it waits for goes on." 60000`,
		} {
			if is := fields(t, got[i], "status", "error", "waitedMs"); is != want {
				t.Errorf("%d: %s, and not %s", i, got[i], want)
			}
		}
		s := r.say("Wait on.").finished(event.FinishPaused)
		_, err := r.Cancel(t.Context(), chat, s.pause("wait_for").Call, user, "enough")
		must(t, err)
		r.carryOn().finished(event.FinishStop)
		if is := fields(t, r.outputs()[3], "status", "endTime"); is != `"pending" null` {
			t.Error(r.outputs()[3])
		}
		r.say("Once more.").finished(event.FinishPaused)
		err = r.CancelSession(t.Context(), chat, user, "all of it")
		must(t, err)
		r.carryOn()
		h, err := r.Fetch(t.Context(), chat, "a", user)
		if err != nil || h.State != tool.HandleRunning {
			t.Errorf("the handle is %+v, %v", h, err)
		}
		must(t, r.Close())
		r.sound()
	})
}

// Wait handles go on when the model ends its turn, and the run is over. An end
// that no call tells is told by a notice.
func TestWaitHandlesOutliveTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := fakellm.New(fakellm.Calls("create_wait_handle", `{"handleId":"a","type":"hook"}`),
			fakellm.Says("It will come."), fakellm.Says("It came."))
		r := newRig(t, agent.Config{Tools: waitTools(t, wait.Config{}), Model: model},
			&rigOptions{memory: true})
		r.say("Go.").finished(event.FinishStop)
		h, err := r.Fetch(t.Context(), chat, "a", user)
		must(t, err)
		_, err = r.Resume(t.Context(), h.Session, runner.Complete(h.Call, "web", text("ok")))
		must(t, err)
		synctest.Wait() // until its session knows
		r.say("Well?").finished(event.FinishStop)
		requests := model.Requests()
		told := fakellm.Notices(requests[len(requests)-1])
		if len(told) != 1 || told[0].Handle != "a" {
			t.Errorf("the model was told %+v", told)
		}
		must(t, r.Close())
		r.sound()
	})
}

// A second process ends what the first one's call waits for, and a third makes
// the call go on.
func TestWaitsAcrossProcesses(t *testing.T) {
	r := waitRig(t, fakellm.Calls("create_wait_handle", `{"handleId":"a","type":"hook"}`),
		fakellm.Calls("wait_for", `{"handleId":"a"}`), fakellm.Says("Through."))
	r.say("Go.").finished(event.FinishPaused)
	h, err := r.another().Fetch(t.Context(), chat, "a", user)
	must(t, err)
	answerer, err := runner.New(nil, session.NewStore(r.kv, nil), nil) // it has no agent
	must(t, err)
	defer answerer.Close()
	_, err = answerer.Resume(t.Context(), h.Session, runner.Complete(h.Call, "web", text("ok")))
	must(t, err)
	r.workUntilDone()
	if got := r.outputs(); len(got) != 2 || fields(t, got[1], "status") != `"completed"` {
		t.Errorf("%q", got)
	}
	must(t, r.Close())
	r.sound()
}

// However long the results are, a reply that has them all can be taken.
func TestManyLongResultsFitAReply(t *testing.T) {
	long := `"` + strings.Repeat("x", 300<<10) + `"`
	var create, end fakellm.Turn
	var ids []string
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		create = create.And("create_wait_handle", `{"handleId":"`+id+`","type":"custom"}`)
		ids = append(ids, `"`+id+`"`)
	}
	r := newRig(t, agent.Config{Tools: waitTools(t, wait.Config{}),
		ToolLimits: tool.Limits{Arguments: 1 << 20},
		Model: fakellm.New(create, end.And("complete_wait_handle", `{"handleId":"a","result":1}`).
			And("complete_wait_handle", `{"handleId":"b","result":`+long+`}`).
			And("complete_wait_handle", `{"handleId":"c","result":`+long+`}`).
			And("complete_wait_handle", `{"handleId":"d","result":`+long+`}`).
			And("complete_wait_handle", `{"handleId":"e","result":`+long+`}`),
			fakellm.Calls("wait_for_multiple", `{"handleIds":[`+strings.Join(ids, ",")+
				`],"mode":"all"}`), fakellm.Says("Well."))}, &rigOptions{memory: true})
	r.say("Go.").finished(event.FinishStop)
	got := r.outputs()
	var all struct {
		Status  string
		Results map[string]struct{ Result json.RawMessage }
	}
	must(t, json.Unmarshal([]byte(got[len(got)-1]), &all))
	if all.Status != "completed" || string(all.Results["a"].Result) != "1" ||
		len(all.Results["b"].Result) < 100<<10 || len(all.Results["b"].Result) > 300<<10 {
		t.Errorf("%s %s %d", all.Status, all.Results["a"].Result, len(all.Results["b"].Result))
	}
	must(t, r.Close())
	r.sound()
}
