package openai

import (
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// chatThinking is what a model thinks as a part of the list content, which is
// how Mistral has it. In a stream, the part comes again and again with more of
// its own list, which is of texts and what they refer to:
//
//	{"type": "thinking", "thinking": [{"type": "text", "text": "..."}]}
type chatThinking struct {
	members map[string]json.RawMessage // those beside the list, as they came last
	list    []json.RawMessage          // its entries so far, but for text
	text    chatText                   // the entry that is being read
	bare    bool                       // a string stands in place of the list
}

// thinks takes such a part, or a piece of one.
func (r *chatReply) thinks(raw json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return r.malformed("content: %w", err)
	}
	now := &r.reasoning
	if now.thinking == nil {
		now.thinking = &chatThinking{members: map[string]json.RawMessage{}}
	}
	text, err := now.thinking.add(members)
	if err != nil {
		return r.malformed("thinking: %w", err)
	}
	return r.show(text)
}

// add takes the members of a piece, and returns the text in it.
func (t *chatThinking) add(members map[string]json.RawMessage) (text string, err error) {
	thinking := members["thinking"]
	for name, value := range members {
		if name != "thinking" {
			t.members[name] = value
		}
	}
	var p wire.Piece
	if isNull(thinking) || json.Unmarshal(thinking, &p) == nil {
		t.bare = t.bare || p != ""
		return t.text.add(p), nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(thinking, &list); err != nil {
		return "", err
	}
	for _, entry := range list {
		var e struct {
			Type string     `json:"type"`
			Text wire.Piece `json:"text"`
		}
		switch err := json.Unmarshal(entry, &e); {
		case err != nil:
			return "", err
		case e.Type == "text":
			text += t.text.add(e.Text)
		default:
			text += t.text.end()
			if err := t.endText(); err != nil {
				return "", err
			}
			t.list = append(t.list, entry)
		}
	}
	return text, nil
}

// endText puts the text that was being read into the list.
func (t *chatThinking) endText() error {
	if t.text.Len() == 0 {
		return nil
	}
	entry, err := wire.Encode(map[string]string{"type": "text", "text": t.text.String()})
	t.list, t.text = append(t.list, entry), chatText{}
	return err
}

func (t *chatThinking) json() (json.RawMessage, error) {
	var thinking any = t.text.String()
	if !t.bare {
		if err := t.endText(); err != nil {
			return nil, err
		}
		if thinking = t.list; t.list == nil {
			thinking = []json.RawMessage{}
		}
	}
	raw, err := wire.Encode(thinking)
	if err != nil {
		return nil, fmt.Errorf("thinking: %w", err)
	}
	t.members["thinking"] = raw
	return wire.Encode(t.members)
}

// part takes a part of the list content that is no text. One of a kind that
// isn't known is kept as it is: it goes back to the server that made it.
func (r *chatReply) part(p chatContentPart) error {
	if p.kind == "thinking" {
		return r.thinks(p.raw)
	}
	if err := r.thought(); err != nil {
		return err
	}
	native, err := wire.Encode(map[string][]json.RawMessage{"content": {p.raw}})
	if err != nil {
		return r.malformed("content: %w", err)
	}
	return r.send(llm.PartDone{Part: llm.Opaque{Native: llm.Native{Provider: r.model.name,
		Data: native}}})
}
