package fermatatest_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// under has handles begun of a tool, with that policy for the end of a turn.
func under(t tool.Tool, end tool.AtEnd, limit time.Duration) tool.Tool {
	return tool.Must(handle.Stateful(t, &handle.Options{HandlePolicy: tool.HandlePolicy{
		AtEnd: end, Limit: limit, NoWaiting: true}}))
}

// turnEndScenarios are those of handles that are open when the model would end its
// turn.
func turnEndScenarios() []fermatatest.Scenario {
	var all []fermatatest.Scenario
	add := func(name string, end tool.AtEnd, fate string, inputs ...fermatatest.Input) {
		s := bothEffects(name, func(e tool.Effect) agent.Config {
			inquired := fakellm.When(fakellm.UserSays("about to end your turn"),
				fakellm.Says(`{"handles":[{"id":"a","action":"`+fate+`"}]}`))
			turns := []fakellm.Turn{inquired, begin("ask", "a")}
			if fate == "abort" || end == tool.AbortAtEnd { // it asks by then, in any history
				turns = append(turns, await(`{"all":["a"],"timeout_secs":60}`))
			}
			return agent.Config{Tools: []tool.Tool{under(asking("ask", e), end, time.Minute)},
				Model: fakellm.New(append(turns, fakellm.Says("Begun."), fakellm.Says("I see."),
					fakellm.Says("Welcome."))...)}
		}, append([]fermatatest.Input{hello}, inputs...)...)
		s[0].Diverges = true // of effect once, a handle that is lost has another end
		all = append(all, s...)
	}
	says := fermatatest.Answer("ask", runner.Complete("", "ada",
		json.RawMessage(`{"text":"yes"}`))).Below("ask", 1)
	later := fermatatest.Pass(2 * time.Minute)
	add("inquired about, and waited for", tool.InquireAtEnd, "wait", says, thanks)
	add("inquired about, and aborted", tool.InquireAtEnd, "abort", later, thanks)
	add("awaited at the end", tool.AwaitAtEnd, "", says, thanks)
	add("awaited, until a message comes", tool.AwaitAtEnd, "", thanks, says)
	add("aborted at the end", tool.AbortAtEnd, "", later, thanks)
	add("kept at the end", tool.KeepAtEnd, "", says, thanks)
	add(notForEver, tool.AwaitAtEnd, "", later, thanks)
	return all
}

// notForEver names the last scenarios, in which what the run waited for is aborted. The
// run waits for the end of that, but only for so long as the lease of a process
// that was killed may last. So with stored leases the model may be told later.
const notForEver = "awaited, and not for ever"

func TestKilledAtTheEndOfATurn(t *testing.T) {
	t.Parallel()
	all := turnEndScenarios()
	killed(t, .2, inMemory(false), eachNth(3, all[:len(all)-2])...)
	killed(t, .05, fermatatest.Options{Engines: []fermatatest.Engine{fermatatest.Memory()}},
		eachNth(2, all[len(all)-2:])...)
}

func TestKilledTwiceAtTheEndOfATurn(t *testing.T) {
	t.Parallel()
	all := turnEndScenarios()
	killed(t, .3, inMemory(true), eachNth(6, all[:len(all)-2])...)
}
