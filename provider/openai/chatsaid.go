package openai

import (
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/llm/wire"
)

// chatSaid is the content of an assistant's message: its texts or, for the
// server whose model made parts that are no text, the list of all parts in
// their order.
type chatSaid struct {
	texts []string
	list  []json.RawMessage
	odd   bool // the list holds what is no text
	shown bool // it holds what is no thought
}

func (s *chatSaid) text(text string) error {
	if text == "" {
		return nil
	}
	part, err := wire.Encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text})
	s.texts, s.list, s.shown = append(s.texts, text), append(s.list, part), true
	return err
}

// native adds the native form of a part that is no thought: parts of the
// content, and other members of the message.
func (s *chatSaid) native(fields map[string]json.RawMessage, native json.RawMessage) error {
	before := len(s.list)
	err := s.thought(fields, native, false)
	s.shown = s.shown || len(s.list) > before
	return err
}

// thought adds the native form of reasoning. Where the server wants it in the
// content alone, it is left out in any other form, in which an earlier version
// of this package stored it.
func (s *chatSaid) thought(fields map[string]json.RawMessage, native json.RawMessage,
	contentAlone bool) error {
	if native == nil {
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(native, &members); err != nil {
		return fmt.Errorf("the native form of a part is no JSON object: %w", err)
	}
	if content, ok := members["content"]; ok {
		var list []json.RawMessage
		if err := json.Unmarshal(content, &list); err != nil {
			return fmt.Errorf("the native form of a part has a content that is no list: %w", err)
		}
		s.list, s.odd = append(s.list, list...), true
		delete(members, "content")
	}
	if contentAlone {
		return nil
	}
	return merge(fields, members)
}

// needsList reports whether the message has to have the list. A message of
// thoughts alone is none, unless it calls.
func (s *chatSaid) needsList(calls bool) bool { return s.odd && (s.shown || calls) }
