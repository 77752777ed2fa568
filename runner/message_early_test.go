package runner_test

import (
	"bytes"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// While a drive looks whether the place of a message has come, all that the turn
// waited for is answered. The run goes on to its end, and the message begins the
// next one. One that steers is read by the model after the turn's results.
func TestAnsweredWhileAMessageIsJudged(t *testing.T) {
	for while, want := range map[runner.While]string{
		"":                "Go. | Done. | How long? | Well.",
		runner.WhileSteer: "Go. | How long? | Done.",
	} {
		t.Run(string(while), func(t *testing.T) {
			var n counter
			reads := &hooked{}
			r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
				Model: messages(calls("job", `{"text":"j"}`), says("Done."), says("Well."))},
				&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
					reads.Store = kv
					return reads
				}})
			p := r.say("Go.").finished(event.FinishPaused).pause("job")
			must2(r.Send(t.Context(), user, chat, llm.UserText("How long?"),
				&runner.SendOptions{While: while}))
			reads.get = func(key []byte) error {
				if bytes.HasPrefix(key, kvstore.Key("Q")) {
					reads.get = nil
					must2(r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v"))))
				}
				return nil
			}
			r.carryOn().finished(event.FinishStop)
			r.reads(want)
			if reads.get != nil {
				t.Error("the message was not looked at")
			}
		})
	}
}
