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

// How a handle failed, and whether the same again may succeed, is told as the
// body told it, also after a restart; the notice has the latter.
func TestAFailureIsToldAsItWas(t *testing.T) {
	fails := underPolicy(t, "build", tool.Idempotent, tool.HandlePolicy{AtEnd: tool.KeepAtEnd},
		func(context.Context, target) (tool.Result[string], error) {
			return nil, &handle.Failure{Message: "no route", Trace: []string{"dial", "lookup"},
				Transient: true}
		})
	model := fakellm.New(fakellm.Says("Hi."), fakellm.Calls("build", `{"action":"fetch","id":"a"}`),
		fakellm.Says("I see."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{fails}, Model: model}, nil)
	r.say("Hello.").finished(event.FinishStop)
	r.spawned("a", "build", `{"target":"x"}`)
	r.awaited("a")
	for r.transcript().Handles != 0 { // its end reaches its parent by itself
		continue
	}
	r.restart()
	r.say("And?").finished(event.FinishStop)
	var reply struct{ Error handle.Failure }
	must(t, json.Unmarshal([]byte(r.outputs()[0]), &reply))
	if e := reply.Error; !e.Transient || strings.Join(e.Trace, ",") != "dial,lookup" ||
		!strings.Contains(e.Message, "no route") || strings.Contains(e.Message, "lookup") {
		t.Errorf("%+v", e)
	}
	if all := told(model); len(all) != 1 || !strings.Contains(all[0], "the same again may succeed") {
		t.Errorf("the model was told %q", all)
	}
	r.told(0)
}
