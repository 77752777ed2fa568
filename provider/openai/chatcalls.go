package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// chatCalls finds out which call a piece belongs to. OpenAI says it by index; compatible servers leave the index out, or send
// the same one for all calls. A piece that can't be told is an error: glued to the wrong call, it would do harm.
//
// It doesn't check the rest. Each call gets an Index of its own, by order of appearance, and [llm.Collector] is strict about
// names and ids.
type chatCalls struct {
	all []*chatCall
	// strict are the schemas of the tools in strict mode, where arguments are held back until the end.
	strict map[string]json.RawMessage
}

type chatCall struct {
	place    int  // in all
	index    *int // as sent; nil: it came without
	id, name string
	args     strings.Builder
	half     chatHalf // of the arguments
	extra    json.RawMessage
}

// add takes an entry of tool_calls, in a message or in a piece of one.
func (c *chatCalls) add(e chatToolCall) (llm.Event, error) {
	if e.Function.Name == "" && e.Type != "" && e.Type != "function" {
		return nil, fmt.Errorf("a tool call of type %q, where functions were offered", e.Type)
	}
	call, err := c.find(e)
	if err != nil {
		return nil, err
	}
	if call == nil {
		call = &chatCall{place: len(c.all), index: e.Index}
		c.all = append(c.all, call)
	}
	if e.ID != "" {
		call.id = e.ID
	}
	if e.Function.Name != "" {
		call.name = e.Function.Name
	}
	more := call.half.join(e.Function.Arguments.chatText)
	call.args.WriteString(more)
	if len(e.Extra) > 0 && string(e.Extra) != "null" {
		call.extra = e.Extra
	}
	d := llm.ToolCallDelta{Index: call.place, ProviderID: e.ID, Name: e.Function.Name, Arguments: more}
	if c.strict != nil {
		d.Arguments = ""
	}
	return d, nil
}

// find is the call that an entry goes on with, nil if it begins one.
func (c *chatCalls) find(e chatToolCall) (*chatCall, error) {
	var newest *chatCall // of those with the index, or of all
	for i := len(c.all) - 1; i >= 0; i-- {
		call := c.all[i]
		if e.Index != nil && (call.index == nil || *call.index != *e.Index) {
			continue
		}
		if e.ID != "" && call.id == e.ID {
			return call, nil
		}
		if newest == nil {
			newest = call
		}
	}
	switch {
	case e.ID == "" && newest != nil && newest.endsBefore(e):
		return nil, nil
	case e.ID == "" && e.Index == nil:
		return c.follow(e, newest)
	case e.ID == "", newest == nil:
		return newest, nil
	case newest.id == "" && e.Index != nil:
		return newest, nil // its id comes late
	}
	return nil, nil
}

// endsBefore says that an entry without an id begins another call, though it may have the same index: after complete arguments, a
// name is no piece of this call's. The same name with nothing more might be this call, named again.
func (c *chatCall) endsBefore(e chatToolCall) bool {
	args := c.args.String()
	return c.name != "" && e.Function.Name != "" && (e.Function.Name != c.name || !e.Function.Arguments.isEmpty()) &&
		strings.HasPrefix(strings.TrimSpace(args), "{") && json.Valid([]byte(args))
}

// follow is find for an entry with neither index nor id. It goes on with the newest call, if there was no other way to say so.
func (c *chatCalls) follow(e chatToolCall, newest *chatCall) (*chatCall, error) {
	switch {
	case newest == nil:
		return nil, nil // the Collector wants a name
	case newest.index != nil && len(c.all) > 1:
		return nil, fmt.Errorf("a piece of a tool call with neither index nor id, after %d calls that had an index: %.80q",
			len(c.all), e.Function.Name+e.Function.Arguments.s)
	case e.Function.Name == "":
		return newest, nil
	}
	return nil, fmt.Errorf("the name %q with neither index nor id, while the call of %q is incomplete: another call, or a name in pieces",
		e.Function.Name, newest.name)
}

// end is what is left to send when the message is complete: arguments that were held back, and native forms.
func (c *chatCalls) end(provider string) ([]llm.Event, error) {
	var events []llm.Event
	for _, call := range c.all {
		rest := call.half.rest()
		args := call.args.String() + rest
		if schema, ok := c.strict[call.name]; ok {
			args = string(wire.DropNulls(json.RawMessage(args), schema))
		}
		if c.strict != nil {
			rest = args
		}
		if rest != "" {
			events = append(events, llm.ToolCallDelta{Index: call.place, Arguments: rest})
		}
		if call.extra == nil {
			continue
		}
		native, err := jsontree.Encode(map[string]json.RawMessage{"extra_content": call.extra})
		if err != nil {
			return nil, fmt.Errorf("extra_content of the call %q: %w", call.id, err)
		}
		events = append(events, llm.PartDone{Part: llm.ToolCall{Name: call.name, ProviderID: call.id,
			Arguments: bytes.TrimSpace([]byte(args)), Native: &llm.Native{Provider: provider, Data: native}}})
	}
	return events, nil
}
