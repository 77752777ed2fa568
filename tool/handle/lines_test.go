package handle

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// text is a writer of content.
type text struct{ strings.Builder }

// spoken reads output in pieces of a length, and returns what was said in it.
func spoken(output string, piece int) (all []message, other string) {
	var content text
	l := &lines{said: func(m message) { all = append(all, m) }, other: &content}
	for rest := output; rest != ""; rest = rest[min(piece, len(rest)):] {
		_, _ = l.Write([]byte(rest[:min(piece, len(rest))]))
	}
	_ = l.Close()
	return all, content.String()
}

func asked(q Question) message { return message{question: &q} }

func ends1(e Ended) message { return message{outcome: &outcome{ended: e}} }

func fails(f Failure) message { return message{outcome: &outcome{failure: &f}} }

var messages = []struct {
	line string
	want message
}{
	{`{"type":"running"}`, message{}},
	{`{"type":"spawned","content":"a\nb"}`, message{content: "a\nb"}},
	{`{"type":"waiting","question":{"id":"q","text":"Which?","for":"assistant",` +
		`"schema":{"type":"string"}}}`, asked(Question{ID: "q", Text: "Which?",
		For: Assistant, Schema: raw(`{"type":"string"}`)})},
	{`{"type":"waiting","question":{"text":"Which?"}}`, asked(Question{Text: "Which?", For: User})},
	{`{"type":"stopped","result":{"n":1}}`, ends1(Ended{Output: raw(`{"n":1}`)})},
	{`{"type":"stopped"}`, ends1(Ended{Output: raw(`null`)})},
	{`{"type":"stopped","error":"no"}`, fails(Failure{Message: "no"})},
	{`{"type":"stopped","error":{"message":"no","trace":["a","b"],"transient":true}}`,
		fails(Failure{Message: "no", Trace: []string{"a", "b"}, Transient: true})},
	{`{"type":"success","content":"done"}`, ends1(Ended{Output: raw(`"done"`)})},
	{`{"type":"error","message":"no","trace":["a"],"transient":false}`,
		fails(Failure{Message: "no", Trace: []string{"a"}})},
	{`{"type":"needs_input","question":{"id":"q","text":"Sure?","answer_type":"Boolean",` +
		`"default":true}}`, ends1(Ended{Question: &Question{ID: "q", Text: "Sure?", For: User,
		Schema: raw(`{"type":"boolean","default":true}`)}})},
	{`{"type":"needs_input","question":{"id":"q","text":"Which?",` +
		`"answer_type":{"Select":{"options":["a","b"]}},"default":null}}`,
		ends1(Ended{Question: &Question{ID: "q", Text: "Which?", For: User,
			Schema: raw(`{"type":"string","enum":["a","b"]}`)}})},
	{`{"type":"needs_input","question":{"id":"q","text":"Name?","answer_type":"text"}}`,
		ends1(Ended{Question: &Question{ID: "q", Text: "Name?", For: User,
			Schema: raw(`{"type":"string"}`)}})},
}

// Each type of message is told from the output around it, however it comes.
func TestMessagesAreToldFromOutput(t *testing.T) {
	for _, m := range messages {
		for _, piece := range []int{1, 7, 1000} {
			got, other := spoken("before\n  "+m.line+"\r\nafter {\n"+m.line, piece)
			want := []message{m.want, m.want}
			if !reflect.DeepEqual(got, want) || other != "before\nafter {\n" {
				t.Errorf("%s\nin pieces of %d: %+v, and %q", m.line, piece, got, other)
			}
		}
	}
}

// What isn't of the protocol is output, as it came.
func TestOtherLinesAreOutput(t *testing.T) {
	for _, line := range []string{
		`{"type":"log","content":"x"}`, `{"level":"info"}`, `{`, `{}`, `null`, `[1]`, ``, `   `,
		`{"type":1}`, `{"type":"running","content":1}`, `{"type":"running"} x`,
		`{"type":"waiting"}`, `{"type":"waiting","question":"Which?"}`,
		`{"type":"waiting","question":{"id":"q"}}`,
		`{"type":"waiting","question":{"text":"Which?","for":"me"}}`,
		`{"type":"waiting","question":{"text":"Which?","schema":7}}`,
		`{"type":"stopped","error":7}`, `{"type":"stopped","error":{}}`,
		`{"type":"stopped","result":1,"error":"no"}`,
		`{"type":"success"}`, `{"type":"error"}`, `{"type":"needs_input"}`,
		`{"type":"needs_input","question":{"text":"Which?","answer_type":"number"}}`,
		`{"type":"needs_input","question":{"text":"Which?","answer_type":{"select":{}}}}`,
		`{"type":"running","content":"` + strings.Repeat("x", maxLine) + `"}`,
	} {
		for _, end := range []string{"", "\n"} {
			if got, other := spoken(line+end, 1000); len(got) != 0 || other != line+end {
				t.Errorf("%.80s: %+v, and %.80q", line, got, other)
			}
		}
	}
}

// A line that can't be a message is shown before its end comes.
func TestOutputIsNotHeldBack(t *testing.T) {
	var content text
	l := &lines{said: func(message) { t.Error("it was taken for a message") }, other: &content}
	_, _ = l.Write([]byte("Sure? [y/n] "))
	if content.String() != "Sure? [y/n] " {
		t.Errorf("%q", content.String())
	}
}

// Nothing is lost or made up, whatever comes in whatever pieces; what is said
// is JSON.
func FuzzLines(f *testing.F) {
	for _, m := range messages {
		f.Add("before\n"+m.line+"\nafter", 3)
	}
	f.Add("{\"type\":\n\"running\"}\n", 1)
	f.Add("\t {\"type\":\"running\"}\t\r\n{", 100)
	f.Fuzz(func(t *testing.T, output string, piece int) {
		if piece < 1 || len(output) > 1<<14 {
			return
		}
		said, other := spoken(output, piece)
		whole, same := spoken(output, len(output)+1)
		if !reflect.DeepEqual(said, whole) || other != same {
			t.Errorf("pieces of %d: %+v and %q; as a whole: %+v and %q", piece, said, other, whole, same)
		}
		if len(said) == 0 && other != output {
			t.Errorf("nothing is said, and the output %q is not as it came: %q", output, other)
		}
		for _, m := range said {
			if o := m.outcome; o != nil && o.failure == nil && o.ended.Question == nil &&
				!json.Valid(o.ended.Output) {
				t.Errorf("the result %q is not JSON", o.ended.Output)
			}
		}
	})
}
