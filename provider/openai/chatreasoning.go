package openai

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// chatReasoning is the reasoning that is being read. Servers have four places
// for it, some of them use more than one at a time. What came is kept as the
// part's native form, which is members of an assistant's message:
//
//	{"reasoning": "...", "reasoning_details": [...]}
//	{"content": [{"type": "thinking", "thinking": [...]}]}
type chatReasoning struct {
	content  chatText        // reasoning_content
	plain    chatText        // reasoning
	details  []*chatDetail   // reasoning_details
	thinking *chatThinking   // of the list content
	shown    strings.Builder // what was sent as the part's text
}

// chatText is a text that comes in pieces.
type chatText struct {
	strings.Builder
	half wire.Halves
}

// add returns the text that a piece adds.
func (t *chatText) add(p wire.Piece) string {
	s := t.half.Join(p)
	t.WriteString(s)
	return s
}

// end returns what is left of the text when no more pieces come.
func (t *chatText) end() string {
	s := t.half.Rest()
	t.WriteString(s)
	return s
}

// think takes the reasoning of a piece.
func (r *chatReply) think(d chatDelta) error {
	now := &r.reasoning
	content, plain, details := now.content.add(d.ReasoningContent), now.plain.add(d.Reasoning), ""
	for _, raw := range d.ReasoningDetails {
		s, err := now.detail(raw)
		if err != nil {
			return r.malformed("reasoning_details: %w", err)
		}
		details += s
	}
	switch {
	case d.ReasoningContent != "":
		return r.show(content)
	case d.Reasoning != "":
		return r.show(plain)
	}
	return r.show(details)
}

// show passes on what the model thinks.
func (r *chatReply) show(text string) error {
	if text == "" {
		return nil
	}
	r.reasoning.shown.WriteString(text)
	return r.send(llm.ReasoningDelta{Text: text})
}

// thought ends the reasoning that was being read, if there was some.
func (r *chatReply) thought() error {
	now := &r.reasoning
	if err := r.show(now.end()); err != nil {
		return err
	}
	fields, err := now.fields()
	if err != nil {
		return r.malformed("reasoning: %w", err)
	}
	part := llm.Reasoning{Text: now.shown.String()}
	*now = chatReasoning{}
	if len(fields) == 0 {
		return nil
	}
	native, err := wire.Encode(fields)
	if err != nil {
		return r.malformed("reasoning: %w", err)
	}
	part.Native = &llm.Native{Provider: r.model.name, Data: native}
	return r.send(llm.PartDone{Part: part})
}

// end returns what is left to be shown: one place alone is.
func (c *chatReasoning) end() string {
	details := ""
	for _, d := range c.details {
		for _, name := range pieced {
			if t := d.texts[name]; t != nil {
				details += t.end()
			}
		}
	}
	thinking := ""
	if c.thinking != nil {
		thinking = c.thinking.text.end()
	}
	return cmp.Or(c.content.end(), c.plain.end(), details, thinking)
}

// fields returns the members of a message that the reasoning came in.
func (c *chatReasoning) fields() (map[string]any, error) {
	fields := map[string]any{}
	if s := c.content.String(); strings.TrimSpace(s) != "" {
		fields["reasoning_content"] = s
	}
	if s := c.plain.String(); strings.TrimSpace(s) != "" {
		fields["reasoning"] = s
	}
	if len(c.details) > 0 {
		var list []json.RawMessage
		for _, d := range c.details {
			raw, err := d.json()
			if err != nil {
				return nil, err
			}
			list = append(list, raw)
		}
		fields["reasoning_details"] = list
	}
	if c.thinking != nil {
		raw, err := c.thinking.json()
		if err != nil {
			return nil, err
		}
		fields["content"] = []json.RawMessage{raw}
	}
	return fields, nil
}

// chatDetail is an entry of reasoning_details: the JSON that came or, where it
// came in pieces, what they make together.
type chatDetail struct {
	raw     json.RawMessage
	members map[string]json.RawMessage
	texts   map[string]*chatText // those members that come in pieces
	pieces  int
}

// pieced are the members of which a stream sends more and more.
var pieced = []string{"text", "summary"}

// detail adds an entry, and returns the text in it. In a stream, a text comes
// in pieces of one index.
func (c *chatReasoning) detail(raw json.RawMessage) (string, error) {
	next := &chatDetail{raw: raw, texts: map[string]*chatText{}}
	if err := json.Unmarshal(raw, &next.members); err != nil || next.members == nil {
		return "", err
	}
	d := next
	if n := len(c.details); n > 0 && c.details[n-1].goesOn(next) {
		d = c.details[n-1]
	} else {
		c.details = append(c.details, next)
	}
	return d.add(next.members), nil
}

func (d *chatDetail) goesOn(next *chatDetail) bool {
	// Null is none.
	same := func(member string) bool { return word(d.members[member]) == word(next.members[member]) }
	kind := word(d.members["type"])
	return (kind == "reasoning.text" || kind == "reasoning.summary") &&
		len(d.members["index"]) > 0 &&
		same("type") && same("index") && same("id")
}

// add takes the members of a piece, and returns the text in it.
func (d *chatDetail) add(members map[string]json.RawMessage) (text string) {
	d.pieces++
	for _, name := range pieced {
		var p wire.Piece
		if json.Unmarshal(members[name], &p) != nil || p == "" {
			continue
		}
		if d.texts[name] == nil {
			d.texts[name] = &chatText{}
		}
		text += d.texts[name].add(p)
	}
	for name, value := range members {
		if d.texts[name] == nil && !isNull(value) {
			d.members[name] = value
		}
	}
	return text
}

func (d *chatDetail) json() (json.RawMessage, error) {
	if d.pieces == 1 {
		return d.raw, nil
	}
	for name, t := range d.texts {
		text, err := wire.Encode(t.String())
		if err != nil {
			return nil, err
		}
		d.members[name] = text
	}
	return wire.Encode(d.members)
}
