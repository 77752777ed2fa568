package workflow_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

// A program that forgot its steps is told so.
func TestAWorkflowHasSteps(t *testing.T) {
	_, err := workflow.New("empty").Build(nil)
	if err == nil || !strings.Contains(err.Error(), `workflow "empty" has no steps`) {
		t.Errorf("the error is %v", err)
	}
}

// What can't be carried out is refused before anything begins, in words that
// name the step.
func TestListsAreCheckedAtTheStart(t *testing.T) {
	set, err := workflow.NewSet("set", []tool.Tool{echo("echo"), asks("ask")}, nil)
	must(t, err)
	step := func(s string) string { return `{"name":"w","steps":[` + s + `]}` }
	for _, of := range []struct{ list, want string }{
		{step(`{"name":"a","tool":"echo","arguments":{"text":{"from":"/steps/b/text"}}}`),
			`step "a": it refers to "/steps/b/text", and no step is named "b"`},
		{step(`{"name":"a","tool":"echo","arguments":{"text":{"from":"/step/b"}}}`),
			`is neither /input, nor /steps/ and the name of a step`},
		{step(`{"name":"a","tool":"echo","arguments":{"text":{"from":"/inputtext"}}}`),
			`begins with a slash, as in /input/order`},
		{step(`{"name":"a","tool":"echo","arguments":{"text":{"from":"/steps/a/text"}}}`),
			`refers to its own output`},
		{step(`{"name":"a","tool":"echo","arguments":{"text":{"from":"/steps/b/text"}}},` +
			`{"name":"b","tool":"echo","after":["c"]},{"name":"c","tool":"echo","after":["a"]}`),
			`the steps wait for each other: a, which needs b, which needs c, which needs a`},
		{step(`{"name":"a","tool":"eco"}`), `there is no tool "eco". Did you mean echo?`},
		{step(`{"name":"a","tool":"workflow_end"}`), `there is no tool "workflow_end"`},
		{step(`{"name":"a","tool":"echo"},{"name":"a","tool":"ask"}`), `two steps are named "a"`},
		{step(`{"name":"a b","tool":"echo"}`), `its name "a b" is not 1 to 40 letters`},
		{step(``), `it has no steps`},
		{step(`{"name":"a","tool":"echo","arguments":[]}`), `not an object`},
		{step(`{"name":"a","tool":"echo","arguments":{"text":5}}`), `text`},
		{step(`{"name":"a","tool":"echo","arguments":{"n":{"from":"/input"},"text":5}}`),
			`text: it is of type number, and its tool takes string`},
		{step(`{"name":"a","tool":"echo","arguments":{"txt":{"from":"/input"}}}`),
			`its tool has no parameter "txt"`},
		{step(`{"name":"b","tool":"ask"},` +
			`{"name":"a","tool":"echo","arguments":{"text":{"from":"/steps/b/txt"}}}`),
			`what step "b" comes to never has that`},
		{step(`{"name":"b","tool":"ask"},` +
			`{"name":"a","tool":"echo","arguments":{"n":{"from":"/steps/b/text"}}}`),
			`which is of type string, and its tool takes integer`},
		{step(`{"name":"a","tool":"echo","after":["x"]}`), `it comes after "x", and no step`},
		{step(`{"name":"a","tool":"echo","onFailure":"stop"}`), `onFailure is "stop"`},
		{step(`{"name":"a","tool":"echo","retry":{"times":0}}`), `retry: times is 0`},
		{step(`{"name":"a","tool":"echo","retry":{"times":1,"delayMs":31536000001}}`),
			`retry: delayMs is 31536000001`},
		{step(`{"name":"a","tool":"echo","retry":{"times":1,"mostMs":9223372036854775807}}`),
			`mostMs is 9223372036854775807; 0 to 31536000000 are taken, which is a year`},
		{step(`{"name":"a","tool":"echo","retry":{"times":1,"delayMs":-1}}`), `delayMs is -1`},
		{step(`{"name":"a","tool":"echo","compensate":"b"}`), `taken back by "b", and no step`},
		{step(`{"name":"a","tool":"echo","compensate":"b"},{"name":"b","tool":"echo"},` +
			`{"name":"c","tool":"echo","after":["b"]}`), `needs "b", which only takes "a" back`},
		{step(`{"name":"a","tool":"echo","compensate":"c"},` +
			`{"name":"b","tool":"echo","compensate":"c"},{"name":"c","tool":"echo"}`),
			`each needs one of its own`},
		{`{"name":"w","steps":[{"name":"a","tool":"echo"}],"output":{"from":"/steps/b"}}`,
			`output: it refers to "/steps/b"`},
		{`{"name":"w","steps":[{"name":"a","tool":"echo"}],"output":{"from":"/steps/a~2"}}`,
			`neither ~0 nor ~1`},
		{`{"name":"w\u0007","steps":[{"name":"a","tool":"echo"}]}`, `a control character`},
		{step(`{"name":"a","tool":"echo","arguments":{"text":{"from":"/input/x/y"}}}`),
			`it refers to "/input/x/y", and in the input there is no "x"`},
	} {
		var l workflow.List
		must(t, json.Unmarshal([]byte(of.list), &l))
		_, err := set.Message(&l, json.RawMessage(`{}`))
		if err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%s is refused with: %v", of.list, err)
		}
	}
	var many workflow.List
	many.Name = "many"
	for range workflow.MaxSteps + 1 {
		many.Steps = append(many.Steps, workflow.Step{Name: "a", Tool: "echo"})
	}
	if err := set.Check(&many); err == nil || !strings.Contains(err.Error(), "at most 200") {
		t.Error(err)
	}
	var fine workflow.List
	must(t, json.Unmarshal([]byte(step(`{"name":"a","tool":"echo","arguments":{"text":"x"}}`)), &fine))
	must(t, set.Check(&fine))
}

// Tools of a workflow have names of their own, and a name is one tool's.
func TestAWorkflowsToolsHaveNamesOfTheirOwn(t *testing.T) {
	if _, err := workflow.NewSet("s", []tool.Tool{echo("workflow_wait")}, nil); err == nil {
		t.Error("a tool has a name of the runtime's")
	}
	if _, err := workflow.NewSet("s", nil, nil); err == nil {
		t.Error("a set has no tools")
	}
	_, err := workflow.New("w").Step("a", echo("echo"), nil, nil).
		Step("b", echo("echo"), nil, nil).Build(nil)
	if err == nil || !strings.Contains(err.Error(), "another one") {
		t.Error(err)
	}
	if _, err := workflow.New("w").Step("a", nil, nil, nil).Build(nil); err == nil {
		t.Error("a step has no tool")
	}
}

// What a list from outside has that no list has is refused by its name, and so is
// what two readers would read differently.
func TestUnknownMembersAreRefused(t *testing.T) {
	const a = `"name":"a","tool":"echo"`
	for list, want := range map[string]string{
		`{"name":"w","steps":[{` + a + `,"onFailre":"continue"}]}`: `no member "onFailre" (at byte`,
		`{"name":"w","steps":[{` + a + `,"retry":{"times":1,"delay":5}}]}`: `no member "delay" (at byte ` +
			`73, in /steps/0/retry/delay)`,
		`{"name":"w","steps":[{` + a + `}],"inputs":1}`:                    `no member "inputs"`,
		`{"name":"w","steps":[{` + a + `,"Arguments":{}}]}`:                `"Arguments" is not "arguments"`,
		`{"name":"w","steps":[{` + a + `,"arguments":{},"arguments":{}}]}`: `"arguments" is there twice`,
		`{"name":"w","steps":[{` + a + `,"after":null}]}`:                  `a value is null`,
		`{"name":"w"}`: `the member "steps" is missing`,
		`[]`:           `a [ stands where a {`,
	} {
		if _, err := workflow.ParseList([]byte(list)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is refused with: %v", list, err)
		}
		refusedAtTheStart(t, `{"workflow":`+list+`}`, strings.Split(want, " (at byte")[0])
	}
	l, err := workflow.ParseList([]byte(`{"name":"w","version":"1","steps":[{` + a + `,"arguments":{},` +
		`"after":["b"],"onFailure":"continue","retry":{"times":1,"delayMs":1,"mostMs":1},` +
		`"compensate":"c"}],"output":{"any":1}}`))
	must(t, err)
	if s := l.Steps[0]; l.Version != "1" || string(l.Output) != `{"any":1}` || s.Retry.MostMs != 1 ||
		s.After[0] != "b" || s.Compensate != "c" || s.OnFailure != workflow.ContinueOnFailure {
		t.Errorf("%+v", l)
	}
}

// A first message that Set.Message hasn't made is checked as one that it has:
// nothing is begun of a list that can't be carried out.
func TestARawMessageIsChecked(t *testing.T) {
	for message, want := range map[string]string{
		`{"workflow":{"name":"w","steps":[{"name":"a","tool":"echo"},` +
			`{"name":"b","tool":"eco","after":["a"]}]}}`: `step "b": there is no tool "eco". Did you mean echo?`,
		`{"workflow":{"name":"w","steps":[{"name":"a","tool":"echo"},` +
			`{"name":"b","tool":"workflow_step","after":["a"]}]}}`: `there is no tool "workflow_step"`,
		`{"workflow":{"name":"w","steps":[{"name":"a","tool":"echo"},` +
			`{"name":"b","tool":"echo","after":["a"],"arguments":{"txt":1}}]}}`: `txt`,
		`{"workflow":{"name":"w","steps":[{"name":"a","tool":"echo"}]},"inputs":{}}`: `no member "inputs"`,
	} {
		refusedAtTheStart(t, message, want)
	}
}

// refusedAtTheStart has a message begin a session of a set's agent, and wants that
// to fail before any call is made, also if another message has come meanwhile.
func refusedAtTheStart(t *testing.T, message, want string) {
	t.Helper()
	set, err := workflow.NewSet("set", []tool.Tool{echo("echo")}, nil)
	must(t, err)
	r := newRig(t, set.Agent())
	for range 2 {
		got := r.say(llm.UserText(message))
		if got.end.Finish != event.FinishFailed || !strings.Contains(got.end.Why, want) {
			t.Errorf("%s: %+v, %v", message, got.end, got.err)
		}
	}
	seen, err := r.Show(t.Context(), here, ada)
	must(t, err)
	for _, m := range seen.History {
		if m.Role != llm.RoleUser {
			t.Errorf("%s has made a %s say %+v", message, m.Role, m.Parts)
		}
	}
	r.sound()
}
