package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

type roomChoice struct {
	Number int `json:"number"`
}

// even reads itself, and only if its text is even long. Its schema is that of a
// string.
type even string

func (e *even) UnmarshalText(text []byte) error {
	if len(text)%2 != 0 {
		return errors.New("an odd length")
	}
	*e = even(text)
	return nil
}

func (e even) MarshalText() ([]byte, error) { return []byte(e), nil }

// hotel asks for a room, then for a name, then for a code; the latter two have
// one schema, and not one type. The question for the room is called first.
func hotel(first string, n *counter) tool.Tool {
	which := tool.NewQuestion[string, []int, roomChoice](first)
	name := tool.NewQuestion[string, int, string]("name")
	code := tool.NewQuestion[string, map[string]int, even]("code")
	return tool.Must(tool.Resumable(tool.Spec{Name: "book", Description: "b"},
		func(context.Context, struct{}) (tool.Result[string], error) {
			n.add("start")
			return tool.Within(which.Ask("Which room?", []int{7, 9}),
				tool.TimeLimit{Timeout: time.Hour, OnTimeout: tool.ReenterOnTimeout}), nil
		},
		tool.On(which, func(_ context.Context, _ struct{},
			re tool.Reply[[]int, roomChoice]) (tool.Result[string], error) {
			n.add("which")
			if re.TimedOut {
				return tool.Done(fmt.Sprintf("no one was chosen of %v", re.State)), nil
			}
			return name.Ask("In which name?", re.Answer.Number), nil
		}),
		tool.On(name, func(_ context.Context, _ struct{},
			re tool.Reply[int, string]) (tool.Result[string], error) {
			n.add("name")
			return code.Ask("And the code?", map[string]int{re.Answer: re.State}), nil
		}),
		tool.On(code, func(_ context.Context, _ struct{},
			re tool.Reply[map[string]int, even]) (tool.Result[string], error) {
			n.add("code")
			return tool.Done(fmt.Sprint(re.State, " with ", re.Answer)), nil
		})))
}

func hotelRig(t *testing.T, n *counter) (*rig, *clock) {
	cl := newClock()
	return newRig(t, agent.Config{Tools: []tool.Tool{hotel("which_room", n)},
		Model: fakellm.New(fakellm.Calls("book", `{}`), fakellm.Says("Done."))}, at(cl)), cl
}

// Each question takes its own answers and no others, where the agent is at hand
// by its type, too; and in each process.
func TestEachQuestionTakesItsOwnAnswers(t *testing.T) {
	var n counter
	r, _ := hotelRig(t, &n)
	p := r.say("Book.").finished(event.FinishPaused).pause("book")
	for i, step := range []struct {
		question, answer string
		refused          []string
		state            string
	}{
		{"which_room", `{"number":7}`, []string{`{}`, `true`, `"ada"`, `{"number":"7"}`}, `[7,9]`},
		{"name", `"odd"`, []string{`{}`, `{"number":7}`, `null`}, `7`},
		{"code", `"even"`, []string{`{}`, `7`, `"odd"`}, `{"odd":7}`},
	} {
		if p.Number != i+1 || p.Await.Question != step.question ||
			string(p.Await.Data) != step.state {
			t.Fatalf("pause %d is %+v", i+1, p)
		}
		shown, err := json.Marshal(p)
		if want := `"question":"` + step.question + `"`; err != nil ||
			!strings.Contains(string(shown), want) {
			t.Errorf("an inbox is told %s, %v", shown, err)
		}
		for _, bad := range step.refused {
			_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ada", []byte(bad)))
			if !errors.Is(err, session.ErrInvalidResumePayload) {
				t.Errorf("%s: %s is told %v", step.question, bad, err)
			}
		}
		r.restart()
		s := r.answer(runner.Complete(p.ID, "ada", []byte(step.answer)))
		if i == 2 {
			s.finished(event.FinishStop)
			break
		}
		p = s.finished(event.FinishPaused).pause("book")
	}
	if got := string(r.result(p.Call).Output); got != `"map[odd:7] with even"` {
		t.Errorf("the result is %s", got)
	}
	for _, step := range []string{"start", "which", "name", "code"} {
		if n.get(step) != 1 {
			t.Errorf("%s was run %d times", step, n.get(step))
		}
	}
	r.sound()
}

// A question that has another name after a deploy leaves the one that waits
// behind: its call ends with an error that says so, and nothing acts.
func TestQuestionThatWasRenamed(t *testing.T) {
	var n counter
	r, _ := hotelRig(t, &n)
	p := r.say("Book.").finished(event.FinishPaused).pause("book")
	r.config.Tools = []tool.Tool{hotel("what_room", &n)}
	r.restart()
	r.answer(runner.Complete(p.ID, "ada", []byte(`{"number":7}`))).finished(event.FinishStop)
	if got := r.result(p.Call); !got.Error || n.get("which") != 0 || !strings.Contains(
		string(got.Output), `the question \"which_room\" was answered, and the tool has it no more`) {
		t.Errorf("the model reads %s; the step was run %d times", got.Output, n.get("which"))
	}
}

// No answer comes: the step of the question is told, with its state.
func TestQuestionWithoutAnAnswer(t *testing.T) {
	var n counter
	r, cl := hotelRig(t, &n)
	p := r.say("Book.").finished(event.FinishPaused).pause("book")
	cl.pass(time.Hour)
	r.restart()
	r.carryOn().finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != `"no one was chosen of [7 9]"` {
		t.Errorf("the result is %s", got)
	}
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ada", []byte(`{"number":7}`)))
	if !errors.Is(err, session.ErrSettled) {
		t.Errorf("a late answer is told %v", err)
	}
}
