package openai

import (
	"encoding/json"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/llm"
)

// chatReasoning is the reasoning that is being read. Servers have three fields for it, some of them more than one at a time. The
// fields that came are kept as the part's native form, which is members of an assistant's message:
//
//	{"reasoning": "...", "reasoning_details": [...]}
type chatReasoning struct {
	content strings.Builder // reasoning_content
	plain   strings.Builder // reasoning
	shown   strings.Builder // what was sent as the part's text
	details []chatDetail    // reasoning_details
}

// think takes the reasoning of a piece.
func (r *chatReply) think(d chatDelta) error {
	now := &r.reasoning
	now.content.WriteString(d.ReasoningContent)
	now.plain.WriteString(d.Reasoning)
	text := d.ReasoningContent
	if text == "" {
		text = d.Reasoning
	}
	for _, raw := range d.ReasoningDetails {
		s, err := now.detail(raw)
		if err != nil {
			return r.malformed("reasoning_details: %w", err)
		}
		if d.ReasoningContent == "" && d.Reasoning == "" {
			text += s
		}
	}
	if text == "" {
		return nil
	}
	now.shown.WriteString(text)
	return r.send(llm.ReasoningDelta{Text: text})
}

// thought ends the reasoning that was being read, if there was some.
func (r *chatReply) thought() error {
	now := &r.reasoning
	fields := map[string]any{}
	if s := now.content.String(); strings.TrimSpace(s) != "" {
		fields["reasoning_content"] = s
	}
	if s := now.plain.String(); strings.TrimSpace(s) != "" {
		fields["reasoning"] = s
	}
	if len(now.details) > 0 {
		var list []json.RawMessage
		for _, d := range now.details {
			raw, err := d.json()
			if err != nil {
				return r.malformed("reasoning_details: %w", err)
			}
			list = append(list, raw)
		}
		fields["reasoning_details"] = list
	}
	part := llm.Reasoning{Text: now.shown.String()}
	*now = chatReasoning{}
	if len(fields) == 0 {
		return nil
	}
	native, err := jsontree.Encode(fields)
	if err != nil {
		return r.malformed("reasoning: %w", err)
	}
	part.Native = &llm.Native{Provider: r.model.name, Data: native}
	return r.send(llm.PartDone{Part: part})
}

// chatDetail is an entry of reasoning_details: the JSON that came or, where it came in pieces, what they make together.
type chatDetail struct {
	raw     json.RawMessage
	members map[string]json.RawMessage
	texts   map[string]*strings.Builder // those members that come in pieces, nil while there is one piece
}

// pieced are the members of which a stream sends more and more.
var pieced = []string{"text", "summary"}

// detail adds an entry, and returns the text in it. In a stream, a text comes in pieces of one index.
func (c *chatReasoning) detail(raw json.RawMessage) (string, error) {
	next := chatDetail{raw: raw}
	if err := json.Unmarshal(raw, &next.members); err != nil {
		return "", err
	}
	if n := len(c.details); n > 0 && c.details[n-1].goesOn(next) {
		c.details[n-1].add(next)
	} else if next.members != nil {
		c.details = append(c.details, next)
	}
	return word(next.members["text"]) + word(next.members["summary"]), nil
}

func (d *chatDetail) goesOn(next chatDetail) bool {
	same := func(member string) bool { return word(d.members[member]) == word(next.members[member]) } // null is none
	kind := word(d.members["type"])
	return (kind == "reasoning.text" || kind == "reasoning.summary") && len(d.members["index"]) > 0 &&
		same("type") && same("index") && same("id")
}

func (d *chatDetail) add(next chatDetail) {
	if d.texts == nil {
		d.texts = map[string]*strings.Builder{}
		for _, name := range pieced {
			d.texts[name] = &strings.Builder{}
			d.texts[name].WriteString(word(d.members[name]))
		}
	}
	for name, value := range next.members {
		if b := d.texts[name]; b != nil {
			b.WriteString(word(value))
		} else if string(value) != "null" {
			d.members[name] = value
		}
	}
}

func (d *chatDetail) json() (json.RawMessage, error) {
	if d.texts == nil {
		return d.raw, nil
	}
	for name, b := range d.texts {
		if b.Len() == 0 {
			continue
		}
		text, err := jsontree.Encode(b.String())
		if err != nil {
			return nil, err
		}
		d.members[name] = text
	}
	return jsontree.Encode(d.members)
}
