package fermatatest_test

import (
	"context"
	"encoding/json"
	"errors"
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

// The tools of the scenarios take a text, and give one back.
type (
	textIn struct {
		Text string `json:"text"`
	}
	textOut struct {
		Text string `json:"text"`
	}
)

func text(s string) json.RawMessage {
	b, _ := json.Marshal(textOut{s})
	return b
}

func fn(s tool.Spec, f func(context.Context, textIn) (tool.Result[textOut], error)) tool.Tool {
	s.Description = "One of a scenario."
	return tool.Must(tool.Func(s, f))
}

// instant answers at once.
func instant(name string, e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: name, Effect: e}, func(_ context.Context, in textIn) (tool.Result[textOut], error) {
		return tool.Done(textOut{"done: " + in.Text}), nil
	})
}

// waiting waits for an outside job, an hour at most.
func waiting(name string, e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: name, Effect: e, MayPause: true}, func(_ context.Context, in textIn) (tool.Result[textOut], error) {
		return tool.Pending[textOut](tool.Await{Key: in.Text, Timeout: time.Hour}), nil
	})
}

// asking asks a person.
func asking(name string, e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: name, Effect: e, MayPause: true}, func(_ context.Context, in textIn) (tool.Result[textOut], error) {
		return tool.NeedInput[textOut](in.Text + "?"), nil
	})
}

// endless runs until it is told to end.
func endless(name string, e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: name, Effect: e}, func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
}

// world is one without anything in it but what the agent is made of.
func world(c agent.Config) func() fermatatest.World {
	c.Name = "ops"
	return func() fermatatest.World {
		return fermatatest.World{Agent: func() agent.Config { return c }}
	}
}

// each makes a scenario for a tool of each effect.
func each(name string, make func(tool.Effect) agent.Config, inputs ...fermatatest.Input) []fermatatest.Scenario {
	var all []fermatatest.Scenario
	for _, e := range []tool.Effect{tool.Once, tool.Idempotent} {
		what := map[tool.Effect]string{tool.Once: "once", tool.Idempotent: "idempotent"}[e]
		all = append(all, fermatatest.Scenario{Name: name + ", " + what, World: world(make(e)), Inputs: inputs})
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
			Model: fakellm.New(fakellm.Calls("work", `{"text":"a"}`), fakellm.Says("Done."), fakellm.Says("Welcome.")),
		}
	}, hello, thanks)...)

	add(each("three in parallel", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{instant("work", e), waiting("deploy", e), asking("ask", e)},
			Model: fakellm.New(
				fakellm.Calls("deploy", `{"text":"job"}`).And("ask", `{"text":"why"}`).And("work", `{"text":"a"}`),
				fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("ask", runner.Complete("", text("because"), "ada")),
		fermatatest.Answer("deploy", runner.Complete("", text("v2"), "ci")))...)

	add(each("three answered together", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e), asking("ask", e)},
			Model: fakellm.New(
				fakellm.Calls("deploy", `{"text":"job"}`).And("ask", `{"text":"why"}`).And("deploy", `{"text":"job-2"}`),
				fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Together(
			fermatatest.Answer("ask", runner.Complete("", text("because"), "ada")),
			fermatatest.Answer("deploy", runner.Complete("", json.RawMessage(`{"text":7}`), "ci")),
			fermatatest.Answer("deploy", runner.Fail("", "no disk", "ci", true)).OfCall(2)),
		fermatatest.Answer("deploy", runner.Complete("", text("v2"), "ci")))...)

	gate := interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"deploy"}})
	add(each("approval, then a pause", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools:        []tool.Tool{waiting("deploy", e)},
			Interceptors: interceptor.Chain{gate},
			Model:        fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("deploy", runner.Approve("", "ada", "fine")),
		fermatatest.Answer("deploy", runner.Complete("", text("v2"), "ci")).OfPause(2))...)

	second := interceptor.Approval(&interceptor.ApprovalOptions{Name: "second", Tools: []string{"work"}})
	first := interceptor.Approval(&interceptor.ApprovalOptions{Name: "first", Tools: []string{"work"}})
	add(each("two gates", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools:        []tool.Tool{instant("work", e)},
			Interceptors: interceptor.Chain{first, second},
			Model:        fakellm.New(fakellm.Calls("work", `{"text":"a"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("work", runner.Approve("", "ada", "fine")),
		fermatatest.Answer("work", runner.ApproveEdited("", "bob", "half", textIn{"b"})).OfPause(2))...)

	add(each("denied beside approved", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools:        []tool.Tool{instant("work", e), instant("other", e)},
			Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"work", "other"}})},
			Model: fakellm.New(fakellm.Calls("work", `{"text":"a"}`).And("other", `{"text":"b"}`).And("work", `{"text":"c"}`),
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
		fermatatest.Answer("haggle", runner.Complete("", json.RawMessage(`5`), "ada")),
		fermatatest.Answer("haggle", runner.Complete("", json.RawMessage(`50`), "ada")).OfPause(2))...)

	add(each("an early answer", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("deploy", runner.Complete("", text("v2"), "ci")).During())...)

	add(each("an early failure", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("deploy", runner.Fail("", "no disk", "ci", false)).During())...)

	add(each("answered from within the event", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e), asking("ask", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`).And("ask", `{"text":"why"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Answer("deploy", runner.Complete("", text("v2"), "ci")).AtPause(),
		fermatatest.Answer("ask", runner.Complete("", text("because"), "ada")).AtPause())...)

	add(each("cancelled while running", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{endless("run", e), instant("work", tool.Idempotent)},
			Model: fakellm.New(fakellm.Calls("run", `{"text":"a"}`).And("work", `{"text":"b"}`), fakellm.Says("Done.")),
		}
	}, hello, fermatatest.Cancel("run", "too slow").During())...)

	add(each("cancelled while waiting", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done.")),
		}
	}, hello, fermatatest.Cancel("deploy", "too slow"), fermatatest.Answer("deploy", runner.Complete("", text("v2"), "ci")))...)

	add(each("deadline", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e), asking("ask", e), sleep(e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`).And("ask", `{"text":"why"}`).And("sleep", `{"text":"x"}`),
				fakellm.Says("Done.")),
		}
	}, hello, fermatatest.Pass(2*time.Hour),
		fermatatest.Answer("deploy", runner.Complete("", text("v2"), "ci")),
		fermatatest.Answer("ask", runner.Complete("", text("because"), "ada")))...)

	add(each("duplicate and conflicting webhooks", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done."), fakellm.Says("Welcome.")),
		}
	}, hello,
		fermatatest.Answer("deploy", runner.Complete("", text("v2"), "ci")).Undriven(),
		fermatatest.Answer("deploy", runner.Complete("", json.RawMessage(` {"text" : "v2"}`), "ci-2")).Undriven(),
		fermatatest.Answer("deploy", runner.Complete("", text("v3"), "ci")),
		fermatatest.Answer("deploy", runner.Fail("", "no disk", "ci", false)),
		thanks,
		fermatatest.Answer("deploy", runner.Complete("", text("v2"), "ci")))...)

	add(each("progress", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{reporting(e)},
			Model: fakellm.New(fakellm.Calls("report", `{"text":"job"}`), fakellm.Says("Done.")),
		}
	}, hello,
		fermatatest.Progress("report", tool.Progress{Message: "half", Fraction: 0.5}),
		fermatatest.Pass(time.Second),
		fermatatest.Progress("report", tool.Progress{Message: "nearly", Fraction: 0.9}),
		fermatatest.Answer("report", runner.Complete("", text("v2"), "ci")),
		fermatatest.Progress("report", tool.Progress{Message: "late"}))...)

	add(each("Run repeated", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{waiting("deploy", e)},
			Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job"}`), fakellm.Says("Done."), fakellm.Says("Welcome.")),
		}
	}, hello, hello, thanks,
		fermatatest.Answer("deploy", runner.Complete("", text("v2"), "ci")).Undriven(),
		hello, fermatatest.Message("m1", "Something else."), thanks, thanks)...)
	all[len(all)-2].Diverges = true // nothing waits then that would refuse a message

	add(each("message as answer", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{talking(e)},
			Model: fakellm.New(fakellm.Calls("talk", `{"text":"city"}`), fakellm.Says("Done."), fakellm.Says("Welcome.")),
		}
	}, hello, fermatatest.Message("m3", "Oslo"), fermatatest.Message("m3", "Oslo"), thanks)...)
	// Once the call is lost, nobody asks any more, and the message is one like any other.
	all[len(all)-2].Diverges = true

	add(each("superseded", func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools:        []tool.Tool{instant("work", e), asking("ask", e)},
			Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"work"}})},
			Model: fakellm.New(fakellm.Calls("work", `{"text":"a"}`).And("ask", `{"text":"why"}`), fakellm.Says("As you like."),
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
			Model: fakellm.New(fakellm.Calls("fail", `{"text":"a"}`).And("work", `{"text":"b"}`), fakellm.Says("Sorry."),
				fakellm.Says("Bye.")),
		}
	}, hello, hello, thanks)...)

	return all
}

// haggle asks for an offer until it is good enough.
func haggle(e tool.Effect) tool.Tool {
	type state struct{ Asked int }
	return tool.Must(tool.Resumable(tool.Spec{Name: "haggle", Description: "Asks until it likes the answer.", Effect: e},
		func(_ context.Context, in textIn, ask tool.Ask[textOut, state]) (tool.Result[textOut], error) {
			return ask("What do you offer for the "+in.Text+"?", state{1}), nil
		},
		func(_ context.Context, in textIn, re tool.Reply[textOut, state, int]) (tool.Result[textOut], error) {
			if re.Answer < 10 {
				return re.Ask("More!", state{re.State.Asked + 1}), nil
			}
			return tool.Done(textOut{in.Text + " is yours"}), nil
		}))
}

// sleep waits for time to pass.
func sleep(e tool.Effect) tool.Tool { return sleeper{e} }

type sleeper struct{ effect tool.Effect }

func (s sleeper) Spec() tool.Spec {
	return tool.Spec{Name: "sleep", Description: "Sleeps.", Effect: s.effect, MayPause: true,
		Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)}
}

func (s sleeper) Execute(_ context.Context, call tool.Call) (tool.Execution, error) {
	if call.Answer != nil {
		return tool.Execution{Output: json.RawMessage(`"awake"`)}, nil
	}
	return tool.Execution{Await: &tool.Await{Reason: tool.ReasonTimer, Timeout: 10 * time.Minute}}, nil
}

// reporting reports its progress before it waits.
func reporting(e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: "report", Effect: e, MayPause: true}, func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
		if err := tool.CallFrom(ctx).Report(ctx, tool.Progress{Message: "begun"}); err != nil {
			return nil, err
		}
		return tool.Pending[textOut](tool.Await{Key: in.Text}), nil
	})
}

// talking takes the user's next message for its output.
func talking(e tool.Effect) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "talk", Description: "Asks the user.", Effect: e, MayPause: true},
		func(_ context.Context, in textIn) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{Reason: tool.ReasonInput, Mode: tool.ModeMessage, Prompt: "Which " + in.Text + "?"}), nil
		}))
}

// failing ends the run.
func failing() tool.Tool {
	return fn(tool.Spec{Name: "fail", Effect: tool.Idempotent}, func(context.Context, textIn) (tool.Result[textOut], error) {
		return nil, tool.Fatal(errors.New("the disk is on fire"))
	})
}

// large is a scenario in which everything that may be large is: the user's message, arguments, a result, a question with its state,
// an answer, the model's last word.
func large(size int) []fermatatest.Scenario {
	big := strings.Repeat("ab<&>é ", size/8)
	args := min(size, 200<<10)
	return each(fmt.Sprintf("payloads of %d KiB", size>>10), func(e tool.Effect) agent.Config {
		return agent.Config{
			Tools: []tool.Tool{instant("work", e), waiting("deploy", e), remembering(e, big)},
			Model: fakellm.New(
				fakellm.Calls("work", string(text(big[:args/8*8]))).And("deploy", `{"text":"job"}`).And("remember", `{"text":"x"}`),
				fakellm.From(func(llm.Request) fakellm.Turn { return fakellm.Says(big) })),
		}
	}, fermatatest.Message("m1", big),
		fermatatest.Answer("deploy", runner.Complete("", text(big), "ci")),
		fermatatest.Answer("remember", runner.Complete("", text(big), "ada")))
}

// remembering asks with a large state, and gives it back.
func remembering(e tool.Effect, big string) tool.Tool {
	return tool.Must(tool.Resumable(tool.Spec{Name: "remember", Description: "Remembers.", Effect: e},
		func(_ context.Context, in textIn, ask tool.Ask[textOut, textIn]) (tool.Result[textOut], error) {
			return ask("Do you remember?", textIn{big}), nil
		},
		func(_ context.Context, in textIn, re tool.Reply[textOut, textIn, textIn]) (tool.Result[textOut], error) {
			return tool.Done(textOut{re.State.Text + re.Answer.Text[:3]}), nil
		}))
}
