package llm

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// Clone returns a message that shares nothing with m which can be changed:
// its receiver may write into its parts and their bytes.
func (m Message) Clone() Message {
	s := spaces.Get().(*space)
	defer s.putBack()
	s.count(m)
	s.make()
	m = s.message(m)
	s.unbox()
	return m
}

func clonePart(p Part) Part { return Message{Parts: []Part{p}}.Clone().Parts[0] }

// Clone returns a request that shares nothing with r which can be changed. The
// agent makes one for each call of the model: it belongs to the model and the
// layers around it.
func (r Request) Clone() Request {
	s := spaces.Get().(*space)
	defer s.putBack()
	for i := range r.Messages {
		s.count(r.Messages[i])
	}
	for i := range r.Tools {
		s.bytes += small(r.Tools[i].Input) + small(r.Tools[i].Output)
	}
	s.make()
	r.Messages, r.Tools = slices.Clone(r.Messages), slices.Clone(r.Tools)
	for i := range r.Messages {
		r.Messages[i] = s.message(r.Messages[i])
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		t.Input, t.Output = s.own(t.Input), s.own(t.Output)
	}
	s.unbox()
	r.ResponseFormat.Schema = bytes.Clone(r.ResponseFormat.Schema)
	r.Metadata = maps.Clone(r.Metadata)
	return r
}

// space is memory for copies, taken in few pieces: a history has thousands of
// parts, and is copied for each request. First all is counted by count, then
// make takes it, then message and own use it up, and unbox comes last.
type space struct {
	bytes, parts int // counted

	text  []byte
	slots []Part
	at    int // the slot of the part that is being copied

	// Calls and results, of which a history has many, are put into interfaces
	// several at a time.
	calls   boxes[ToolCall]
	results boxes[ToolResult]
}

// spaces are kept, since a pass moves each to the heap. What was copied is not.
var spaces = sync.Pool{New: func() any { return new(space) }}

func (s *space) putBack() {
	s.bytes, s.parts, s.text, s.slots, s.calls.n, s.results.n = 0, 0, nil, nil, 0, 0
	spaces.Put(s)
}

// large is from where on bytes get a piece of their own: a receiver that keeps
// a short one doesn't keep them.
const large = 4 << 10

func small(b []byte) int {
	if len(b) >= large {
		return 0
	}
	return len(b)
}

// count adds what a copy of m takes.
func (s *space) count(m Message) {
	f := pass{do: counting}
	for _, p := range m.Parts {
		f.over(p)
	}
	s.bytes, s.parts = s.bytes+f.size, s.parts+len(m.Parts)
}

func (s *space) make() {
	s.text, s.slots = make([]byte, 0, s.bytes), make([]Part, 0, s.parts)
}

// own returns bytes that are the copy's own.
func (s *space) own(b []byte) []byte {
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

// message copies m, but for the calls and results that unbox puts in. What
// holds nothing but strings can't be changed, and stays.
func (s *space) message(m Message) Message {
	m.Extra = bytes.Clone(m.Extra)
	if m.Parts == nil {
		return m
	}
	from := len(s.slots)
	s.slots = append(s.slots, m.Parts...)
	m.Parts = s.slots[from:len(s.slots):len(s.slots)]
	f := pass{do: copying, s: s}
	for s.at = from; s.at < len(s.slots); s.at++ {
		if f.over(s.slots[s.at]); f.out != nil {
			s.slots[s.at] = f.out
		}
	}
	return m
}

// unbox has all calls and results stand in their slots.
func (s *space) unbox() {
	s.calls.empty(s.slots)
	s.results.empty(s.slots)
}

// putCall puts out a call, at once or with others.
func (f *pass) putCall(p ToolCall) {
	if f.do == copying {
		f.s.calls.put(f.s.slots, f.s.at, p)
	} else {
		f.out = p
	}
}

// putResult puts out a result, at once or with others.
func (f *pass) putResult(p ToolResult) {
	if f.do == copying {
		f.s.results.put(f.s.slots, f.s.at, p)
	} else {
		f.out = p
	}
}

// boxes put parts of one kind into interfaces, several with one allocation,
// where Go itself makes one for each.
type boxes[P Part] struct {
	values [boxed]P
	places [boxed]int // among the slots
	n      int
}

const boxed = 32

// put has value stand in a slot, at the latest when b is emptied.
func (b *boxes[P]) put(slots []Part, place int, value P) {
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
		// Which allocates; an interface of one of its elements points into it.
		all := reflect.ValueOf(b.values)
		for i, place := range b.places[:b.n] {
			slots[place] = all.Index(i).Interface().(Part)
		}
	}
	clear(b.values[:b.n]) // b may be kept
	b.n = 0
}
