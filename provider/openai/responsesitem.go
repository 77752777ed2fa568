package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// paragraph stands between the parts of a model's reasoning.
const paragraph = "\n\n"

// item is one of a response's output.
type item struct {
	place    int64
	kind     string          // its type
	id, name string          // of a call
	text     strings.Builder // what has come of its text or arguments
	part     int64           // which part of the text that was
	held     []llm.Event     // not passed on yet
	done     bool
}

// done takes an item as it is in the end. Its bytes are what the next request says of it.
func (r *reply) done(it *item, raw responses.ResponseOutputItemUnion) error {
	var data bytes.Buffer // without white space, as in a request
	if err := json.Compact(&data, []byte(raw.RawJSON())); err != nil {
		return malformed("output[%d]: %w", it.place, err)
	}
	native := &llm.Native{Provider: responsesName, Data: data.Bytes()}
	switch it.kind {
	case "message":
		text := r.said(raw)
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

// rest passes on the end of a text that the deltas didn't bring. Text that differs from them takes their place anyway.
func (r *reply) rest(it *item, whole string) {
	if rest, ok := strings.CutPrefix(whole, it.text.String()); ok {
		r.more(it, rest)
	}
}

// said is the text of a message.
func (r *reply) said(raw responses.ResponseOutputItemUnion) string {
	var s strings.Builder
	for _, part := range raw.Content {
		switch part.Type {
		case "output_text":
			s.WriteString(part.Text)
		case "refusal":
			s.WriteString(part.Refusal)
			r.refusal = true
		}
	}
	return s.String()
}

// thought is what a reasoning item shows: its summary, and the reasoning itself where a server has it in the open.
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

// called takes the end of a call.
func (r *reply) called(it *item, raw responses.ResponseOutputItemUnion, native *llm.Native) error {
	whole := arguments(raw)
	rest, ok := strings.CutPrefix(whole, it.text.String())
	switch {
	case raw.CallID != it.id || raw.Name != it.name:
		return malformed("output[%d] begins as the call %q of %q and ends as %q of %q", it.place, it.id, it.name, raw.CallID, raw.Name)
	case raw.Status == "incomplete":
		if ok {
			r.more(it, rest)
		}
		r.cut(it)
		return nil
	case !ok:
		return malformed("call %q came with other arguments whole than in pieces: %.80q and %.80q", it.id, whole, it.text.String())
	}
	r.more(it, rest)
	args := it.text.String()
	if schema := r.schemas[it.name]; schema != nil {
		args = string(wire.DropNulls(json.RawMessage(args), schema))
		r.send(it, llm.ToolCallDelta{Index: int(it.place), Arguments: args})
	}
	if special(native.Data) {
		r.send(it, llm.PartDone{Part: llm.ToolCall{Name: it.name, ProviderID: it.id, Arguments: json.RawMessage(args), Native: native}})
	}
	return nil
}

// arguments are a call's, as text. Some servers send the object itself.
func arguments(raw responses.ResponseOutputItemUnion) string {
	if s := raw.JSON.Arguments.Raw(); s != "" && s[0] != '"' && s != "null" {
		return s
	}
	return raw.Arguments.OfString
}

// cut ends an item that the response broke off. A call whose arguments had not begun must not look like one without any.
func (r *reply) cut(it *item) {
	if it.kind != "function_call" {
		return
	}
	if args := it.text.String(); r.schemas[it.name] != nil && args != "" {
		r.send(it, llm.ToolCallDelta{Index: int(it.place), Arguments: args})
	} else if strings.TrimSpace(args) == "" {
		r.send(it, llm.ToolCallDelta{Index: int(it.place), Arguments: "(cut off)"})
	}
}

// special says that a call has members, such as a namespace, that the neutral form doesn't.
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
