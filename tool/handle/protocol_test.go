//go:build unix

package handle

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/tool"
)

var speaks = &CommandOptions{Protocol: true}

// A program that speaks the protocol waits for answers, and tells its result.
func TestACommandSpeaksTheProtocol(t *testing.T) {
	h := newHost()
	end := execute(t, t.Context(), shell(t, tool.Spec{}, speaks), scripted(h, `
		read -r start; echo "$start" >&2
		echo '{"type":"spawned","content":"began\n"}'
		read -r input; echo "$input"
		echo '{"type":"waiting","question":{"id":"q1","text":"Sure?"}}'
		read -r answer; echo "got $answer"
		echo '{"type":"running"}'
		echo '{"type":"stopped","result":{"n":1}}'`))
	h.shows(t, "began\n")
	h.type1(t, `[1]`)
	h.await(t, func(shown string, last Update) bool {
		return last.Question != nil && last.Question.ID == "q1"
	})
	h.type1(t, `"yes"`)
	h.shows(t, `got {"type":"answer","id":"q1","answer":"yes"}`)
	e := end()
	must(t, e.err)
	if string(e.execution.Output) != `{"n":1}` {
		t.Errorf("%s", e.execution.Output)
	}
	h.shows(t, `{"type":"input","input":[1]}`)
	h.shows(t, `"answers":[]}`)
	if last := h.updates[len(h.updates)-1]; last.Question != nil {
		t.Errorf("it waits at the end: %+v", last)
	}
}

// A body that runs again is given the inputs of its call from the first on. An
// answer that comes before its question is kept for that.
func TestAnAnswerComesBeforeItsQuestion(t *testing.T) {
	h := newHost()
	h.given = []Input{{Value: json.RawMessage(`"yes"`), Question: "q1", Person: true},
		{Value: json.RawMessage(`"go"`), Person: true}}
	end := execute(t, t.Context(), shell(t, tool.Spec{}, speaks), scripted(h, `
		read -r start
		read -r input; echo "first $input"
		echo '{"type":"waiting","question":{"id":"q1","text":"Sure?"}}'
		read -r answer; echo "then $answer"
		echo '{"type":"stopped","result":1}'`))
	must(t, end().err)
	h.shows(t, `first {"type":"input","input":"go"}`)
	h.shows(t, `then {"type":"answer","id":"q1","answer":"yes"}`)
}

// A failure that the program tells is the call's error.
func TestACommandTellsItsFailure(t *testing.T) {
	e := execute(t, t.Context(), shell(t, tool.Spec{}, speaks),
		scripted(nil, `echo '{"type":"error","message":"no","trace":["a"],"transient":true}'; exit 1`))()
	f, ok := errors.AsType[*Failure](e.err)
	if !ok || f.Error() != "no\na" || !f.Transient {
		t.Errorf("%+v", e)
	}
}

// One that exits since it needs an answer is started again with it.
func TestACommandIsRunAgainWithAnswers(t *testing.T) {
	l := shell(t, tool.Spec{Effect: tool.ReadOnly}, speaks)
	if !l.Spec().MayPause {
		t.Error("it may not pause")
	}
	call := scripted(nil, `read -r start
		case $start in
		*'"answers":[]'*) echo '{"type":"needs_input","question":{"id":"q","text":"Which?"}}';;
		*'"answers":[{"id":"q","answer":"b"}]'*) echo '{"type":"success","content":"took b"}';;
		esac`)
	first := execute(t, t.Context(), l, call)()
	must(t, first.err)
	if first.execution.Await == nil {
		t.Fatalf("%+v", first)
	}
	call.Answer = first.execution.Await.Answered(raw(`"b"`))
	second := execute(t, t.Context(), l, call)()
	must(t, second.err)
	if string(second.execution.Output) != `"took b"` {
		t.Errorf("%s", second.execution.Output)
	}
}

// Without a word on its end it has the result of any program.
func TestACommandThatSaysNothing(t *testing.T) {
	e := execute(t, t.Context(), shell(t, tool.Spec{}, speaks), scripted(nil, `echo hello; exit 2`))()
	if got := exitOf(t, e); got != (Exit{ExitCode: 2, Output: "hello\n"}) {
		t.Errorf("%+v", got)
	}
}
