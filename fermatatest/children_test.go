package fermatatest_test

import (
	"encoding/json"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// nested makes a tool of an agent, which is made anew with it.
func nested(name string, m llm.Model, tools ...tool.Tool) tool.Tool {
	ag, err := agent.New(agent.Config{Name: name, Model: m, Tools: tools})
	if err != nil {
		panic(err)
	}
	return tool.Must(agenttool.New[textIn, string](ag, nil))
}

// family returns a world whose agents are all made anew for each life.
func family(ag func() agent.Config) func() fermatatest.World {
	return func() fermatatest.World {
		return fermatatest.World{Agent: func() agent.Config {
			c := ag()
			c.Name = "ops"
			return c
		}}
	}
}

// bothEffects returns a scenario of a family for each effect of its tools.
func bothEffects(
	name string, ag func(tool.Effect) agent.Config, inputs ...fermatatest.Input,
) []fermatatest.Scenario {
	all := each(name, func(tool.Effect) agent.Config { return agent.Config{} }, inputs...)
	for i, e := range []tool.Effect{tool.Once, tool.Idempotent} {
		all[i].World = family(func() agent.Config { return ag(e) })
	}
	return all
}

// answered is the answer of a person to the tool "ask".
func answered(text string) fermatatest.Input {
	return fermatatest.Answer("ask",
		runner.Complete("", "ada", json.RawMessage(`{"text":"`+text+`"}`)))
}

// desk has a clerk work, who writes and then asks a person.
func desk(e tool.Effect) agent.Config {
	clerk := nested("clerk", fakellm.New(
		fakellm.Calls("note", `{"text":"begun"}`).And("ask", `{"text":"which"}`),
		fakellm.Calls("note", `{"text":"over"}`), fakellm.Says("It is room 7.")),
		instant("note", e), asking("ask", e))
	return agent.Config{Tools: []tool.Tool{clerk, instant("book", e)}, Model: fakellm.New(
		fakellm.Calls("clerk", `{"text":"Find a room."}`),
		fakellm.Calls("book", `{"text":"room 7"}`), fakellm.Says("Booked."),
		fakellm.Says("Welcome."))}
}

// deep has a lead work, who has a clerk work.
func deep(e tool.Effect) agent.Config {
	clerk := nested("clerk", fakellm.New(
		fakellm.Calls("ask", `{"text":"which"}`), fakellm.Says("Room 7.")), asking("ask", e))
	lead := nested("lead", fakellm.New(
		fakellm.Calls("clerk", `{"text":"Ask."}`), fakellm.Calls("note", `{"text":"7"}`),
		fakellm.Says("It is room 7.")), clerk, instant("note", e))
	return agent.Config{Tools: []tool.Tool{lead}, Model: fakellm.New(
		fakellm.Calls("lead", `{"text":"Book."}`), fakellm.Says("Booked."),
		fakellm.Says("Welcome."))}
}

// twins has two clerks work at once.
func twins(e tool.Effect) agent.Config {
	clerk := nested("clerk", fakellm.New(
		fakellm.From(func(r llm.Request) fakellm.Turn {
			return fakellm.Calls("ask", string(text(r.Messages[0].Text())))
		}),
		fakellm.From(func(r llm.Request) fakellm.Turn {
			return fakellm.Says("Done: " + r.Messages[0].Text())
		})), asking("ask", e))
	return agent.Config{Tools: []tool.Tool{clerk}, Model: fakellm.New(
		fakellm.Calls("clerk", `{"text":"left"}`).And("clerk", `{"text":"right"}`),
		fakellm.Says("Both are done."), fakellm.Says("Welcome."))}
}

func answerScenarios() []fermatatest.Scenario {
	var all []fermatatest.Scenario
	add := func(s []fermatatest.Scenario) { all = append(all, s...) }

	add(bothEffects("a clerk who asks", desk, hello, answered("7").Below("clerk", 1), thanks))

	add(bothEffects("a clerk who is answered early", desk,
		hello, answered("7").Below("clerk", 1).During()))

	add(bothEffects("a clerk who is answered at once", desk,
		hello, answered("7").Below("clerk", 1).AtPause()))

	add(bothEffects("three levels", deep,
		hello, answered("7").Below("lead", 1).Below("clerk", 1),
		answered("8").Below("lead", 1).Below("clerk", 1), thanks))

	add(bothEffects("two of one name, answered in reverse", twins, hello,
		answered("2").Below("clerk", 2), answered("1").Below("clerk", 1), thanks))
	return all
}

func TestKilledAmongChildren(t *testing.T) {
	t.Parallel() // what goes on below a session is tried again in real time
	killed(t, .2, inMemory(false), eachNth(3, answerScenarios())...)
}

func TestKilledTwiceAmongChildren(t *testing.T) {
	t.Parallel()
	killed(t, .3, inMemory(true), eachNth(5, answerScenarios())...)
}

// On bbolt, whose files are written for real.
func TestKilledAmongChildrenOfAFile(t *testing.T) {
	t.Parallel()
	killed(t, .2, fermatatest.Options{
		Engines: []fermatatest.Engine{fermatatest.Bolt(), fermatatest.Shared(fermatatest.Bolt())},
	}, append(eachNth(12, answerScenarios()), eachNth(20, endScenarios()[3:])...)...)
}

// inMemory returns options for engines in memory, with leases in memory and with
// stored ones.
func inMemory(twice bool) fermatatest.Options {
	return fermatatest.Options{Twice: twice, Engines: []fermatatest.Engine{
		fermatatest.Memory(), fermatatest.Shared(fermatatest.Memory())}}
}

// eachNth returns some of the scenarios in a short test, and all in a full one.
func eachNth(n int, all []fermatatest.Scenario) (some []fermatatest.Scenario) {
	for i := range testlength.EachNth(n, len(all)) {
		some = append(some, all[i])
	}
	return some
}
