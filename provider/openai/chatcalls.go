package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/llm/wire"
)

// chatCalls finds out which call a piece belongs to. OpenAI says it by index;
// compatible servers leave the index out, or send the same one for all calls. A
// piece that can't be told is an error: glued to the wrong call, it would do
// harm.
//
// It doesn't check the rest. Each call gets an Index of its own, by order of
// appearance, and [llm.Collector] is strict about names and ids.
type chatCalls struct {
	all []*chatCall
	// lists is the number of lists of tool_calls so far.
	lists int
	// strict are the schemas of the tools in strict mode, where arguments are
	// held back until the end.
	strict map[string]json.RawMessage
}

type chatCall struct {
	place    int  // in all
	index    *int // as sent; nil: it came without
	id, name string
	args     chatArgs
	extra    json.RawMessage
	list     int // the newest list of tool_calls that had a piece of it
}

// add takes the list tool_calls, of a message or of a piece of one.
func (c *chatCalls) add(list []chatToolCall) (deltas []llm.Event, err error) {
	c.lists++
	for _, e := range list {
		if e.isEmpty() {
			continue
		}
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
		deltas = append(deltas, c.take(call, e))
	}
	return deltas, nil
}

// take adds an entry to a call.
func (c *chatCalls) take(call *chatCall, e chatToolCall) llm.ToolCallDelta {
	name, args := e.Function.Name, e.Function.Arguments.Piece
	d := llm.ToolCallDelta{Index: call.place, ProviderID: e.ID, Name: name}
	if name == call.name && (e.ID != "" || call.args.repeats(args)) {
		d.Name = "" // it is this call, named again
	}
	if e.ID != "" {
		call.id = e.ID
	}
	if name != "" {
		call.name = name
	}
	if !isNull(e.Extra) {
		call.extra = e.Extra
	}
	call.list = c.lists
	if more := call.args.add(args); c.strict == nil {
		d.Arguments = more
	}
	return d
}

// end returns what is left to send when the message is complete: arguments that
// were held back, and native forms. finished reports whether a finish_reason
// came. If none did, a call of which no arguments came is cut off. So is one,
// then or where the limit or a filter ended the message, that has no more than
// what stood for nothing in another call. Broken JSON is no object in any case.
func (c *chatCalls) end(provider string, finished bool, why llm.StopReason) ([]llm.Event, error) {
	var events []llm.Event
	broken := !finished || why == llm.StopLength || why == llm.StopRefusal
	habit := slices.ContainsFunc(c.all, func(call *chatCall) bool { return call.args.stood })
	for _, call := range c.all {
		held := call.args.held != ""
		rest := call.args.end()
		args := call.args.String()
		if !finished && strings.TrimSpace(args) == "" || broken && habit && held {
			rest, args = cutOff, cutOff
		}
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
		native, err := wire.Encode(map[string]json.RawMessage{"extra_content": call.extra})
		if err != nil {
			return nil, fmt.Errorf("extra_content of the call %q: %w", call.id, err)
		}
		events = append(events, llm.PartDone{Part: llm.ToolCall{
			Name: call.name, ProviderID: call.id, Arguments: bytes.TrimSpace([]byte(args)),
			Native: &llm.Native{Provider: provider, Data: native},
		}})
	}
	return events, nil
}

// cutOff stands for the arguments of a call that was broken off before they
// began: it must not look like one without any.
const cutOff = "(cut off)"
