package ask_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/ask"
)

// Each kind of question is shown in words, takes what answers it and nothing
// else, and the model reads just that.
func TestEachKindIsAskedAndAnswered(t *testing.T) {
	for kind, c := range map[ask.Kind]struct {
		args, prompt, data string
		refused            []string
		answer             string
	}{
		ask.Clarification: {
			args:    `{"kind":"clarification","question":" Which customer do you mean? "}`,
			prompt:  "Which customer do you mean?",
			data:    `{"kind":"clarification","question":"Which customer do you mean?"}`,
			refused: []string{`7`, `{}`, `""`, `null`}, answer: `"The one in <Oslo>"`,
		},
		ask.Decision: {
			args:    `{"kind":"decision","question":"Which plan?","options":["Basic"," Pro "]}`,
			prompt:  "Which plan?\n\nOne of:\n- Basic\n- Pro",
			data:    `{"kind":"decision","question":"Which plan?","options":["Basic","Pro"]}`,
			refused: []string{`"basic"`, `" Pro "`, `"Gold"`, `1`, `{}`}, answer: `"Pro"`,
		},
		ask.Confirmation: {
			args:    `{"kind":"confirmation","question":"Delete 3 files?"}`,
			prompt:  "Delete 3 files?\n\nYes or no?",
			data:    `{"kind":"confirmation","question":"Delete 3 files?"}`,
			refused: []string{`true`, `"maybe"`, `{}`}, answer: `"no"`,
		},
		ask.Information: {
			args: `{"kind":"information","question":"Where to?","schema":"{\"type\":\"object\",` +
				`\"required\":[\"street\"],\"properties\":{\"street\":{\"type\":\"string\",` +
				`\"description\":\"With the number\"},\"zip\":{\"type\":\"integer\"}}}"}`,
			prompt: "Where to?\n\nPlease give:\n- street (text): With the number\n" +
				"- zip (whole number, optional)",
			data:    `{"kind":"information","question":"Where to?"}`,
			refused: []string{`{}`, `{"street":7}`, `{"street":"a","town":"b"}`, `"Main St"`},
			answer:  `{"street":"1 Main St","zip":9007199254740993}`,
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			d, end := begin(t, nil, c.args)
			if end.Finish != event.FinishPaused || len(end.Pending) != 1 {
				t.Fatalf("the run ends as %s; the model reads %s", end.Finish, d.reads().Output)
			}
			p := end.Pending[0]
			if p.Await.Reason != tool.ReasonInput || p.Await.Question != string(kind) ||
				p.Await.Prompt != c.prompt || string(p.Await.Data) != c.data ||
				!p.Deadline.IsZero() {
				t.Errorf("it waits for %+v", p.Await)
			}
			for _, bad := range c.refused {
				_, err := d.answer(p, bad)
				if !errors.Is(err, session.ErrInvalidResumePayload) {
					t.Errorf("%s is told %v", bad, err)
				}
			}
			if end, err := d.answer(p, c.answer); err != nil || end.Finish != event.FinishStop {
				t.Fatalf("%s, %v", end.Finish, err)
			}
			if got := d.reads(); string(got.Output) != c.answer || got.Error {
				t.Errorf("the model reads %s", got.Output)
			}
		})
	}
}

// What could not be answered is refused at once, in words for the model, and
// no person is asked.
func TestWhatCanNotBeAnsweredIsRefused(t *testing.T) {
	long := strings.Repeat("q", 4001)
	for _, c := range []struct{ args, want string }{
		{`{"kind":"riddle","question":"Q?"}`, "/kind: must be one of"},
		{`{"question":"Q?"}`, "/kind: is required"},
		{`{"kind":"clarification","question":" "}`, "question is empty"},
		{`{"kind":"clarification","question":"` + long + `"}`, "at most 4000 are taken"},
		{`{"kind":"clarification","question":"Q?","options":["a","b"]}`,
			`options go with kind \"decision\"`},
		{`{"kind":"confirmation","question":"Q?","schema":"{}"}`,
			`schema goes with kind \"information\"`},
		{`{"kind":"decision","question":"Q?"}`, "there are 0 options, a decision has 2 to 20"},
		{`{"kind":"decision","question":"Q?","options":["a"]}`, "there are 1 options"},
		{`{"kind":"decision","question":"Q?","options":["a"," A"]}`,
			`option 2, \"A\", is there twice`},
		{`{"kind":"decision","question":"Q?","options":["a",""]}`, "option 2 is empty"},
		{`{"kind":"decision","question":"Q?","options":["a","` + long[:201] + `"]}`,
			"option 2 has 201 characters"},
		{`{"kind":"information","question":"Q?"}`, "schema: it is empty"},
		{`{"kind":"information","question":"Q?","schema":"{\"type\":\"object\",` +
			`\"required\":[\"n\"],\"properties\":{\"n\":{\"type\":\"integer\",` +
			`\"minimum\":2,\"maximum\":1}}}"}`,
			"schema: n: no answer would fit"},
	} {
		t.Run(c.want, func(t *testing.T) {
			d, end := begin(t, nil, c.args)
			got := d.reads()
			if end.Finish != event.FinishStop || !got.Error ||
				!strings.Contains(string(got.Output), c.want) || len(got.Output) > 1000 {
				t.Errorf("the run ends as %s; the model reads %s", end.Finish, got.Output)
			}
		})
	}
}

// What a model fills in where nothing belongs, as it must where a provider
// holds it to the schema, does no harm.
func TestEmptyFieldsOfOtherKindsDoNoHarm(t *testing.T) {
	const args = `{"kind":"clarification","question":"Q?","options":[],"schema":""}`
	if d, end := begin(t, nil, args); end.Finish != event.FinishPaused {
		t.Errorf("it ends as %s; the model reads %s", end.Finish, d.reads().Output)
	}
}

// By option, the user's next message answers a clarification, and no other
// kind.
func TestNextMessageAnswersAClarification(t *testing.T) {
	o := &ask.Options{NextMessage: true}
	d, end := begin(t, o, `{"kind":"clarification","question":"Which one?"}`)
	if p := end.Pending[0]; p.Await.Mode != tool.ModeMessage {
		t.Errorf("it waits in mode %q", p.Await.Mode)
	}
	if end = d.say("The red one."); end.Finish != event.FinishStop {
		t.Errorf("the run ends as %s", end.Finish)
	}
	if got := string(d.reads().Output); got != `"The red one."` {
		t.Errorf("the model reads %s", got)
	}

	d, _ = begin(t, o, `{"kind":"confirmation","question":"Sure?"}`)
	for _, err := range d.Run(t.Context(), user, chat, llm.UserText("yes"), nil) {
		if err != nil {
			if !errors.Is(err, session.ErrPending) {
				t.Errorf("a message beside a confirmation is told %v", err)
			}
			return
		}
	}
	t.Error("a message was taken for a confirmation")
}

// A question to which no answer comes in time fails, and the model reads what to
// do without an answer; also where a message would have been one.
func TestAQuestionWithoutAnAnswer(t *testing.T) {
	for want, o := range map[string]*ask.Options{
		"No answer came within 1h0m0s. Go on without an answer if you can": {Timeout: time.Hour},
		"Treat it as a no.": {Timeout: time.Hour, Unanswered: "Treat it as a no.", NextMessage: true},
	} {
		d, end := begin(t, o, `{"kind":"clarification","question":"Which one?"}`)
		p := end.Pending[0]
		if !p.Deadline.Equal(d.now.Add(time.Hour)) {
			t.Errorf("it waits until %s", p.Deadline)
		}
		d.now = d.now.Add(time.Hour)
		if _, err := d.answer(p, `"late"`); !errors.Is(err, session.ErrResumeConflict) {
			t.Errorf("a late answer is told %v", err)
		}
		for _, err := range d.Continue(t.Context(), chat, user) {
			must(t, err)
		}
		if got := d.reads(); !got.Error || !strings.Contains(string(got.Output), want) {
			t.Errorf("the model reads %s", got.Output)
		}
	}
}

// The model is told of the kinds that it may use, and of nothing that goes with
// others.
func TestTheModelIsToldOfTheKindsThatItHas(t *testing.T) {
	for _, c := range []struct {
		kinds    []ask.Kind
		has, not []string
	}{
		{nil, []string{`"kind"`, `"options"`, `"schema"`, `"clarification","decision",` +
			`"information","confirmation"`}, nil},
		{[]ask.Kind{ask.Decision}, []string{`"options"`}, []string{`"kind"`, `"schema"`}},
		{[]ask.Kind{ask.Confirmation, ask.Information}, []string{`"kind"`, `"schema"`,
			`["confirmation","information"]`}, []string{`"options"`}},
	} {
		made, err := ask.User(&ask.Options{Kinds: c.kinds, Name: "inquire",
			Description: "Ask rarely."})
		must(t, err)
		spec := made.Spec()
		if spec.Name != "inquire" || !strings.HasSuffix(spec.Description, " Ask rarely.") ||
			!spec.MayPause || spec.Effect != tool.ReadOnly || !json.Valid(spec.Input) {
			t.Errorf("it is %+v", spec)
		}
		for _, has := range c.has {
			if !strings.Contains(string(spec.Input), has) {
				t.Errorf("%v: %s is not in %s", c.kinds, has, spec.Input)
			}
		}
		for _, not := range c.not {
			if strings.Contains(string(spec.Input), not) {
				t.Errorf("%v: %s is in %s", c.kinds, not, spec.Input)
			}
		}
	}
	d, end := begin(t, &ask.Options{Kinds: []ask.Kind{ask.Decision}},
		`{"question":"Which?","options":["a","b"]}`)
	if end.Finish != event.FinishPaused || end.Pending[0].Await.Question != "decision" {
		t.Errorf("a tool of one kind ends as %s; %s", end.Finish, d.reads().Output)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for want, o := range map[string]*ask.Options{
		"stands there once":                   {Kinds: []ask.Kind{ask.Decision, ask.Decision}},
		"each is one of":                      {Kinds: []ask.Kind{"riddle"}},
		"the timeout -1ns is negative":        {Timeout: -1},
		"no Timeout says when":                {Unanswered: "x"},
		"NextMessage is for clarifications":   {NextMessage: true, Kinds: []ask.Kind{ask.Decision}},
		`the name "ask the user" is not 1 to`: {Name: "ask the user"},
	} {
		if _, err := ask.User(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v is told %v", o, err)
		}
	}
}
