package strictjson

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Cursor walks over a text once, for a form that isn't that of one struct. It
// returns parts of the text: a reader that keeps them copies them. Its errors
// are [*Error]s.
//
// A history is read by it, message by message, for each drive. So it looks at
// the bytes itself: with a decoder's tokens, a cycle at 1,000 messages took
// several times as long. What it refuses, the decoder is asked about, for
// its words; a fuzz test compares what the two accept.
type Cursor struct {
	text []byte
	at   int    // the byte that comes next
	in   []byte // the objects, '{', and arrays, '[', that it is in
	want byte   // the ',' or ':' that has to come before the next value or name
	name bool   // in an object, a name comes next
	room [16]byte
}

// Walk calls read with a cursor, which has to pass one value. Anything else
// that follows it is an error. So is what read returns: see [Cursor.Fail]. The
// cursor is good until read returns.
func Walk(text []byte, read func(*Cursor) error) error {
	c := cursors.Get().(*Cursor)
	*c = Cursor{text: text}
	c.in = c.room[:0]
	defer func() {
		c.text, c.in = nil, nil
		cursors.Put(c)
	}()
	if err := read(c); err != nil {
		return err
	}
	if c.space(); c.at != len(text) || c.want == 0 || len(c.in) > 0 {
		return c.bad()
	}
	return nil
}

// cursors are those that no walk uses.
var cursors = sync.Pool{New: func() any { return new(Cursor) }}

// Enter passes what an object, '{', or an array, '[', begins with. Until Leave
// the cursor is in it.
func (c *Cursor) Enter(open byte) error {
	switch k := c.Next(); {
	case k != open && begins(k):
		return c.Fail("a %s stands where a %s is expected", jsontext.Kind(k), jsontext.Kind(open))
	case k != open || c.name || len(c.in) == maxDepth:
		return c.bad()
	}
	c.separator()
	c.at++
	c.in = append(c.in, open)
	c.want, c.name = 0, open == '{'
	return nil
}

// More reports whether there is one more name or element. At the end of the
// text, or where no value can stand, it reports true: reading that fails.
func (c *Cursor) More() bool {
	c.space()
	return c.at == len(c.text) || c.text[c.at] != '}' && c.text[c.at] != ']'
}

// Leave passes the end of an object or array.
func (c *Cursor) Leave() error {
	top := len(c.in) - 1
	// '{' and '}' differ by two, as '[' and ']' do.
	if c.space(); top < 0 || c.at == len(c.text) || c.text[c.at] != c.in[top]+2 || c.want == ':' {
		return c.bad()
	}
	c.at++
	c.in = c.in[:top]
	c.passed()
	return nil
}

// Next returns what comes next by the byte that it begins with: '{', '[', '"',
// 't', 'f', 'n', or '0' for a number. Anything else can't begin a value.
func (c *Cursor) Next() byte {
	at, want := c.at, c.want
	ok := c.separator()
	at, c.at, c.want = c.at, at, want
	switch {
	case !ok || at == len(c.text):
		return 0
	case c.text[at] == '-' || isDigit(c.text[at]):
		return '0'
	}
	return c.text[at]
}

func begins(kind byte) bool { return kind != 0 && bytes.IndexByte([]byte(`{["tfn0`), kind) >= 0 }

// Value passes a value, or a name, and returns it as it stands in the text.
func (c *Cursor) Value() ([]byte, error) {
	if !c.separator() {
		return nil, c.bad()
	}
	s := scanner{c.text, c.at, maxDepth - len(c.in)}
	if c.name && s.next() != '"' || !s.value() {
		return nil, c.bad()
	}
	value := c.text[c.at:s.at:s.at]
	c.at = s.at
	if c.name {
		c.want, c.name = ':', false
	} else {
		c.passed()
	}
	return value, nil
}

// passed notes that the cursor stands behind a value.
func (c *Cursor) passed() { c.want, c.name = ',', len(c.in) > 0 && c.in[len(c.in)-1] == '{' }

// separator passes what has to come before the next value or name.
func (c *Cursor) separator() bool {
	c.space()
	if c.want == 0 {
		return true
	}
	if c.at == len(c.text) || c.text[c.at] != c.want {
		return false
	}
	c.at++
	c.want = 0
	c.space()
	return true
}

func (c *Cursor) space() { c.at = space(c.text, c.at) }

// RawMember is a member of an object whose value is raw.
type RawMember struct {
	Name  []byte // what it says, without quotes
	Value []byte // as it stands in the text
}

// Members passes an object. It appends the members to those of into, and
// returns the object as it stands in the text. The caller refuses equal names,
// if they are wrong.
func (c *Cursor) Members(into []RawMember) (members []RawMember, whole []byte, err error) {
	if err := c.Enter('{'); err != nil {
		return nil, nil, err
	}
	start := c.at - 1
	for c.More() {
		var m RawMember
		if m.Name, err = c.Value(); err == nil {
			m.Value, err = c.Value()
		}
		if err != nil {
			return nil, nil, err
		}
		m.Name = Name(m.Name)
		into = append(into, m)
	}
	err = c.Leave()
	return into, c.text[start:c.at:c.at], err
}

// Twice returns a name that more than one of the members has.
func Twice(members []RawMember) (name []byte, twice bool) {
	var before map[string]bool // from few on
	for i, m := range members {
		switch {
		case i < few:
			for _, other := range members[:i] {
				if bytes.Equal(other.Name, m.Name) {
					return m.Name, true
				}
			}
			continue
		case before == nil:
			before = make(map[string]bool, len(members))
			for _, other := range members[:i] {
				before[string(other.Name)] = true
			}
		}
		if before[string(m.Name)] {
			return m.Name, true
		}
		before[string(m.Name)] = true
	}
	return nil, false
}

// Name returns the text of a name, which stands in quotes. It is a part of the
// text where nothing is escaped.
func Name(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(Unquote(quoted))
}

// Fail returns an error of what the cursor has passed last, or stands before.
func (c *Cursor) Fail(reason string, args ...any) error {
	e := &Error{Offset: c.at, Reason: fmt.Sprintf(reason, args...)}
	_ = decode(c.text, func(d *jsontext.Decoder) error { // which stops at the cursor's place
		for int(d.InputOffset()) < c.at {
			if _, err := d.ReadToken(); err != nil {
				return err
			}
		}
		e.Pointer = string(d.StackPointer())
		return nil
	})
	return e
}

// bad returns what is wrong with the text, in the decoder's words.
func (c *Cursor) bad() error {
	if err := Check(c.text); err != nil {
		return err
	}
	return c.Fail("something else stands here than is read")
}
