package runner_test

import (
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// TestFreshLimits: a run that has used up a limit gets as far again with each
// Continue, with each message, and after a restart; what it has used is told of
// the whole run.
func TestFreshLimits(t *testing.T) {
	t.Parallel()
	endless := fakellm.Calls("look", `{"text":"a"}`).And("look", `{"text":"b"}`).Usage(llm.Usage{Input: 10, Output: 5}).Forever()
	for name, test := range map[string]struct {
		limits agent.Limits
		finish event.Finish
		asked  int // model calls that the limit allows
		looked int // tool calls that are run
	}{
		"one turn":                  {agent.Limits{Turns: 1}, event.FinishMaxTurns, 1, 2},
		"two turns":                 {agent.Limits{Turns: 2}, event.FinishMaxTurns, 2, 4},
		"the default":               {agent.Limits{}, event.FinishMaxTurns, 64, 2 * 64},
		"one call":                  {agent.Limits{ToolCalls: 1}, event.FinishMaxCalls, 1, 0},
		"two calls":                 {agent.Limits{ToolCalls: 2}, event.FinishMaxCalls, 2, 2},
		"three calls":               {agent.Limits{ToolCalls: 3}, event.FinishMaxCalls, 2, 2},
		"one token":                 {agent.Limits{Tokens: 1}, event.FinishMaxTokens, 1, 0},
		"as many as one answer has": {agent.Limits{Tokens: 15}, event.FinishMaxTokens, 1, 2},
		"one more than that":        {agent.Limits{Tokens: 16}, event.FinishMaxTokens, 2, 2},
		"turns, before there are tokens": {agent.Limits{Turns: 1, ToolCalls: 100, Tokens: 1000},
			event.FinishMaxTurns, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			model := fakellm.New(endless)
			r := newRig(t, agent.Config{Limits: test.limits, Model: model,
				Tools: []tool.Tool{instant("look", tool.ReadOnly, &n)}}, &rigOptions{memory: true})
			run := r.say("Go.")
			if shown := run.messages(); shown != len(r.transcript().History)-1 {
				t.Errorf("%d messages were shown, and %d are stored", shown,
					len(r.transcript().History)-1)
			}
			for i := 1; ; i++ {
				run.finished(test.finish)
				if len(model.Requests()) != i*test.asked || n.get("look") != i*test.looked {
					t.Errorf("after %d times the model was called %d times, bodies were entered %d times; want %d and %d a time",
						i, len(model.Requests()), n.get("look"), test.asked, test.looked)
				}
				used := run.end.Usage.Total() / 15
				switch i {
				case 1:
					run = r.carryOn()
				case 2:
					if used != 2*test.asked {
						t.Errorf("the run has used %d answers, not %d", used, 2*test.asked)
					}
					r.restart()
					run = r.carryOn()
				case 3:
					run = r.say("Go on.")
				case 4:
					if used != test.asked {
						t.Errorf("a new run has used %d answers, not %d", used, test.asked)
					}
					r.acceptable()
					return
				}
			}
		})
	}
}

// TestLimitsLetAnAnswerThrough: the model's last word is never cut off by a
// limit, even if it overdraws one.
func TestLimitsLetAnAnswerThrough(t *testing.T) {
	model := fakellm.New(fakellm.Says("A long answer.").Usage(llm.Usage{Input: 1000, Output: 1000}))
	r := newRig(t, agent.Config{
		Limits: agent.Limits{Turns: 1, ToolCalls: 1, Tokens: 1}, Model: model,
	}, nil)
	run := r.say("Go.").finished(event.FinishStop)
	if run.end.Usage.Total() != 2000 || r.transcript().History[1].Text() != "A long answer." {
		t.Errorf("it used %+v; the history is %v", run.end.Usage, r.transcript().History)
	}
}

// messages counts the messages that were shown.
func (s *seen) messages() (n int) {
	for _, ev := range s.events {
		if _, ok := ev.(event.Message); ok {
			n++
		}
	}
	return n
}

func TestLimits(t *testing.T) {
	var n counter
	endless := modelFunc(func(llm.Request) []llm.Event {
		return []llm.Event{
			llm.PartDone{Part: calls("look", `{"text":"a"}`)[0]},
			llm.PartDone{Part: calls("look", `{"text":"b"}`)[0]},
			llm.Finish{Reason: llm.StopToolCalls, Usage: llm.Usage{Input: 10, Output: 5}},
		}
	})
	for want, test := range map[event.Finish]struct {
		limits  agent.Limits
		entered int // in the first run, and again in the next
	}{
		event.FinishMaxTurns:  {agent.Limits{Turns: 3}, 6},
		event.FinishMaxCalls:  {agent.Limits{ToolCalls: 3}, 2},
		event.FinishMaxTokens: {agent.Limits{Tokens: 29}, 2},
	} {
		n = counter{}
		r := newRig(t, agent.Config{
			Limits: test.limits,
			Tools:  []tool.Tool{instant("look", tool.ReadOnly, &n)}, Model: endless,
		}, nil)
		r.say("Go.").finished(want)
		if n.get("look") != test.entered {
			t.Errorf("%s: bodies were entered %d times, not %d", want, n.get("look"), test.entered)
		}
		r.acceptable()
		r.restart()
		r.say("Go on.").finished(want) // a new message has fresh limits
		r.carryOn().finished(want)     // and so has Continue
		if want == event.FinishMaxTurns && n.get("look") != 3*test.entered {
			t.Errorf("%s: bodies were entered %d times over three runs", want, n.get("look"))
		}
		r.acceptable()
	}
}
