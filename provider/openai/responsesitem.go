package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// paragraph stands between the parts of a model's reasoning.
const paragraph = "\n\n"

// item is one of a response's output.
type item struct {
	place    int64           // in the output
	order    int             // among the items that came
	kind     string          // its type
	own      string          // its own id
	id, name string          // of a call
	text     strings.Builder // what has come of its text or arguments
	half     wire.Halves     // of the text
	part     int64           // which part of the text that was
	held     []llm.Event     // not passed on yet
	done     bool
}

// done takes an item as it is in the end. Its bytes are what the next request
// says of it.
func (r *reply) done(it *item, raw responses.ResponseOutputItemUnion) error {
	var data bytes.Buffer // without white space, as in a request
	if err := json.Compact(&data, []byte(raw.RawJSON())); err != nil {
		return r.malformed("output[%d]: %w", it.place, err)
	}
	native := &llm.Native{Provider: responsesName, Data: data.Bytes()}
	switch it.kind {
	case "message":
		text := said(raw)
		r.refusal = r.refusal || refuses(raw)
		r.rest(it, text)
		if strings.TrimSpace(text) != "" { // or else the model said nothing
			r.send(it, llm.PartDone{Part: llm.Text{Text: text, Native: native}})
		}
	case "reasoning":
		text := thought(raw.AsReasoning())
		r.rest(it, text)
		if text != "" || raw.EncryptedContent != "" {
			r.send(it, llm.PartDone{Part: llm.Reasoning{Text: text, Native: native}})
		}
	case "function_call":
		if err := r.called(it, raw, native); err != nil {
			return err
		}
	default:
		r.send(it, llm.PartDone{Part: llm.Opaque{Native: *native}})
	}
	it.done = true
	r.next()
	return nil
}

// rest passes on the end of a text that the deltas didn't bring. Text that
// differs from them takes their place anyway.
func (r *reply) rest(it *item, whole string) {
	if rest, ok := strings.CutPrefix(whole, it.text.String()); ok {
		r.more(it, rest)
	}
}

// said returns the text of a message.
func said(raw responses.ResponseOutputItemUnion) string {
	var s strings.Builder
	for _, part := range raw.Content {
		switch part.Type {
		case "output_text":
			s.WriteString(part.Text)
		case "refusal":
			s.WriteString(part.Refusal)
		}
	}
	return s.String()
}

// refuses reports whether a message has a refusal in it.
func refuses(raw responses.ResponseOutputItemUnion) bool {
	return slices.ContainsFunc(raw.Content, func(part responses.ResponseOutputMessageContentUnion) bool {
		return part.Type == "refusal"
	})
}

// thought returns what a reasoning item shows: its summary, and the reasoning
// itself where a server has it in the open.
func thought(raw responses.ResponseReasoningItem) string {
	var parts []string
	for _, s := range raw.Summary {
		parts = append(parts, s.Text)
	}
	for _, c := range raw.Content {
		parts = append(parts, c.Text)
	}
	return strings.Join(parts, paragraph)
}

// called takes the end of a call. What it says of the arguments counts,
// whatever came in pieces; if it says nothing, they do.
func (r *reply) called(it *item, raw responses.ResponseOutputItemUnion, native *llm.Native) error {
	whole, pieces := arguments(raw), it.text.String()
	if !raw.JSON.Arguments.Valid() {
		whole = pieces
	}
	switch {
	case raw.CallID != it.id || raw.Name != it.name:
		return r.malformed("output[%d] begins as the call %q of %q and ends as %q of %q", it.place,
			it.id, it.name, raw.CallID, raw.Name)
	case raw.Status == "incomplete":
		if strings.HasPrefix(whole, pieces) {
			it.text.Reset()
			it.text.WriteString(whole)
		}
		r.cut(it)
		return nil
	case whole == "" && strings.TrimSpace(pieces) != "":
		return r.malformed("call %q came with no arguments whole, and in pieces with %.80q", it.id,
			pieces)
	}
	if schema := r.schemas[it.name]; schema != nil {
		whole = string(wire.DropNulls(json.RawMessage(whole), schema))
	}
	if whole != "" {
		r.send(it, llm.ToolCallDelta{Index: it.order, Arguments: whole})
	}
	if special(native.Data) {
		r.send(it, llm.PartDone{Part: llm.ToolCall{Name: it.name, ProviderID: it.id,
			Arguments: json.RawMessage(whole), Native: native}})
	}
	return nil
}

// arguments returns a call's, as text. Some servers send the object itself.
func arguments(raw responses.ResponseOutputItemUnion) string {
	if s := raw.JSON.Arguments.Raw(); s != "" && s[0] != '"' && s != "null" {
		return s
	}
	return raw.Arguments.OfString
}

// cut ends an item that the response broke off. A call whose arguments had not
// begun must not look like one without any, and what may have stood for them
// doesn't count.
func (r *reply) cut(it *item) {
	if it.kind != "function_call" {
		return
	}
	args := it.text.String()
	if strings.TrimSpace(args) == "" || isPlaceholder(args) {
		args = cutOff
	}
	r.send(it, llm.ToolCallDelta{Index: it.order, Arguments: args})
}

// special reports whether a call has members, such as a namespace, that the
// neutral form doesn't.
func special(raw json.RawMessage) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return false
	}
	for name, value := range members {
		switch name {
		case "id", "type", "status", "call_id", "name", "arguments":
		default:
			if string(value) != "null" {
				return true
			}
		}
	}
	return false
}
