package fermatatest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// beside has handles begun of a tool. That one waits is not told, since a call
// that comes in between may be the first to see it.
func beside(t tool.Tool) tool.Tool {
	return tool.Must(handle.Stateful(t, &handle.Options{HandlePolicy: unwatched}))
}

var unwatched = tool.HandlePolicy{NoWaiting: true}

// begin, abort and await are the calls of a model that has handles.
func begin(name, id string) fakellm.Turn {
	return fakellm.Calls(name, `{"action":"spawn","id":"`+id+`","text":"`+id+`"}`)
}

func abort(name, id string) fakellm.Turn {
	return fakellm.Calls(name, `{"action":"abort","id":"`+id+`"}`)
}

func await(how string) fakellm.Turn { return fakellm.Calls("await", how) }

// wondering asks the model, and ends with its answer.
func wondering(e tool.Effect) tool.Tool {
	return tool.Must(handle.Stateful(fn(tool.Spec{Name: "wonder", Effect: e, MayPause: true},
		func(context.Context, textIn) (tool.Result[textOut], error) {
			return tool.Pending[textOut](tool.Await{Reason: tool.ReasonAssistant,
				Prompt: "How many?"}), nil
		}), &handle.Options{Asks: true, HandlePolicy: unwatched}))
}

// hearing ends with the input that it is given while it runs.
func hearing(e tool.Effect) tool.Tool {
	return beside(fn(tool.Spec{Name: "hear", Effect: e, MayPause: true,
		Mailbox: []tool.MailboxEvent{{Name: tool.InputEvent}}},
		func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
			c := tool.CallFrom(ctx)
			if c.Answer == nil {
				return tool.Pending[textOut](tool.CountOf(3)), nil
			}
			heard := ""
			for _, m := range c.Mail {
				heard += string(m.Payload)
			}
			return tool.Done(textOut{heard}), nil
		}))
}

// handleScenarios are those of calls that run beside their session.
func handleScenarios() []fermatatest.Scenario {
	var all []fermatatest.Scenario
	add := func(name string, ag func(tool.Effect) agent.Config, inputs ...fermatatest.Input) {
		s := bothEffects(name, ag, append([]fermatatest.Input{hello}, inputs...)...)
		s[0].Diverges = true // of effect once, a handle that is lost has another end
		all = append(all, s...)
	}
	says := func(id, text string) fermatatest.Input {
		return fermatatest.Answer("ask", runner.Complete("", "ada",
			json.RawMessage(`{"text":"`+text+`"}`))).Below("ask", int(id[0]-'a')+1)
	}

	add("begun and awaited", func(e tool.Effect) agent.Config {
		return agent.Config{Tools: []tool.Tool{beside(instant("build", e))}, Model: fakellm.New(
			begin("build", "a").And("build", `{"action":"spawn","id":"b","text":"b"}`).
				And("await", `{"all":["a"],"any":["b"]}`), fakellm.Says("Both."), fakellm.Says("Welcome."))}
	}, thanks)

	add("awaited before it is begun", func(e tool.Effect) agent.Config {
		return agent.Config{Concurrency: 1, Tools: []tool.Tool{beside(asking("ask", e))},
			Model: fakellm.New(
				await(`{"all":["a"]}`).And("ask", `{"action":"spawn","id":"a","text":"a"}`),
				fakellm.Says("Done."))}
	}, says("a", "yes"))

	add("a question of the model's to answer", func(e tool.Effect) agent.Config {
		return agent.Config{Tools: []tool.Tool{wondering(e)}, Model: fakellm.New(
			begin("wonder", "a").And("await", `{"all":["a"]}`),
			fakellm.Calls("wonder", `{"action":"apply","id":"a","input":{"text":"7"}}`),
			await(`{"all":["a"]}`), fakellm.Says("Seven."))}
	})

	add("input while it runs", func(e tool.Effect) agent.Config {
		return agent.Config{Tools: []tool.Tool{hearing(e)}, Model: fakellm.New(
			begin("hear", "a").
				And("hear", `{"action":"apply","id":"a","input":"one"}`),
			fakellm.Calls("hear", `{"action":"apply","id":"a","input":"two"}`).
				And("await", `{"all":["a"]}`),
			fakellm.Says("Heard."))}
	}, fermatatest.Deliver("hear", mail(tool.InputEvent, "3")).Below("hear", 1))

	add("aborted while it waits, after a time-out", func(e tool.Effect) agent.Config {
		return agent.Config{Tools: []tool.Tool{beside(asking("ask", e))}, Model: fakellm.New(
			begin("ask", "a"), await(`{"all":["a"],"timeout_secs":60}`), abort("ask", "a"),
			begin("ask", "a"), await(`{"any":["a"]}`), fakellm.Says("Done."))}
	}, fermatatest.Pass(2*time.Minute), says("c", "again"))

	add("cancelled while its body runs", func(e tool.Effect) agent.Config {
		return agent.Config{Tools: []tool.Tool{beside(endless("run", e))}, Model: fakellm.New(
			begin("run", "a").And("await", `{"all":["a"]}`), fakellm.Says("It was ended."))}
	}, fermatatest.Cancel("run", "no").Below("run", 1).During())

	// What ends while nothing awaits it is told once, behind the results.
	add("told by a notice", func(e tool.Effect) agent.Config {
		return agent.Config{Tools: []tool.Tool{beside(asking("ask", e))}, Model: fakellm.New(
			begin("ask", "a").And("ask", `{"action":"spawn","id":"b","text":"b"}`),
			await(`{"all":["a"]}`), fakellm.Says("Both."), fakellm.Says("Welcome."))}
	}, says("b", "second"), says("a", "first"), thanks)
	return all
}

// many has more handles awaited than a commit registers. Some have ended by
// then, some end meanwhile.
func many(e tool.Effect) agent.Config {
	turn, names := begin("build", "h00"), []string{`"h00"`}
	for i := 1; i < 42; i++ {
		name := fmt.Sprintf("h%02d", i)
		turn = turn.And("build", `{"action":"spawn","id":"`+name+`","text":"`+name+`"}`)
		names = append(names, `"`+name+`"`)
	}
	return agent.Config{Tools: []tool.Tool{beside(instant("build", e))}, Model: fakellm.New(
		turn.And("await", `{"all":[`+strings.Join(names, ",")+`]}`), fakellm.Says("All."))}
}

func TestKilledAmongHandles(t *testing.T) {
	t.Parallel()
	killed(t, .2, inMemory(false), eachNth(3, handleScenarios())...)
}

func TestKilledTwiceAmongHandles(t *testing.T) {
	t.Parallel()
	killed(t, .3, inMemory(true), eachNth(5, handleScenarios())...)
}

// An await of so many is registered by several commits.
func TestKilledAmongManyHandles(t *testing.T) {
	t.Parallel()
	s := bothEffects("many, awaited", many, hello)[1]
	killed(t, .1, fermatatest.Options{Every: 4,
		Engines: []fermatatest.Engine{fermatatest.Memory()}}, s)
}

// On bbolt, whose files are written for real.
func TestKilledAmongHandlesOfAFile(t *testing.T) {
	t.Parallel()
	killed(t, .2, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Bolt(), fermatatest.Shared(fermatatest.Bolt())},
	}, eachNth(8, handleScenarios())...)
}
