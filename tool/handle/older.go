package handle

import (
	"encoding/json"
	"strings"

	"github.com/fermata-ai/fermata/internal/handles"
)

// older reads the types of an earlier protocol.
func (s *said) older() (*outcome, bool) {
	switch s.Type {
	case "success":
		if absent(s.Content) {
			return nil, false
		}
		return &outcome{ended: Ended{Output: s.Content}}, true
	case "error":
		f := &Failure{Message: s.Message, Trace: s.Trace, Transient: s.Transient}
		return &outcome{failure: f}, f.Message != ""
	}
	q, ok := s.Question.read()
	return &outcome{ended: Ended{Question: q}}, ok
}

// asks is a question as a program writes it.
type asks struct {
	Question
	AnswerType json.RawMessage `json:"answer_type"` // of the earlier protocol
	Default    json.RawMessage `json:"default"`     // the same
}

// read returns the question, if it is one.
func (a *asks) read() (*Question, bool) {
	if a == nil || a.Text == "" || len(a.ID) > handles.MaxQuestionID {
		return nil, false
	}
	q := a.Question
	if q.For == "" {
		q.For = User
	}
	if q.For != User && q.For != Assistant {
		return nil, false
	}
	if absent(q.Schema) {
		q.Schema = nil
		if absent(a.AnswerType) {
			return &q, true
		}
		var ok bool
		q.Schema, ok = a.schema()
		return &q, ok
	}
	var object map[string]json.RawMessage
	return &q, json.Unmarshal(q.Schema, &object) == nil
}

// schema returns the JSON Schema of an answer's type: "boolean", "text", or
// {"select": {"options": [...]}}, in any case of letters.
func (a *asks) schema() (json.RawMessage, bool) {
	out := struct {
		Type    string          `json:"type"`
		Enum    []string        `json:"enum,omitempty"`
		Default json.RawMessage `json:"default,omitempty"`
	}{Type: "string"}
	if !absent(a.Default) {
		out.Default = a.Default
	}
	var name string
	var choice map[string]struct {
		Options []string `json:"options"`
	}
	switch {
	case json.Unmarshal(a.AnswerType, &name) == nil:
		switch strings.ToLower(name) {
		case "boolean":
			out.Type = "boolean"
		case "text":
		default:
			return nil, false
		}
	case json.Unmarshal(a.AnswerType, &choice) == nil && len(choice) == 1:
		for name, c := range choice {
			if !strings.EqualFold(name, "select") || len(c.Options) == 0 {
				return nil, false
			}
			out.Enum = c.Options
		}
	default:
		return nil, false
	}
	schema, err := json.Marshal(out)
	return schema, err == nil
}
