package agenttool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

type task struct {
	Topic string `json:"topic"`
	Words int    `json:"words,omitempty"`
	To    *struct{ Name string }
}

func writer(t *testing.T, turns ...fakellm.Turn) (*agent.Agent, *fakellm.Model) {
	t.Helper()
	m := fakellm.New(turns...)
	ag, err := agent.New(agent.Config{Name: "writer", Model: m})
	if err != nil {
		t.Fatal(err)
	}
	return ag, m
}

// hand has an agent hand work to the tool, once for each of the arguments, and
// returns what came of each.
func hand(t *testing.T, to tool.Tool, arguments ...string) (results []event.Result) {
	t.Helper()
	var script []fakellm.Turn
	for _, args := range arguments {
		script = append(script, fakellm.Says("I ask.").And("writer", args))
	}
	lead, err := agent.New(agent.Config{Name: "lead", Tools: []tool.Tool{to},
		Model: fakellm.New(append(script, fakellm.Says("Done."))...)})
	if err != nil {
		t.Fatal(err)
	}
	rn, err := runner.New(lead, session.NewStore(kvstore.NewMemory(), nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rn.Close()
	var last event.Event
	for ev, err := range rn.Run(t.Context(), "ada", "chat", llm.UserText("Hello."), nil) {
		last = ev
		if err != nil {
			t.Fatal(err)
		}
		if ev, ok := ev.(event.Result); ok {
			results = append(results, ev)
		}
	}
	if len(results) != len(arguments) {
		t.Fatalf("%d calls have %d results; it ended %+v", len(arguments), len(results), last)
	}
	return results
}

// What the agent is told is made of In: by a function, by a template, or as it
// is.
func TestWhatTheAgentIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		options *agenttool.Options[task]
		args    string
		want    string
	}{
		"a template": {&agenttool.Options[task]{Template: "{{.Words}} words on {{.Topic}}."},
			`{"topic":"cats","words":3,"To":null}`, "3 words on cats."},
		"a function": {&agenttool.Options[task]{
			Message: func(_ context.Context, in task) (llm.Message, error) {
				return llm.UserText("On " + in.Topic), nil
			}}, `{"topic":"cats","To":null}`, "On cats"},
		"JSON": {nil, `{"topic":"<a&b>","words":9007199254740993,"To":null}`,
			`{"topic":"<a&b>","words":9007199254740993,"To":null}`},
		"a part that may be missing": {&agenttool.Options[task]{Template: "To {{.To.Name}}."},
			`{"topic":"cats","To":{"Name":"Bob"}}`, "To Bob."},
	} {
		t.Run(name, func(t *testing.T) {
			ag, model := writer(t, fakellm.Says("A cat sleeps."))
			made, err := agenttool.New[task, string](ag, test.options)
			if err != nil {
				t.Fatal(err)
			}
			if r := hand(t, made, test.args)[0]; string(r.Result.Output) != `"A cat sleeps."` {
				t.Errorf("the call comes to %s", r.Result.Output)
			}
			if got := model.Requests()[0].Messages[0].Text(); got != test.want {
				t.Errorf("the agent is told %q, and not %q", got, test.want)
			}
		})
	}
}

// Only messages that say something are shown of the caller's history, and
// counted.
func TestHistoryIsWhatWasSaid(t *testing.T) {
	ag, model := writer(t, fakellm.Says("It is written."))
	made, err := agenttool.New[task, string](ag, &agenttool.Options[task]{
		History: 2, Template: "On {{.Topic}}.",
	})
	if err != nil {
		t.Fatal(err)
	}
	hand(t, made, `{"topic":"cats","To":null}`, `{"topic":"dogs","To":null}`)
	const before = "The conversation so far, for your information:\n\n"
	const after = "\n\nYour task:\n\n"
	want := []string{
		before + "user: Hello." + after + "On cats.",
		before + "user: Hello.\n\nassistant: I ask." + after + "On dogs.",
	}
	for i, r := range model.Requests() {
		if got := r.Messages[0].Text(); got != want[i] {
			t.Errorf("request %d: the agent is told %q, and not %q", i, got, want[i])
		}
	}
}

// A message without content is an error that the calling model can read and
// mend. No session is made for it.
func TestThereMustBeSomethingToTell(t *testing.T) {
	ag, model := writer(t, fakellm.Says("Yes."))
	made, err := agenttool.New[task, string](ag, &agenttool.Options[task]{Template: "{{.Topic}}"})
	if err != nil {
		t.Fatal(err)
	}
	r := hand(t, made, `{"topic":" ","To":null}`)[0]
	if r.Status != event.Failed ||
		!strings.Contains(string(r.Result.Output), "there is nothing to tell the agent writer") {
		t.Errorf("the call is %s: %s", r.Status, r.Result.Output)
	}
	if n := len(model.Requests()); n > 0 {
		t.Errorf("the agent was asked %d times", n)
	}
}

// What can never work is refused when the tool is made.
func TestNewRefusesWhatCanNeverWork(t *testing.T) {
	ag, _ := writer(t)
	both := &agenttool.Options[task]{Template: "a",
		Message: func(context.Context, task) (llm.Message, error) { return llm.UserText("a"), nil }}
	for name, test := range map[string]struct {
		make func() (tool.Tool, error)
		want string
	}{
		"no agent": {func() (tool.Tool, error) { return agenttool.New[task, string](nil, nil) },
			"the agent is nil"},
		"a list": {func() (tool.Tool, error) { return agenttool.New[task, []string](ag, nil) },
			"an agent's result is a string, or a struct"},
		"a number": {func() (tool.Tool, error) { return agenttool.New[task, int](ag, nil) },
			"and not int"},
		"any JSON": {func() (tool.Tool, error) {
			return agenttool.New[task, json.RawMessage](ag, nil)
		}, "and not json"}, // or jsontext.Value, by the experiment
		"anything": {func() (tool.Tool, error) { return agenttool.New[task, any](ag, nil) },
			"and not interface {}"},
		"a pointer": {func() (tool.Tool, error) { return agenttool.New[task, *task](ag, nil) },
			"and not *agenttool_test.task: drop the pointer"},
		"no time": {func() (tool.Tool, error) {
			return agenttool.New[task, string](ag, &agenttool.Options[task]{Timeout: -1})
		}, "Options.Timeout is -1ns"},
		"two ways": {func() (tool.Tool, error) { return agenttool.New[task, string](ag, both) },
			"one of them is used"},
		"a field that isn't there": {func() (tool.Tool, error) {
			return agenttool.New[task, string](ag, &agenttool.Options[task]{Template: "{{.Nope}}"})
		}, "can't evaluate field Nope"},
		"no template": {func() (tool.Tool, error) {
			return agenttool.New[task, string](ag, &agenttool.Options[task]{Template: "{{"})
		}, "Options.Template"},
		"no name to hand over to": {func() (tool.Tool, error) { return agenttool.Handoff("", nil) },
			"needs the name of an agent"},
	} {
		if made, err := test.make(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v", name, made, err)
		}
	}
}
