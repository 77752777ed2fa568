package llm

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// Clone returns a message that shares nothing with m which can be changed:
// its receiver may write into its parts and their bytes.
func (m Message) Clone() Message {
	var s space
	s.need(m)
	s.make()
	return s.message(m, nil, nil)
}

// Clone returns a call with bytes of its own.
func (p ToolCall) Clone() ToolCall {
	p.Arguments, p.Native = bytes.Clone(p.Arguments), p.Native.Clone()
	return p
}

// Clone returns a result with bytes of its own.
func (p ToolResult) Clone() ToolResult {
	p.Output, p.Media = bytes.Clone(p.Output), cloneMedia(p.Media)
	return p
}

func cloneMedia(all []Media) []Media {
	all = slices.Clone(all)
	for i := range all {
		all[i] = all[i].Clone()
	}
	return all
}

// Clone returns media with bytes of its own.
func (p Media) Clone() Media {
	p.Data, p.Native = bytes.Clone(p.Data), p.Native.Clone()
	return p
}

// Clone returns a native form with bytes of its own; nil stays nil.
func (n *Native) Clone() *Native {
	if n == nil {
		return nil
	}
	return &Native{Provider: n.Provider, Data: bytes.Clone(n.Data)}
}

// Clone returns a request that shares nothing with r which can be changed. The
// agent makes one for each call of the model: it belongs to the model and the
// layers around it.
func (r Request) Clone() Request {
	var calls boxes[ToolCall]
	var results boxes[ToolResult]
	var s space
	for i := range r.Messages {
		s.need(r.Messages[i])
	}
	for i := range r.Tools {
		s.bytes += small(r.Tools[i].Input) + small(r.Tools[i].Output)
	}
	s.make()
	r.Messages, r.Tools = slices.Clone(r.Messages), slices.Clone(r.Tools)
	for i := range r.Messages {
		r.Messages[i] = s.message(r.Messages[i], &calls, &results)
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		t.Input, t.Output = s.raw(t.Input), s.raw(t.Output)
	}
	calls.empty(s.slots)
	results.empty(s.slots)
	r.ResponseFormat.Schema = bytes.Clone(r.ResponseFormat.Schema)
	r.Metadata = maps.Clone(r.Metadata)
	return r
}

// CloneTools returns definitions with schemas of their own.
func CloneTools(defs []ToolDef) []ToolDef { return Request{Tools: defs}.Clone().Tools }

// space is memory for copies, taken in few pieces: a history has thousands of
// parts, and is copied for each request. First all is counted by need, then
// make takes it, then message and raw use it up.
type space struct {
	bytes, parts int // counted

	text  []byte
	slots []Part
}

// large is from where on bytes get a piece of their own, so that who keeps
// a short one doesn't keep them.
const large = 4 << 10

func small(b []byte) int {
	if len(b) >= large {
		return 0
	}
	return len(b)
}

// need counts what a copy of m takes. What is rare is left out, and gets pieces
// of its own.
func (s *space) need(m Message) {
	s.parts += len(m.Parts)
	for _, p := range m.Parts {
		switch p := p.(type) {
		case ToolCall:
			s.bytes += small(p.Arguments)
		case ToolResult:
			s.bytes += small(p.Output)
		}
	}
}

func (s *space) make() { s.text, s.slots = make([]byte, 0, s.bytes), make([]Part, 0, s.parts) }

func (s *space) raw(b json.RawMessage) json.RawMessage {
	from := len(s.text)
	switch {
	case len(b) == 0:
		return b[:0:0] // without room to append into
	case len(b) >= large, len(b) > cap(s.text)-from:
		return bytes.Clone(b)
	}
	s.text = append(s.text, b...)
	return s.text[from:len(s.text):len(s.text)]
}

// message copies m. Without boxes each of its parts is boxed by itself.
func (s *space) message(m Message, calls *boxes[ToolCall], results *boxes[ToolResult]) Message {
	m.Extra = bytes.Clone(m.Extra)
	if m.Parts == nil {
		return m
	}
	from := len(s.slots)
	s.slots = append(s.slots, m.Parts...)
	m.Parts = s.slots[from:len(s.slots):len(s.slots)]
	for i := from; i < len(s.slots); i++ {
		s.part(i, calls, results)
	}
	return m
}

// part replaces the part in a slot by a copy, now or when its boxes are full.
// What holds nothing but strings can't be changed, and stays.
func (s *space) part(at int, calls *boxes[ToolCall], results *boxes[ToolResult]) {
	switch p := s.slots[at].(type) {
	case Text:
		if p.Native != nil {
			p.Native = p.Native.Clone()
			s.slots[at] = p
		}
	case Reasoning:
		if p.Native != nil {
			p.Native = p.Native.Clone()
			s.slots[at] = p
		}
	case ToolCall:
		p.Arguments, p.Native = s.raw(p.Arguments), p.Native.Clone()
		calls.put(s.slots, at, p)
	case ToolResult:
		p.Output, p.Media = s.raw(p.Output), cloneMedia(p.Media)
		results.put(s.slots, at, p)
	case Media:
		s.slots[at] = p.Clone()
	case Opaque:
		s.slots[at] = Opaque{Native: *p.Native.Clone()}
	case Unknown:
		p.Raw = bytes.Clone(p.Raw)
		s.slots[at] = p
	}
}

// boxes puts values into interfaces, several with one allocation, where Go
// itself makes one for each.
type boxes[P Part] struct {
	values [boxed]P
	places [boxed]int // among the slots
	n      int
}

const boxed = 32

// put has value stand in a slot, at the latest when b is emptied.
func (b *boxes[P]) put(slots []Part, place int, value P) {
	if b == nil {
		slots[place] = value
		return
	}
	b.values[b.n], b.places[b.n] = value, place
	if b.n++; b.n == boxed {
		b.empty(slots)
	}
}

// empty has all values stand in their slots.
func (b *boxes[P]) empty(slots []Part) {
	const few = 4 // for which so much room would be wasted
	if b.n <= few {
		for i, place := range b.places[:b.n] {
			slots[place] = b.values[i]
		}
	} else {
		all := reflect.ValueOf(b.values) // which allocates; an interface of one of its elements points into it
		for i, place := range b.places[:b.n] {
			slots[place] = all.Index(i).Interface().(Part)
		}
	}
	b.n = 0
}
