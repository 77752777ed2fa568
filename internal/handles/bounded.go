package handles

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool"
)

// What is kept of what a body has produced. All of it together is one record of
// the store, whose limit counts bytes as they are written: a line feed is two,
// and a control character six. So each bound counts bytes as JSON.
const (
	MaxHalf       = 24 << 10 // of the head, and of the tail
	MaxQuestionID = 256
	maxAsked      = 4 << 10 // of a question's text
	maxAskedForm  = 4 << 10 // of a question's schema; a larger one isn't told
)

// Appended returns a content with more behind it.
func Appended(c tool.Content, text string) tool.Content {
	first := ""
	if c.Total == len(c.Head) { // nothing is behind the head yet
		first = head(text, MaxHalf-width(c.Head))
	}
	c.Total += len(text)
	c.Head += first
	c.Tail = Tail(c.Tail+text[len(first):], MaxHalf)
	return c
}

// Continued returns what an earlier body has produced, with what the next one
// has produced so far behind it.
func Continued(before, c tool.Content) tool.Content {
	if before.Total == 0 {
		return c
	}
	joined := before
	switch gap := c.Total - len(c.Head) - len(c.Tail); {
	case c.Screen:
		joined.Head, joined.Tail = "", c.Tail
	case gap > 0:
		joined = Appended(before, c.Head)
		joined.Tail = c.Tail
	default: // the tail may have what the head has, too
		joined = Appended(before, c.Head+c.Tail[-gap:])
	}
	c.Total, c.Head, c.Tail = before.Total+c.Total, joined.Head, joined.Tail
	return c
}

// Bounded returns as much of a content as is kept. Its texts are valid UTF-8.
func Bounded(c tool.Content) tool.Content {
	c.Total = max(c.Total, len(c.Head), len(c.Tail)) // replaced bytes are longer
	c.Head, c.Tail = head(c.Head, MaxHalf), Tail(c.Tail, MaxHalf)
	if c.Question != nil {
		q := *c.Question
		if q.ID = head(valid(q.ID), MaxQuestionID); q.ID == "" {
			q.ID = "question" // a reply has an id
		}
		q.Text = Cut(q.Text, maxAsked, LeftOut)
		if !tellable(q.Schema) {
			q.Schema = nil
		}
		c.Question = &q
	}
	return c
}

// tellable reports whether a schema that a body wrote can be kept and told.
func tellable(schema json.RawMessage) bool {
	const depth = 10 // of the record around it
	return len(schema) > 0 && len(schema) <= maxAskedForm && utf8.Valid(schema) &&
		strictjson.CheckWithin(schema, depth) == nil
}
