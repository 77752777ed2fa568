package fermatatest_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// collecting waits as each of the awaits says, in order. Its result is what each
// entry was shown: names and ids of events, "*" behind those that were new.
func collecting(e tool.Effect, awaits ...tool.Await) tool.Tool {
	return fn(
		tool.Spec{Name: "collect", Effect: e, MayPause: true,
			Mailbox: []tool.MailboxEvent{{Name: "offer"}, {Name: "done"}}},
		func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
			call := tool.CallFrom(ctx)
			var log string
			if call.Answer != nil {
				if err := json.Unmarshal(call.Answer.Data, &log); err != nil {
					return nil, err
				}
				log += "("
				if call.Answer.TimedOut {
					log += "timed out"
				}
			}
			for _, m := range call.Mail {
				log += " " + m.Name + m.ID
				if m.New {
					log += "*"
				}
			}
			if call.Answer != nil {
				log += ")"
			}
			if call.Pauses == len(awaits) {
				return tool.Done(textOut{log}), nil
			}
			a := awaits[call.Pauses]
			a.Data, _ = json.Marshal(log)
			return tool.Pending[textOut](a), nil
		})
}

func mail(name, id string) runner.Mail {
	payload := json.RawMessage(`{"n":1}`)
	if id == "big" {
		payload = text(string(make([]byte, 2000)))
	}
	return runner.Mail{Name: name, ID: id, Payload: payload, Actor: "shop"}
}

// mailScenarios are those of calls that take events.
func mailScenarios() []fermatatest.Scenario {
	var all []fermatatest.Scenario
	send := func(name, id string) fermatatest.Input {
		return fermatatest.Deliver("collect", mail(name, id))
	}
	add := func(name string, awaits []tool.Await, inputs ...fermatatest.Input) {
		all = append(all, each(name, func(e tool.Effect) agent.Config {
			return agent.Config{
				Tools: []tool.Tool{collecting(e, awaits...)},
				Model: fakellm.New(fakellm.Calls("collect", `{"text":"a"}`), fakellm.Says("Done.")),
			}
		}, append([]fermatatest.Input{hello}, inputs...)...)...)
	}

	add("the first event", []tool.Await{tool.AnyOf("offer")},
		send("done", "1"), send("offer", "1"), send("offer", "2"), send("offer", "1"))

	add("all events", []tool.Await{tool.AllOf("offer", "done")},
		send("offer", "1").During(), send("offer", "2"), send("done", "big"))

	add("a count of events", []tool.Await{tool.CountOf(3)},
		fermatatest.Deliver("collect", mail("offer", "1"), mail("done", "1"), mail("offer", "1")),
		send("offer", "2"))

	late := tool.AllOf("offer", "done")
	late.Timeout, late.OnTimeout = time.Hour, tool.ReenterOnTimeout
	add("events and a time-out", []tool.Await{late, tool.AllOf("done")},
		send("offer", "1"), fermatatest.Pass(2*time.Hour), send("offer", "2"), send("done", "1"))

	add("events between two pauses",
		[]tool.Await{tool.AnyOf("offer"), {Mode: tool.ModeReenter}, tool.AllOf("offer", "done")},
		send("offer", "1"), send("offer", "2"), send("done", "1").During().OfPause(2),
		fermatatest.Answer("collect", runner.Complete("", "ci", text("go"))).OfPause(2),
		send("offer", "3").During().OfPause(3), send("done", "2"))
	return all
}

func TestKilledAmongEvents(t *testing.T) {
	killed(t, .3, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Memory(),
			fermatatest.Shared(fermatatest.Memory())},
	}, mailScenarios()...)
}

func TestKilledTwiceAmongEvents(t *testing.T) {
	killed(t, .3, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Memory(),
			fermatatest.Shared(fermatatest.Memory())}, Twice: true,
	}, mailScenarios()...)
}

// On bbolt, whose files are written for real.
func TestKilledAmongEventsOfAFile(t *testing.T) {
	killed(t, .2, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Bolt(), fermatatest.Shared(fermatatest.Bolt())},
	}, mailScenarios()[:4]...)
}
