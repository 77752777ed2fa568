package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// besides is a rig with an idle session, beside which two handles of a tool,
// "bad" and "good", are begun; the session of the first is damaged then.
func besides(t *testing.T, of tool.Tool, model llm.Model, open int) *rig {
	t.Helper()
	r := newRig(t, agent.Config{Tools: []tool.Tool{of}, Model: model}, &rigOptions{memory: true,
		runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}})
	r.say("Hi.").finished(event.FinishStop)
	bad := r.spawned("bad", "job", `{"target":"x"}`)
	r.spawned("good", "job", `{"target":"y"}`)
	synctest.Wait()
	if n := r.openHandles(); n != open {
		t.Fatalf("%d handles are open", n)
	}
	r.damage(bad.Session)
	return r
}

// The session of a handle that has stopped is damaged. The model is told of its
// end without what it came to, and of the others whole; a list goes on after it.
func TestTheEndOfADamagedHandleIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := stateful(t, "job", tool.Once,
			func(_ context.Context, in target) (tool.Result[string], error) {
				return tool.Done("ran " + in.Target), nil
			})
		model := fakellm.New(fakellm.Says("Hello."), fakellm.Says("I see."))
		r := besides(t, job, model, 0)
		r.say("And?").finished(event.FinishStop)
		told := map[string]string{}
		for _, m := range r.transcript().History {
			for _, n := range m.Notices() {
				told[n.Handle] = n.State + ": " + n.Text
			}
		}
		if !strings.Contains(told["bad"], "stopped (done)") ||
			!strings.Contains(told["bad"], "damaged") || !strings.Contains(told["good"], "ran y") {
			t.Errorf("the model is told %q", told)
		}
		listed := map[string]error{}
		for h, err := range r.Handles(t.Context(), chat, runner.HandleFilter{}, user) {
			listed[h.Name] = err
		}
		if err := listed["good"]; len(listed) != 2 || err != nil ||
			!errors.Is(listed["bad"], session.ErrCorrupt) {
			t.Errorf("the list has %v", listed)
		}
	})
}

// The session of a handle that is open is damaged. At the end of the turn the
// model is asked about it as about the others, without what it has produced.
func TestADamagedHandleIsInquiredAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := ""
		inquiry := fakellm.When(fakellm.UserSays("about to end your turn"),
			fakellm.From(func(req llm.Request) fakellm.Turn {
				asked = req.Messages[0].Text()
				return fakellm.Says(`{"handles":[{"id":"bad","action":"abort"},` +
					`{"id":"good","action":"abort"}]}`)
			}))
		r := besides(t, waits(t, "job"), fakellm.New(fakellm.Says("Hello."), inquiry,
			fakellm.Says("That is all."), fakellm.Says("I see.")), 2)
		r.say("And?").finished(event.FinishStop)
		_, list, _ := strings.Cut(asked, `{"handles":[{"id":"bad"`)
		if !json.Valid([]byte(`{"handles":[{"id":"bad"`+list)) || !strings.Contains(list, `"id":"good"`) {
			t.Errorf("it is asked %s", asked)
		}
		synctest.Wait()
		if got := r.statusOf("good"); got != event.Cancelled {
			t.Errorf("the other handle is %q", got)
		}
	})
}
