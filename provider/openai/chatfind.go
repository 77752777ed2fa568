package openai

import "fmt"

// find returns the call that an entry goes on with, nil if it begins one.
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

// follow is find for an entry without an index: over several lists, one id is
// one call; two entries of one list are two calls.
func (c *chatCalls) follow(e chatToolCall) (*chatCall, error) {
	name, args := e.Function.Name, e.Function.Arguments.Piece
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
		return nil, fmt.Errorf("a piece of a tool call without an index, where %d calls have its id %q",
			len(known), e.ID)
	case len(known) == 1:
		return known[0], nil
	case newest == nil:
		return nil, nil // the Collector wants a name
	case listed && e.ID == "" && name == "":
		return nil, fmt.Errorf("a tool call with neither index, id nor name beside another: %.80q",
			args)
	case listed:
		return nil, nil
	case e.ID != "" && newest.id == "" && newest.name == name && newest.args.repeats(args):
		return newest, nil // it came in pieces, and now comes whole, with its id
	case e.ID != "":
		return nil, nil
	}
	return c.nameless(e, newest)
}

// nameless is follow for an entry without an id: it goes on with the newest
// call, if there was no other way to say so.
func (c *chatCalls) nameless(e chatToolCall, newest *chatCall) (*chatCall, error) {
	name, args := e.Function.Name, e.Function.Arguments.Piece
	switch {
	case newest.endsBefore(e):
		return nil, nil
	case newest.index != nil && len(c.all) > 1:
		return nil, fmt.Errorf("a piece of a tool call with neither index nor id, after %d calls "+
			"that had an index: %.80q", len(c.all), name+string(args))
	case name == "", name == newest.name && newest.args.isResent(args):
		return newest, nil
	}
	return nil, fmt.Errorf("the name %q with neither index nor id, while the call of %q is incomplete: "+
		"another call, or a name in pieces", name, newest.name)
}

// endsBefore reports whether an entry without an id begins another call, though
// it may have the same index: after complete arguments, a name is no piece of
// this call's. The same name with nothing more might be this call, named again.
func (c *chatCall) endsBefore(e chatToolCall) bool {
	name, args := e.Function.Name, e.Function.Arguments.Piece
	return c.name != "" && name != "" && c.args.isObject() &&
		(name != c.name || args != "" && !c.args.isResent(args))
}

// isAnother reports whether an entry with an id, of the same index, is no late
// news of this call, which has none: its arguments are complete, and the entry
// has others.
func (c *chatCall) isAnother(e chatToolCall) bool {
	name, args := e.Function.Name, e.Function.Arguments.Piece
	return c.name != "" && name != "" && c.args.text.Len() > 0 && c.args.isObject() &&
		(name != c.name || args != "" && !c.args.repeats(args))
}
