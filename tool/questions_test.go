package tool

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/internal/property"
)

type (
	room struct {
		Number int `json:"number" jsonschema:"minimum=1"`
	}
	sought struct{ Free []int }
	taken  struct {
		Number int
		Asked  int
	}
)

// hotel asks which room to book, and then whether that is sure: two questions,
// with a state and a type of answers each.
type hotel struct {
	which *Question[string, sought, room]
	sure  *Question[string, taken, bool]
}

func newHotel() hotel {
	return hotel{NewQuestion[string, sought, room]("which_room"),
		NewQuestion[string, taken, bool]("sure")}
}

func (h hotel) start(context.Context, struct{}) (Result[string], error) {
	return h.which.Ask("Which room?", sought{[]int{7, 9}}), nil
}

func (h hotel) chosen(
	_ context.Context, _ struct{}, re Reply[sought, room],
) (Result[string], error) {
	if re.TimedOut {
		return Done(fmt.Sprintf("no one was chosen of %v", re.State.Free)), nil
	}
	return h.sure.Ask(fmt.Sprintf("Room %d. Sure?", re.Answer.Number),
		taken{re.Answer.Number, 1}), nil
}

func (h hotel) confirmed(
	_ context.Context, _ struct{}, re Reply[taken, bool],
) (Result[string], error) {
	if !re.Answer && re.State.Asked < 2 {
		return h.which.Ask("Which other room?", sought{[]int{9}}), nil
	}
	return Done(fmt.Sprintf("room %d for %s: %v", re.State.Number, re.Actor, re.Answer)), nil
}

func (h hotel) tool(t testing.TB) Tool {
	t.Helper()
	return Must(Resumable(Spec{Name: "book"}, h.start, On(h.which, h.chosen),
		On(h.sure, h.confirmed)))
}

// TestEachQuestionHasItsOwnAnswer: its name, its schema, its state and its type
// are those of that question and no other.
func TestEachQuestionHasItsOwnAnswer(t *testing.T) {
	made := newHotel().tool(t)
	c := call("{}")
	for i, step := range []struct{ question, prompt, schema, answer string }{
		{"which_room", "Which room?", `"required":["number"]`, `{"number":7}`},
		{"sure", "Room 7. Sure?", `{"type":"boolean"}`, `false`},
		{"which_room", "Which other room?", `"required":["number"]`, `{"number":9}`},
		{"sure", "Room 9. Sure?", `{"type":"boolean"}`, `true`},
	} {
		exec, err := made.Execute(t.Context(), c)
		if err != nil || exec.Await == nil {
			t.Fatal(exec, err)
		}
		same(t, exec.Await.Question, step.question)
		same(t, exec.Await.Prompt, step.prompt)
		contains(t, string(exec.Await.Schema), step.schema)
		c.Answer = exec.Await.Answered(raw(step.answer))
		c.Answer.Pause, c.Answer.Actor = i+1, "ada"
	}
	exec, err := made.Execute(t.Context(), c)
	if err != nil || string(exec.Output) != `"room 9 for ada: true"` {
		t.Errorf("%s %v", exec.Output, err)
	}
}

// TestTheAnswerOfAnotherQuestionIsAskedForAgain: it is read as that of the
// question that was asked.
func TestTheAnswerOfAnotherQuestionIsAskedForAgain(t *testing.T) {
	made := newHotel().tool(t)
	for _, answer := range []string{`{}`, `true`, `{"number":0}`} {
		c := call("{}")
		c.Answer = &Answer{Question: "which_room", Payload: raw(answer),
			Data: raw(`{"Free":[7]}`), Prompt: "Which room?"}
		exec, err := made.Execute(t.Context(), c)
		if err != nil || exec.Await == nil || exec.Await.Question != "which_room" {
			t.Fatalf("%s: %+v, %v", answer, exec.Await, err)
		}
		contains(t, exec.Await.Prompt, "Which room? (Asked again: the answer does not fit")
		// And the state is still there for the next one.
		c.Answer = exec.Await.Answered(raw(`{"number":7}`))
		if exec, err = made.Execute(t.Context(), c); err != nil || exec.Await.Question != "sure" {
			t.Errorf("%+v, %v", exec.Await, err)
		}
	}
}

// TestAQuestionThatIsGoneIsAnErrorThatSaysSo: one that was renamed, or dropped,
// while it waited. An unnamed one is that of a tool which has no other.
func TestAQuestionThatIsGoneIsAnErrorThatSaysSo(t *testing.T) {
	for question, want := range map[string]string{
		"what_room": `the question "what_room" was answered, and the tool has it no more: its ` +
			`questions are ["sure" "which_room"]; probably the tool was changed since it asked`,
		"": `none of the tool's questions, which are ["sure" "which_room"]`,
	} {
		c := call("{}")
		c.Answer = &Answer{Question: question, Payload: raw(`true`), Data: raw(`{}`)}
		_, err := newHotel().tool(t).Execute(t.Context(), c)
		if err == nil {
			t.Fatalf("%q: no error", question)
		}
		contains(t, err.Error(), want)
	}
	c := call(`{"To":"Oslo"}`)
	c.Answer = &Answer{Payload: raw(`{"offer":0}`), Data: raw(`[{"id":1}]`)}
	if exec, err := booking(t).Execute(t.Context(), c); err != nil || exec.Output == nil {
		t.Errorf("%+v, %v", exec, err)
	}
}

// TestAResumableAsksItsOwnQuestions: it could not be entered with the answer to
// any other, nor with anything else than an answer to a question.
func TestAResumableAsksItsOwnQuestions(t *testing.T) {
	h := newHotel()
	twin, other := newHotel(), NewQuestion[string, sought, room]("other")
	hour := TimeLimit{Timeout: time.Hour}
	for name, c := range map[string]struct {
		result Result[string]
		want   string // empty: it may
	}{
		"its own":              {h.which.Ask("?", sought{}), ""},
		"its own, bounded":     {Within(With(h.which.Ask("?", sought{})), hour), ""},
		"another":              {other.Ask("?", sought{}), `the question "other" has no step`},
		"another, in wraps":    {With(Within(other.Ask("?", sought{}), hour)), `"other" has no step`},
		"one of the same name": {twin.which.Ask("?", sought{}), `"which_room" has no step`},
		"an output":            {NeedInput[string]("?"), ""},
		"an outside job":       {Pending[string](Await{Key: "j"}), ""},
		"a re-entry":           {Pending[string](Await{Mode: ModeReenter}), "by its questions alone"},
		"a timer":              {Pending[string](Await{Reason: ReasonTimer}), "by its questions alone"},
		"a time-out that re-enters": {Within(NeedInput[string]("?"),
			TimeLimit{Timeout: 1, OnTimeout: ReenterOnTimeout}), "by its questions alone"},
	} {
		t.Run(name, func(t *testing.T) {
			made := Must(Resumable(Spec{Name: "book"},
				func(context.Context, struct{}) (Result[string], error) { return c.result, nil },
				On(h.which, h.chosen), On(h.sure, h.confirmed)))
			exec, err := made.Execute(t.Context(), call("{}"))
			switch {
			case (err == nil) != (c.want == "") || err == nil && exec.Await == nil:
				t.Errorf("%+v, %v", exec.Await, err)
			case err != nil:
				contains(t, err.Error(), c.want)
			}
		})
	}
}

func TestStepsThatMakeNoToolAreErrorsOfConstruction(t *testing.T) {
	h := newHotel()
	var none *Question[string, sought, room]
	bad := NewQuestion[string, sought, room]("which room?")
	which := On(h.which, h.chosen)
	for want, steps := range map[string][]Step[struct{}, string]{
		"it has no questions":                   nil,
		"a question is nil":                     {On(none, h.chosen)},
		`question "sure": its function is nil`:  {which, On[struct{}](h.sure, nil)},
		`two of its questions are called`:       {which, which},
		"a step was not made by On":             {which, {}},
		`a question: the name "which room?" is`: {On(bad, h.chosen)},
		`two of its questions are called "sure"`: {
			On(h.sure, h.confirmed), On(newHotel().sure, h.confirmed)},
	} {
		_, err := Resumable(Spec{Name: "book"}, h.start, steps...)
		if err == nil {
			t.Fatalf("%s: a tool was made", want)
		}
		contains(t, err.Error(), `tool "book": `, want)
	}
	if _, err := Resumable(Spec{Name: "book"}, nil, which); err == nil {
		t.Error("a tool without a start was made")
	}
	if exec, err := execution(bad.Ask("?", sought{}), nil); err == nil {
		t.Errorf("a question without a good name asks %+v", exec)
	}
}

// TestAReplyTellsThatNoAnswerCame: with what was kept.
func TestAReplyTellsThatNoAnswerCame(t *testing.T) {
	h := newHotel()
	limit := TimeLimit{Timeout: time.Hour, OnTimeout: ReenterOnTimeout}
	made := Must(Resumable(Spec{Name: "book"},
		func(ctx context.Context, in struct{}) (Result[string], error) {
			asked, err := h.start(ctx, in)
			return Within(asked, limit), err
		}, On(h.which, h.chosen), On(h.sure, h.confirmed)))
	exec, err := made.Execute(t.Context(), call("{}"))
	if err != nil || exec.Await.Timeout != time.Hour ||
		exec.Await.OnTimeout != ReenterOnTimeout {
		t.Fatalf("%+v, %v", exec.Await, err)
	}
	c := call("{}")
	c.Answer = exec.Await.Answered(raw("null"))
	c.Answer.TimedOut = true
	if exec, err = made.Execute(t.Context(), c); err != nil ||
		string(exec.Output) != `"no one was chosen of [7 9]"` {
		t.Errorf("%s %v", exec.Output, err)
	}
}

// TestDialogsKeepTheirTypes: whatever order questions come in, each step gets
// the answer and the state of its own question, as they were.
func TestDialogsKeepTheirTypes(t *testing.T) {
	type textState struct{ Left, Text string }
	type numberState struct {
		Left string
		N    int64
	}
	text := NewQuestion[string, textState, string]("text")
	number := NewQuestion[string, numberState, int64]("number")
	var said strings.Builder
	// ask asks the first question of what is left: t or n, and then a digit.
	ask := func(left string) Result[string] {
		switch {
		case left == "":
			return Done(said.String())
		case left[0] == 't':
			return text.Ask("t", textState{left[2:], left[1:2]})
		}
		return number.Ask("n", numberState{left[2:], int64(left[1] - '0')})
	}
	made := Must(Resumable(Spec{Name: "talk"},
		func(_ context.Context, in struct{ Script string }) (Result[string], error) {
			return ask(in.Script), nil
		},
		On(text, func(_ context.Context, _ struct{ Script string },
			re Reply[textState, string]) (Result[string], error) {
			fmt.Fprintf(&said, "t%s=%s;", re.State.Text, re.Answer)
			return ask(re.State.Left), nil
		}),
		On(number, func(_ context.Context, _ struct{ Script string },
			re Reply[numberState, int64]) (Result[string], error) {
			fmt.Fprintf(&said, "n%d=%d;", re.State.N, re.Answer)
			return ask(re.State.Left), nil
		})))
	property.Check(t, func(t *rapid.T) {
		said.Reset()
		script := rapid.StringMatching(`([tn][0-9]){0,6}`).Draw(t, "script")
		c := call(fmt.Sprintf(`{"Script":%q}`, script))
		var want strings.Builder
		for i := 0; i < len(script); i += 2 {
			exec, err := made.Execute(t.Context(), c)
			if err != nil || exec.Await == nil {
				t.Fatal(exec, err)
			}
			n := rapid.Int64().Draw(t, "answer")
			answer := fmt.Sprint(n)
			if script[i] == 't' {
				answer = fmt.Sprintf("%q", answer)
			}
			fmt.Fprintf(&want, "%s=%d;", script[i:i+2], n)
			c.Answer = exec.Await.Answered(raw(answer))
		}
		exec, err := made.Execute(t.Context(), c)
		if err != nil || string(exec.Output) != fmt.Sprintf("%q", want.String()) {
			t.Fatalf("%s is told %s, %v", want.String(), exec.Output, err)
		}
	})
}
