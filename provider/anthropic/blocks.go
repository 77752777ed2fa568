package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2/packages/respjson"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// content is a block of the message that is being written.
type content struct {
	index  int
	kind   string
	begun  wire.Object     // as it was when it began
	raw    json.RawMessage // likewise, byte for byte
	ended  bool
	held   bool // a call's input is, until the message's end
	passed bool // a delta was passed over that this version doesn't know

	text      strings.Builder // of text and thinking
	input     strings.Builder // JSON in pieces
	signature strings.Builder
	halves    wire.Halves // of text and thinking, or of input
	citations []json.RawMessage
	waiting   []llm.Event // until the blocks before it have ended
}

func newContent(index int, raw json.RawMessage) (*content, error) {
	begun, err := wire.ParseObject(raw)
	if err != nil {
		return nil, malformed("content block %d is no object: %.80q", index, raw)
	}
	kind := begun.Text("type")
	if kind == "" {
		return nil, malformed("content block %d has no type: %.80q", index, raw)
	}
	c := &content{index: index, kind: kind, begun: begun, raw: raw}
	c.citations = c.cited()
	return c, nil
}

// begin returns what a block says by being there.
func (c *content) begin() (llm.Event, error) {
	switch c.kind {
	case "text", "thinking":
		var begun struct{ Text, Thinking wire.Piece }
		_ = json.Unmarshal(c.raw, &begun) // what is no string is none
		if c.kind == "thinking" {
			return c.write(begun.Thinking), nil
		}
		return c.write(begun.Text), nil
	case "tool_use":
		id := c.begun.Text("id")
		name := c.begun.Text("name")
		if name == "" {
			return nil, malformed("content block %d is a tool's use without the tool's name",
				c.index)
		}
		return llm.ToolCallDelta{Index: c.index, ProviderID: id, Name: name}, nil
	}
	return nil, nil
}

// piece returns a string of a delta, whose ends may be halves of runes.
func piece(f respjson.Field) (p wire.Piece) {
	_ = json.Unmarshal([]byte(f.Raw()), &p) // what is no string is none
	return p
}

func (c *content) write(p wire.Piece) llm.Event { return c.wrote(c.halves.Join(p)) }

func (c *content) wrote(s string) llm.Event {
	c.text.WriteString(s)
	switch {
	case s == "":
		return nil
	case c.kind == "text":
		return llm.TextDelta{Text: s}
	}
	return llm.ReasoningDelta{Text: s}
}

// more adds a piece of JSON to the block's input.
func (c *content) more(p wire.Piece) llm.Event { return c.added(c.halves.Join(p)) }

func (c *content) added(s string) llm.Event {
	c.input.WriteString(s)
	if s == "" || c.kind != "tool_use" {
		return nil
	}
	return llm.ToolCallDelta{Index: c.index, Arguments: s}
}

// rest returns what is left of the block's text, or of its input, where half a
// rune has no other.
func (c *content) rest() llm.Event {
	s := c.halves.Rest()
	if c.kind == "text" || c.kind == "thinking" {
		return c.wrote(s)
	}
	return c.added(s)
}

// end returns what is to be said when the block has come to its end.
func (c *content) end() []llm.Event {
	switch c.kind {
	case "text":
		n := c.native("type", "text")
		if n == nil || isBlank(c.text.String()) { // blank text, the API doesn't take back
			return nil
		}
		return []llm.Event{llm.PartDone{Part: llm.Text{Text: c.text.String(), Native: n}}}
	case "thinking":
		r := llm.Reasoning{Text: c.text.String()}
		// Without a signature, the API doesn't take it back.
		if s := c.begun.Text("signature"); s+c.signature.String() != "" {
			r.Native = c.whole()
		}
		if r.Native == nil && isBlank(r.Text) {
			return nil
		}
		return []llm.Event{llm.PartDone{Part: r}}
	case "redacted_thinking":
		return []llm.Event{llm.PartDone{Part: llm.Reasoning{Native: c.whole()}}}
	case "tool_use":
		return c.endCall()
	}
	if c.passed { // the API can't be sent a part of what it said
		return nil
	}
	return []llm.Event{llm.PartDone{Part: llm.Opaque{Native: *c.whole()}}}
}

// endCall holds an input back that came whole, with the block's beginning. Only
// the message's end tells whether it is all of what the model was to say.
func (c *content) endCall() []llm.Event {
	if c.held = c.input.Len() == 0 && c.given() != ""; c.held {
		return nil
	}
	return c.called()
}

// given returns the input that came with the block's beginning. {} is also what
// stands there before any has come.
func (c *content) given() string {
	var begun struct{ Input json.RawMessage }
	_ = json.Unmarshal(c.raw, &begun) // it was read before
	if s := string(begun.Input); s != "{}" && s != "null" {
		return s
	}
	return ""
}

// release returns the input that was held back. cut reports whether it may be a
// part of what it was to be: it is never to be taken for what the model wanted
// then.
func (c *content) release(cut bool) []llm.Event {
	s := c.given()
	if cut {
		s = strings.TrimSuffix(s, "}")
	}
	c.input.WriteString(s)
	return append([]llm.Event{llm.ToolCallDelta{Index: c.index, Arguments: s}}, c.called()...)
}

// called returns the whole call, where there is more to it than the neutral
// form has.
func (c *content) called() []llm.Event {
	n := c.native("type", "id", "name", "input")
	if n == nil {
		return nil
	}
	id := c.begun.Text("id")
	name := c.begun.Text("name")
	return []llm.Event{llm.PartDone{Part: llm.ToolCall{
		Name: name, ProviderID: id, Arguments: json.RawMessage(c.input.String()), Native: n,
	}}}
}

// whole returns the block as the API would have sent it at once.
func (c *content) whole() *llm.Native {
	if c.untouched() {
		return &llm.Native{Provider: provider, Data: c.raw}
	}
	o := c.begun.Clone()
	if c.kind == "text" || c.kind == "thinking" {
		o.SetText(c.kind, c.text.String())
	}
	if c.signature.Len() > 0 {
		o.SetText("signature", c.begun.Text("signature")+c.signature.String())
	}
	if len(c.citations) > 0 {
		list, err := wire.Encode(c.citations)
		if err == nil { // each was read as JSON before
			o.Set("citations", list)
		}
	}
	if input := c.input.String(); json.Valid([]byte(input)) { // not if it was cut off
		o.Set("input", json.RawMessage(input))
	}
	return &llm.Native{Provider: provider, Data: o.JSON()}
}

// untouched reports whether nothing came after the block's beginning.
func (c *content) untouched() bool {
	return c.text.Len() == len(c.begun.Text(c.kind)) && c.input.Len()+c.signature.Len() == 0 &&
		len(c.citations) == len(c.cited())
}

// cited returns the citations that the block began with.
func (c *content) cited() (list []json.RawMessage) {
	_ = json.Unmarshal(c.begun.Get("citations"), &list) // what is no list has none
	return list
}

// native returns what the neutral form has no place for, nil if that is
// nothing: of text the whole block, of a call the rest of it.
func (c *content) native(known ...string) *llm.Native {
	rest := c.begun.Clone()
	for _, key := range known {
		rest.Delete(key)
	}
	for _, m := range c.begun.Members {
		switch s := string(m.Value); {
		case s == "null":
			rest.Delete(m.Name)
		case m.Name == "citations" && len(c.citations) == 0:
			rest.Delete(m.Name)
		case m.Name == "caller" && s == `{"type":"direct"}`: // as is every call that no code made
			rest.Delete(m.Name)
		}
	}
	switch {
	case len(rest.Members)+len(c.citations) == 0:
		return nil
	case c.kind == "text":
		return c.whole()
	}
	return &llm.Native{Provider: provider, Data: rest.JSON()}
}
