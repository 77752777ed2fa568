package fermatatest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/fermatatest"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// world returns a world with nothing in it but the agent.
func world(c agent.Config) func() fermatatest.World {
	c.Name = "ops"
	return func() fermatatest.World {
		return fermatatest.World{Agent: func() agent.Config { return c }}
	}
}

// each returns a scenario for a tool of each effect.
func each(
	name string, make func(tool.Effect) agent.Config, inputs ...fermatatest.Input,
) []fermatatest.Scenario {
	var all []fermatatest.Scenario
	for _, e := range []tool.Effect{tool.Once, tool.Idempotent} {
		what := map[tool.Effect]string{tool.Once: "once", tool.Idempotent: "idempotent"}[e]
		all = append(all,
			fermatatest.Scenario{Name: name + ", " + what, World: world(make(e)), Inputs: inputs})
	}
	return all
}

var (
	hello  = fermatatest.Message("m1", "Please do it.")
	thanks = fermatatest.Message("m2", "Thanks.")
)

func scenarios() []fermatatest.Scenario {
	var all []fermatatest.Scenario
	add := func(s ...fermatatest.Scenario) { all = append(all, s...) }

	add(each("one tool", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{instant("work", e)},
			Model: fakellm.New(fakellm.Calls("work", `{"text":"a"}`), fakellm.Says("Done."),
				fakellm.Says("Welcome.")),
		}
	}, hello, thanks)...)

	add(each("three in parallel", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{instant("work", e), waiting("deploy", e), asking("ask", e)},
			Model: fakellm.New(
				fakellm.Calls("deploy", `{"text":"job"}`).And("ask", `{"text":"why"}`).And("work",
					`{"text":"a"}`),
				fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("ask", runner.Complete("", "ada", text("because"))),
		fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))))...)

	add(each("one of two answered", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e), asking("ask", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`).And("ask",
				`{"text":"why"}`), fakellm.Says("Done.")),
		}
	}, hello, fermatatest.Answer("ask", runner.Complete("", "ada", text("because"))), thanks)...)
	// When the other call is lost, nothing waits that would refuse the message.
	all[len(all)-2].Diverges = true

	add(each("three answered together", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e), asking("ask", e)},
			Model: fakellm.New(
				fakellm.Calls("deploy", `{"text":"job"}`).And("ask", `{"text":"why"}`).And("deploy",
					`{"text":"job-2"}`),
				fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Together(
			fermatatest.Answer("ask", runner.Complete("", "ada", text("because"))),
			fermatatest.Answer("deploy", runner.Complete("", "ci", json.RawMessage(`{"text":7}`))),
			fermatatest.Answer("deploy", runner.Fail("", "ci", "no disk", true)).OfCall(2)),
		fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))))...)

	gate := interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"deploy"}})
	add(each("approval, then a pause", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools:        []tool.Tool{waiting("deploy", e)},
			Interceptors: interceptor.Chain{gate},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`),
				fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("deploy", runner.Approve("", "ada", "fine")),
		fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))).OfPause(2))...)

	second := interceptor.Approval(
		&interceptor.ApprovalOptions{Name: "second", Tools: []string{"work"}})
	first := interceptor.Approval(
		&interceptor.ApprovalOptions{Name: "first", Tools: []string{"work"}})
	add(each("two gates", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools:        []tool.Tool{instant("work", e)},
			Interceptors: interceptor.Chain{first, second},
			Model:        fakellm.New(fakellm.Calls("work", `{"text":"a"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("work", runner.Approve("", "ada", "fine")),
		fermatatest.Answer("work",
			runner.ApproveEdited("", "bob", "half", textIn{"b"})).OfPause(2))...)

	add(each("denied beside approved", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{instant("work", e), instant("other", e)},
			Interceptors: interceptor.Chain{
				interceptor.Approval(
					&interceptor.ApprovalOptions{Tools: []string{"work", "other"}})},
			Model: fakellm.New(fakellm.Calls("work", `{"text":"a"}`).And("other",
				`{"text":"b"}`).And("work", `{"text":"c"}`),
				fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("other", runner.Deny("", "ada", "wrong customer")),
		fermatatest.Answer("work", runner.Approve("", "ada", "")),
		fermatatest.Answer("work", runner.Approve("", "bob", "")).OfCall(2))...)

	add(each("a tool that asks twice", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{haggle(e)},
			Model: fakellm.New(fakellm.Calls("haggle", `{"text":"car"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("haggle", runner.Complete("", "ada", json.RawMessage(`5`))),
		fermatatest.Answer("haggle",
			runner.Complete("", "ada", json.RawMessage(`50`))).OfPause(2))...)

	add(each("pictures before and after a pause", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{scanning("scan", e)},
			Model: fakellm.New(fakellm.Calls("scan", `{"text":"page"}`), fakellm.Says("Done.")),
		}
	}, hello, fermatatest.Answer("scan", runner.Complete("", "ada", json.RawMessage(`true`))))...)

	add(each("an early answer", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))).During())...)

	add(each("an early failure", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("deploy", runner.Fail("", "ci", "no disk", false)).During())...)

	add(each("answered from within the event", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e), asking("ask", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`).And("ask",
				`{"text":"why"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))).AtPause(),
		fermatatest.Answer("ask", runner.Complete("", "ada", text("because"))).AtPause())...)

	add(each("cancelled while running", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{endless("run", e), instant("work", tool.Idempotent)},
			Model: fakellm.New(fakellm.Calls("run", `{"text":"a"}`).And("work", `{"text":"b"}`),
				fakellm.Says("Done.")),
		}
	}, hello, fermatatest.Cancel("run", "too slow").During())...)

	add(each("cancelled while waiting", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done.")),
		}
	}, hello, fermatatest.Cancel("deploy", "too slow"),
		fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))))...)

	add(each("deadline", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e), asking("ask", e), sleep(e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`).And("ask",
				`{"text":"why"}`).And("sleep", `{"text":"x"}`),
				fakellm.Says("Done.")),
		}
	}, hello, fermatatest.Pass(2*time.Hour),
		fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))),
		fermatatest.Answer("ask", runner.Complete("", "ada", text("because"))))...)

	add(each("a deadline that the tool is told of", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{patient(e), asking("ask", e)},
			Model: fakellm.New(fakellm.Calls("wonder", `{"text":"why"}`).And("ask",
				`{"text":"how"}`), fakellm.Says("Done.")),
		}
	}, hello, fermatatest.Pass(2*time.Hour),
		fermatatest.Answer("wonder", runner.Complete("", "ci", text("late"))),
		fermatatest.Answer("ask", runner.Complete("", "ada", text("so"))))...)

	add(each("duplicate and conflicting webhooks", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done."),
				fakellm.Says("Welcome.")),
		}
	}, hello,
		fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))).Undriven(),
		fermatatest.Answer("deploy",
			runner.Complete("", "ci-2", json.RawMessage(` {"text" : "v2"}`))).Undriven(),
		fermatatest.Answer("deploy", runner.Complete("", "ci", text("v3"))),
		fermatatest.Answer("deploy", runner.Fail("", "ci", "no disk", false)),
		thanks,
		fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))))...)

	add(each("progress", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{reporting(e)},
			Model: fakellm.New(fakellm.Calls("report", `{"text":"job"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Progress("report", tool.Progress{Message: "half", Fraction: 0.5}),
		fermatatest.Pass(time.Second),
		fermatatest.Progress("report", tool.Progress{Message: "nearly", Fraction: 0.9}),
		fermatatest.Answer("report", runner.Complete("", "ci", text("v2"))),
		fermatatest.Progress("report", tool.Progress{Message: "late"}))...)

	add(each("Run repeated", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done."),
				fakellm.Says("Welcome.")),
		}
	}, hello, hello, thanks,
		fermatatest.Answer("deploy", runner.Complete("", "ci", text("v2"))).Undriven(),
		hello, fermatatest.Message("m1", "Something else."), thanks, thanks)...)
	all[len(all)-2].Diverges = true // nothing waits then that would refuse a message

	add(each("message as answer", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{talking(e)},
			Model: fakellm.New(fakellm.Calls("talk", `{"text":"city"}`), fakellm.Says("Done."),
				fakellm.Says("Welcome.")),
		}
	}, hello, fermatatest.Message("m3", "Oslo"), fermatatest.Message("m3", "Oslo"), thanks)...)
	// Once the call is lost, no question is open, and the message is one like
	// any other.
	all[len(all)-2].Diverges = true

	add(each("superseded", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{instant("work", e), asking("ask", e)},
			Interceptors: interceptor.Chain{
				interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"work"}})},
			Model: fakellm.New(fakellm.Calls("work", `{"text":"a"}`).And("ask", `{"text":"why"}`),
				fakellm.Says("As you like."),
				fakellm.Says("Bye.")),
		}
	}, hello, thanks,
		fermatatest.Message("m4", "Never mind.").With(runner.RunOptions{Supersede: true}),
		fermatatest.Answer("work", runner.Approve("", "ada", "")))...)
	all[len(all)-2].Diverges = true

	add(each("a fatal error before others", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools:       []tool.Tool{failing(), instant("work", e)},
			Concurrency: 1,
			Model: fakellm.New(fakellm.Calls("fail", `{"text":"a"}`).And("work", `{"text":"b"}`),
				fakellm.Says("Sorry."),
				fakellm.Says("Bye.")),
		}
	}, hello, hello, thanks)...)

	// The first Run fails, the second one carries on.
	failed := []fermatatest.Input{hello, hello, thanks}
	add(fermatatest.Scenario{Name: "a fatal error beside a running call, once",
		World: fatal(tool.Once), Inputs: failed},
		fermatatest.Scenario{Name: "a fatal error beside a running call, idempotent",
			World: fatal(tool.Idempotent), Inputs: failed},
		fermatatest.Scenario{Name: "a tool that reconciles", World: reconciled,
			Inputs: []fermatatest.Input{hello, thanks}},
		fermatatest.Scenario{Name: "a tool that asks an operator", World: operated,
			Inputs: []fermatatest.Input{hello, thanks}},
		fermatatest.Scenario{Name: "a call that did not happen runs again", World: rerun,
			Inputs: []fermatatest.Input{hello,
				fermatatest.Answer("pay", runner.Approve("", "ada", "fine")), thanks}},
		fermatatest.Scenario{Name: "called off when it is cancelled", World: calledOff,
			Inputs: []fermatatest.Input{hello, fermatatest.Cancel("build", "no")}},
		fermatatest.Scenario{Name: "called off at the deadline", World: calledOff,
			Inputs: []fermatatest.Input{hello, fermatatest.Pass(2 * time.Hour)}},
		fermatatest.Scenario{Name: "called off when it is superseded", World: calledOff,
			Inputs: []fermatatest.Input{hello,
				fermatatest.Message("m4", "Never mind.").With(runner.RunOptions{Supersede: true})}},
		fermatatest.Scenario{Name: "answered, and not called off", World: notCalledOff,
			Inputs: []fermatatest.Input{hello,
				fermatatest.Answer("build", runner.Complete("", "ci", text("v2")))}},
		// Where the first entry is lost, an operator's pause takes the first
		// number, and the tool's own pause has the second one.
		fermatatest.Scenario{Name: "a re-entry that did not happen runs again", World: reentered,
			Inputs: []fermatatest.Input{hello,
				fermatatest.Answer("pay", runner.Complete("", "bank", text("now"))),
				fermatatest.Answer("pay", runner.Complete("", "bank", text("now"))).OfPause(2),
				thanks}})
	return all
}

// largeAnswer returns a scenario with an answer that is written in many pieces,
// and more than one batch.
func largeAnswer(size int) fermatatest.Scenario {
	return fermatatest.Scenario{
		Name: fmt.Sprintf("an answer of %d KiB", size>>10),
		World: world(agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Idempotent)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done.")),
		}),
		Inputs: []fermatatest.Input{hello,
			fermatatest.Answer("deploy",
				runner.Complete("", "ci", text(strings.Repeat("x", size))))},
	}
}

// large returns scenarios in which everything that may be large is large: the
// user's message, arguments, a result, a question with its state, an answer,
// the model's last word.
func large(size int) []fermatatest.Scenario {
	big := strings.Repeat("ab<&>é ", size/8)
	return each(fmt.Sprintf("payloads of %d KiB", size>>10), func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{instant("work", e), waiting("deploy", e), remembering(e, big)},
			Model: fakellm.New(
				fakellm.Calls("work", string(text(big))).And("deploy",
					`{"text":"job"}`).And("remember", `{"text":"x"}`),
				fakellm.From(func(llm.Request) fakellm.Turn { return fakellm.Says(big) })),
		}
	}, fermatatest.Message("m1", big),
		fermatatest.Answer("deploy", runner.Complete("", "ci", text(big))),
		fermatatest.Answer("remember", runner.Complete("", "ada", text(big))))
}
