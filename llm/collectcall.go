package llm

import "encoding/json"

// stream is a call that comes in deltas.
type stream struct {
	index, place int // place: in parts
	id, name     string
	args         joined
	whole        bool // a PartDone took its place
}

// delta adds to a call, or begins one.
func (c *Collector) delta(d ToolCallDelta) error {
	s := c.find(d.Index)
	if s == nil || s.id != "" && d.ProviderID != "" && d.ProviderID != s.id {
		return c.begin(d)
	}
	resent := d.ProviderID != "" && d.ProviderID == s.id
	switch {
	case s.whole && resent:
		return malformed("more of call %q, which has come whole", d.ProviderID)
	case s.whole:
		return c.begin(d)
	case d.Name != "" && s.name != "" && d.Name != s.name:
		return malformed("index %d names the tools %q and %q: two calls, or a name in pieces",
			d.Index, s.name, d.Name)
	case d.Name != "" && s.name != "" && !resent:
		// The same call, named again? Or another one, whose arguments would be
		// glued to this one's?
		return malformed("index %d names the tool %q again, without the call's id", d.Index, d.Name)
	}
	if d.Name != "" {
		s.name = d.Name
	}
	if d.ProviderID != "" {
		s.id = d.ProviderID
	}
	s.args.add(d.Arguments)
	return nil
}

func (c *Collector) begin(d ToolCallDelta) error {
	if d.Name == "" && d.ProviderID == "" {
		return malformed("arguments for index %d, where no call began: %.40q", d.Index, d.Arguments)
	}
	if err := c.another(partCost); err != nil {
		return err
	}
	c.close()
	c.calls = append(c.calls, stream{index: d.Index, place: len(c.parts), id: d.ProviderID,
		name: d.Name})
	c.calls[len(c.calls)-1].args.add(d.Arguments)
	c.parts = append(c.parts, nil)
	c.found(len(c.calls) - 1)
	return nil
}

// another makes room for one more call, which costs so many bytes beside those
// that were counted.
func (c *Collector) another(cost int) error {
	if c.asked == MaxCalls {
		return overlong("the message has more than %d tool calls", MaxCalls)
	}
	c.asked++
	return c.grow(cost)
}

// cutOff marks the calls that may have been cut off at their beginning: those
// of which no arguments came, and, where the model was broken off for sure, the
// last one, whose {} may be what a service made of none.
func (c *Collector) cutOff(parts []Part, broken bool) {
	mark := func(p *Part) {
		if call, ok := (*p).(ToolCall); ok && string(call.Arguments) == "{}" {
			call.Arguments = json.RawMessage(`"(cut off before its arguments came)"`)
			*p = call
		}
	}
	for i := range c.calls {
		if s := &c.calls[i]; !s.whole && s.args.empty() {
			mark(&parts[s.place])
		}
	}
	if !broken {
		return
	}
	// What stands behind the last call doesn't show that its arguments came: a
	// signature of the reasoning before it may come last.
	for i := len(parts) - 1; i >= 0; i-- {
		if _, ok := parts[i].(ToolCall); ok {
			mark(&parts[i])
			return
		}
	}
}

// find returns the newest call that has the index, nil if there is none.
func (c *Collector) find(index int) *stream {
	if c.newest != nil {
		if i, ok := c.newest[index]; ok {
			return &c.calls[i]
		}
		return nil
	}
	for i := len(c.calls) - 1; i >= 0; i-- {
		if c.calls[i].index == index {
			return &c.calls[i]
		}
	}
	return nil
}

// found has find know the newest call, the i-th. Few calls are looked through;
// with more, each delta would take as long as there are calls.
func (c *Collector) found(i int) {
	const few = 8
	switch {
	case c.newest != nil:
		c.newest[c.calls[i].index] = i
	case i == few:
		c.newest = make(map[int]int)
		for i := range c.calls {
			c.newest[c.calls[i].index] = i
		}
	}
}

// wholeCall adds a call, or puts it in the place of the one that was streamed
// before it came whole.
func (c *Collector) wholeCall(p ToolCall) error {
	given := p.Arguments
	p = p.Clone() // the model, or a layer around it, may keep its own
	p.Arguments, _ = Arguments(p.Arguments)
	for i := range c.calls {
		s := &c.calls[i]
		if s.whole || s.name != p.Name || s.id != p.ProviderID {
			continue
		}
		if args, _ := s.arguments(); string(args) == string(p.Arguments) {
			c.parts[s.place], s.whole = p, true
			return nil
		}
		if s.id != "" {
			return malformed("call %q came with other arguments whole than in pieces: %.80q and %.80q", s.id, given, s.args.string())
		}
	}
	if err := c.another(0); err != nil {
		return err
	}
	c.instead(none, p)
	return nil
}

// arguments returns the call's, as far as they have come.
func (s *stream) arguments() (json.RawMessage, error) {
	if len(s.args.more) > 0 {
		return Arguments(s.args.more)
	}
	return Arguments(s.args.one)
}
