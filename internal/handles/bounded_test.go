package handles

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// What is kept of a content fits a record, whatever the body wrote, and its
// ends are those of what was produced.
func TestWhatIsKeptIsBounded(t *testing.T) {
	for _, unit := range []string{"x", "\n", "\x01", "\x7f", "<", "\"", "\\", "é", "\u2028", "😀", "\xff"} {
		text := "begin" + strings.Repeat(unit, 100<<10) + "end"
		c := Bounded(tool.Content{Total: len(text), Head: text, Tail: text, Question: &tool.LiveQuestion{
			ID: text, Text: text, Schema: json.RawMessage(`"` + strings.Repeat("x", maxAskedForm) + `"`),
		}})
		record, err := strictjson.Append(nil, &c)
		if err != nil || len(record) > 60<<10 {
			t.Errorf("%q: %d bytes, %v", unit, len(record), err)
		}
		if !strings.HasPrefix(c.Head, "begin") || !strings.HasSuffix(c.Tail, "end") ||
			width(c.Head) > MaxHalf || width(c.Tail) > MaxHalf || width(c.Head) < MaxHalf-6 {
			t.Errorf("%q: %d and %d bytes are kept", unit, len(c.Head), len(c.Tail))
		}
		if q := c.Question; len(q.ID) > MaxQuestionID || !strings.HasPrefix(q.Text, "begin") || q.Schema != nil {
			t.Errorf("%q: %d bytes of id, %d of schema, text %.20q", unit, len(q.ID), len(q.Schema), q.Text)
		}
	}
}

// What can be kept is kept as it is.
func TestWhatFitsIsKept(t *testing.T) {
	is := tool.Content{Total: 3, Head: "a\n", Tail: "b", Question: &tool.LiveQuestion{
		ID: "q", Text: "Well?", Schema: json.RawMessage(`{"type":"string"}`), Assistant: true}}
	c := Bounded(is)
	want, err := json.Marshal(is)
	got, err2 := json.Marshal(c)
	if err != nil || err2 != nil || string(got) != string(want) {
		t.Errorf("%s, %v, %v", got, err, err2)
	}
	for _, schema := range []string{"{", `"` + "\xff" + `"`} {
		is.Question.Schema = json.RawMessage(schema)
		if c := Bounded(is); c.Question.Schema != nil || c.Question == is.Question {
			t.Errorf("%s is kept", schema)
		}
	}
	if c := Bounded(tool.Content{Total: 1, Head: "��"}); c.Total != len(c.Head) {
		t.Errorf("%d bytes of %d", len(c.Head), c.Total)
	}
}
