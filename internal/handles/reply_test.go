package handles

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/tool"
)

func TestReply(t *testing.T) {
	for want, r := range map[string]Reply{
		`{"id":"a","state":"running","content":""}`: {ID: "a", State: tool.HandleRunning},
		`{"id":"a","state":"running","content":"<x>\n"}`: {
			ID: "a", State: tool.HandleRunning, Content: "<x>\n"},
		`{"id":"a","state":"waiting","question":{"id":"q","text":"Sure?","for":"user"}}`: {
			ID: "a", State: tool.HandleWaiting, Question: &Question{ID: "q", Text: "Sure?", For: User}},
		`{"id":"a","state":"waiting","content":"x","question":{"id":"q","text":"",` +
			`"schema":{"type": "string"},"for":"assistant"}}`: {
			ID: "a", State: tool.HandleWaiting, Content: "x",
			Question: &Question{ID: "q", Schema: raw(`{"type": "string"}`), For: Assistant}},
		`{"id":"a","state":"stopped","result":"text"}`: {
			ID: "a", State: tool.HandleStopped, Result: raw(`"text"`)},
		`{"id":"a","state":"stopped","content":"x","result":{"a":1.0}}`: {
			ID: "a", State: tool.HandleStopped, Content: "x", Result: raw(`{"a":1.0}`)},
		`{"id":"a","state":"stopped","result":null}`: {
			ID: "a", State: tool.HandleStopped, Result: raw(`null`)},
		`{"id":"a","state":"stopped","error":{"message":"no","trace":["b"],"transient":true}}`: {
			ID: "a", State: tool.HandleStopped,
			Error: &Failure{Message: "no", Trace: []string{"b"}, Transient: true}},
	} {
		got, err := r.MarshalJSON()
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
		var back Reply
		if err := json.Unmarshal([]byte(want), &back); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if diff := cmp.Diff(r, back); diff != "" {
			t.Errorf("%s: %s", want, diff)
		}
	}
	got, err := Reply{ID: "a", State: tool.HandleStopped, Error: &Failure{Message: "no"}}.MarshalJSON()
	if string(got) != `{"id":"a","state":"stopped","error":{"message":"no","trace":[],`+
		`"transient":false}}` {
		t.Errorf("%s, %v", got, err)
	}
}

// A reply that doesn't go with its state is neither written nor read.
func TestRepliesThatDontGoWithTheirState(t *testing.T) {
	q := &Question{ID: "q", For: User}
	for want, all := range map[string][]Reply{
		"it is running: it has content, and nothing else": {
			{ID: "a", State: tool.HandleRunning, Question: q},
			{ID: "a", State: tool.HandleRunning, Result: raw(`1`)},
			{ID: "a", State: tool.HandleRunning, Error: &Failure{}}},
		"it is waiting: it has a question": {
			{ID: "a", State: tool.HandleWaiting},
			{ID: "a", State: tool.HandleWaiting, Question: q, Result: raw(`1`)},
			{ID: "a", State: tool.HandleWaiting, Question: q, Error: &Failure{}}},
		"it has stopped: it has a result or an error": {
			{ID: "a", State: tool.HandleStopped},
			{ID: "a", State: tool.HandleStopped, Question: q, Result: raw(`1`)},
			{ID: "a", State: tool.HandleStopped, Error: &Failure{}, Result: raw(`1`)}},
		"its state is": {{ID: "a"}, {ID: "a", State: "done"}},
		"an id has":    {{State: tool.HandleRunning}, {ID: "a b", State: tool.HandleRunning}},
		"its question has the id": {
			{ID: "a", State: tool.HandleWaiting, Question: &Question{For: User}},
			{ID: "a", State: tool.HandleWaiting, Question: &Question{ID: "q", For: "operator"}}},
	} {
		for _, r := range all {
			_, err := r.MarshalJSON()
			told(t, err, want)
			b, err := json.Marshal(reply{r.ID, r.State, &r.Content, r.Question, r.Result, r.Error})
			must(t, err)
			var back Reply
			if err := back.UnmarshalJSON(b); err == nil || back.ID != "" {
				t.Errorf("%s is read as %+v, %v", b, back, err)
			}
		}
	}
	for _, s := range []string{
		`{"id":"a","state":"running"}`, `{"id":"a","state":"running","content":null}`,
		`{"id":"a","state":"running","content":"","content":""}`,
		`{"id":"a","state":"stopped","error":{"message":"no","transient":false}}`, `[]`, ``,
	} {
		if err := new(Reply).UnmarshalJSON([]byte(s)); err == nil {
			t.Errorf("%s is read", s)
		}
	}
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct{ schema, input, want string }{
		{``, `"y"`, `"y"`},
		{`{"type":"string"}`, `"7"`, `"7"`},
		{`{"type":"integer"}`, `7`, `7`},
		{`{"type":"integer"}`, `" 7"`, ` 7`},
		{`{"type":"object","required":["a"]}`, `"{\"a\":\"b\"}"`, `{"a":"b"}`},
		{`{"type":"null"}`, `"null"`, `null`},
		{`{"enum":["yes","no"]}`, `"yes"`, `"yes"`},
	} {
		if got, err := Answer(raw(c.input), raw(c.schema)); err != nil || string(got) != c.want {
			t.Errorf("%s for %s: got %s, %v", c.input, c.schema, got, err)
		}
	}
	_, err := Answer(raw(`"maybe"`), raw(`{"enum":["yes","no"]}`))
	told(t, err, "must be one of", `"yes"`, `"maybe"`)
	_, err = Answer(raw(`"7x"`), raw(`{"type":"integer"}`))
	told(t, err, "must be an integer")
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{NotFound("tets", []string{"build", "tests"}),
			"Handle `tets` not found. Did you mean `tests`? The handles are: build, tests."},
		{NotFound("x", nil),
			"Handle `x` not found. There are no handles: begin one by the action spawn of a tool."},
		{Taken("a", true), "Handle `a` was not begun, and no call of this turn that names it was " +
			"run: a handle of that id is open. Choose another id, and call again."},
		{Taken("a", false), "Handle `a` was not begun, and no call of this turn that names it " +
			"was run: more than one call of this turn would give that id. Choose another id, and " +
			"call again."},
		{NotYours("a"), "Handle `a` waits for the user, and its question is not yours to answer. " +
			"Nothing was given to it. Go on with something else, or await it."},
		{NothingToApply("a"), "Handle `a` has stopped, and takes no input any more. Nothing was " +
			"given to it. Its id may be used again: spawn another one."},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
	many := make([]string, 21)
	for i := range many {
		many[i] = "h"
	}
	if got := NotFound("xyz", many); len(got) > 200 {
		t.Errorf("%s", got)
	}
}

// A reply that is too long loses content first, then what else is long, and no
// result that has room.
func TestAReplyWithin(t *testing.T) {
	long := Reply{ID: "a", State: tool.HandleStopped, Content: strings.Repeat("\n", 500),
		Result: json.RawMessage(`"` + strings.Repeat("r", 400) + `"`)}
	for _, most := range []int{600, 500, 300, 150} {
		cut, err := long.Within(most)
		if err != nil {
			t.Fatal(err)
		}
		out, err := cut.MarshalJSON()
		if err != nil || len(out) > most {
			t.Errorf("within %d it has %d bytes, %v", most, len(out), err)
		}
		if whole := string(cut.Result) == string(long.Result); whole != (most >= 500) ||
			most == 600 && cut.Content == "" {
			t.Errorf("within %d it is %s", most, out)
		}
	}
	if same, _ := long.Within(2000); same.Content != long.Content {
		t.Errorf("it is cut where it has room: %q", same.Content)
	}
}
