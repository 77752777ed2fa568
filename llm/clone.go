package llm

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
)

// Clone returns a message that shares nothing with m which can be changed:
// its receiver may write into its parts and their bytes.
func (m Message) Clone() Message {
	var s space
	s.count(m)
	s.make()
	return s.message(m)
}

func clonePart(p Part) Part { return Message{Parts: []Part{p}}.Clone().Parts[0] }

// Clone returns a request that shares nothing with r which can be changed. The
// agent makes one for each call of the model: it belongs to the model and the
// layers around it.
func (r Request) Clone() Request {
	s := space{boxes: new(boxes)}
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
	s.boxes.calls.empty(s.slots)
	s.boxes.results.empty(s.slots)
	r.ResponseFormat.Schema = bytes.Clone(r.ResponseFormat.Schema)
	r.Metadata = maps.Clone(r.Metadata)
	return r
}

// space is memory for copies, taken in few pieces: a history has thousands of
// parts, and is copied for each request. First all is counted by count, then
// make takes it, then message and own use it up.
type space struct {
	bytes, parts int // counted

	text  []byte
	slots []Part
	at    int // the slot of the part that is being copied
	boxes *boxes
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

// message copies m. What holds nothing but strings can't be changed, and stays.
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

// putCall puts out a call. A history has many: see [boxes].
func (f *pass) putCall(p ToolCall) {
	if f.do == copying && f.s.boxes != nil {
		f.s.boxes.calls.put(f.s.slots, f.s.at, p)
	} else {
		f.out = p
	}
}

// putResult puts out a result, of which there are as many.
func (f *pass) putResult(p ToolResult) {
	if f.do == copying && f.s.boxes != nil {
		f.s.boxes.results.put(f.s.slots, f.s.at, p)
	} else {
		f.out = p
	}
}

// boxes put calls and results into interfaces, several with one allocation,
// where Go itself makes one for each.
type boxes struct {
	calls   boxesOf[ToolCall]
	results boxesOf[ToolResult]
}

type boxesOf[P Part] struct {
	values [boxed]P
	places [boxed]int // among the slots
	n      int
}

const boxed = 32

// put has value stand in a slot, at the latest when b is emptied.
func (b *boxesOf[P]) put(slots []Part, place int, value P) {
	b.values[b.n], b.places[b.n] = value, place
	if b.n++; b.n == boxed {
		b.empty(slots)
	}
}

// empty has all values stand in their slots.
func (b *boxesOf[P]) empty(slots []Part) {
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
	b.n = 0
}
