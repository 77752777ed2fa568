package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
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
	// lists is the number of lists of tool_calls so far.
	lists int
	// strict are the schemas of the tools in strict mode, where arguments are held back until the end.
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
	d := llm.ToolCallDelta{Index: call.place, ProviderID: e.ID, Name: e.Function.Name}
	if same := e.Function.Name == call.name; same && (e.ID != "" || call.args.repeats(e.Function.Arguments.Piece)) {
		d.Name = "" // it is this call, named again
	}
	if e.ID != "" {
		call.id = e.ID
	}
	if e.Function.Name != "" {
		call.name = e.Function.Name
	}
	if !isNull(e.Extra) {
		call.extra = e.Extra
	}
	call.list = c.lists
	if more := call.args.add(e.Function.Arguments.Piece); c.strict == nil {
		d.Arguments = more
	}
	return d
}

// find is the call that an entry goes on with, nil if it begins one.
func (c *chatCalls) find(e chatToolCall) (*chatCall, error) {
	if e.Index == nil {
		return c.follow(e)
	}
	var newest *chatCall // of those with the index
	for i := len(c.all) - 1; i >= 0; i-- {
		call := c.all[i]
		if call.index == nil || *call.index != *e.Index {
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
	case newest == nil:
		return nil, nil
	case e.ID == "" && newest.endsBefore(e):
		return nil, nil
	case e.ID == "":
		return newest, nil
	case newest.id == "" && !newest.isAnother(e):
		return newest, nil // its id comes late
	}
	return nil, nil
}

// follow is find for an entry without an index: over several lists, one id is one call; two entries of one list are two calls.
func (c *chatCalls) follow(e chatToolCall) (*chatCall, error) {
	var known []*chatCall // by the id, from earlier lists
	var newest *chatCall
	listed := false // this list has a piece of some call
	for _, call := range c.all {
		newest, listed = call, listed || call.list == c.lists
		if e.ID != "" && call.id == e.ID && call.list != c.lists {
			known = append(known, call)
		}
	}
	switch {
	case len(known) > 1:
		return nil, fmt.Errorf("a piece of a tool call without an index, where %d calls have its id %q", len(known), e.ID)
	case len(known) == 1:
		return known[0], nil
	case newest == nil:
		return nil, nil // the Collector wants a name
	case listed && (e.ID != "" || e.Function.Name != ""):
		return nil, nil
	case listed:
		return nil, fmt.Errorf("a tool call with neither index, id nor name beside another: %.80q", e.Function.Arguments.Piece)
	case e.ID != "" && newest.id == "" && newest.name == e.Function.Name && newest.args.repeats(e.Function.Arguments.Piece):
		return newest, nil // it came in pieces, and now comes whole, with its id
	case e.ID != "", newest.endsBefore(e):
		return nil, nil
	case newest.index != nil && len(c.all) > 1:
		return nil, fmt.Errorf("a piece of a tool call with neither index nor id, after %d calls that had an index: %.80q",
			len(c.all), e.Function.Name+string(e.Function.Arguments.Piece))
	case e.Function.Name == "", e.Function.Name == newest.name && newest.args.isResent(e.Function.Arguments.Piece):
		return newest, nil
	}
	return nil, fmt.Errorf("the name %q with neither index nor id, while the call of %q is incomplete: another call, or a name in pieces",
		e.Function.Name, newest.name)
}

// endsBefore reports whether an entry without an id begins another call, though it may have the same index: after complete arguments,
// a name is no piece of this call's. The same name with nothing more might be this call, named again.
func (c *chatCall) endsBefore(e chatToolCall) bool {
	args := e.Function.Arguments.Piece
	return c.name != "" && e.Function.Name != "" && c.args.isObject() &&
		(e.Function.Name != c.name || args != "" && !c.args.isResent(args))
}

// isAnother reports whether an entry with an id, of the same index, is no late news of this call, which has none: its arguments are
// complete, and the entry has others.
func (c *chatCall) isAnother(e chatToolCall) bool {
	f := e.Function
	return c.name != "" && f.Name != "" && c.args.text.Len() > 0 && c.args.isObject() &&
		(f.Name != c.name || f.Arguments.Piece != "" && !c.args.repeats(f.Arguments.Piece))
}

// end is what is left to send when the message is complete: arguments that were held back, and native forms. finished reports whether a
// finish_reason came. If none did, a call of which no arguments came is cut off. So is one, then or where the limit or a filter ended
// the message, that has no more than what stood for nothing in another call. Broken JSON is no object in any case.
func (c *chatCalls) end(provider string, finished bool, why llm.StopReason) ([]llm.Event, error) {
	var events []llm.Event
	broken := (!finished || why == llm.StopLength || why == llm.StopRefusal) && slices.ContainsFunc(c.all, func(call *chatCall) bool { return call.args.stood })
	for _, call := range c.all {
		held := call.args.held != ""
		rest := call.args.end()
		args := call.args.String()
		if !finished && strings.TrimSpace(args) == "" || broken && held {
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
		native, err := jsontree.Encode(map[string]json.RawMessage{"extra_content": call.extra})
		if err != nil {
			return nil, fmt.Errorf("extra_content of the call %q: %w", call.id, err)
		}
		events = append(events, llm.PartDone{Part: llm.ToolCall{Name: call.name, ProviderID: call.id,
			Arguments: bytes.TrimSpace([]byte(args)), Native: &llm.Native{Provider: provider, Data: native}}})
	}
	return events, nil
}

// cutOff stands for the arguments of a call that was broken off before they began: it must not look like one without any.
const cutOff = "(cut off)"
