package strictjson

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Cursor walks over a text once, for a form that isn't that of one struct. What
// it passes are parts of the text: a reader that keeps them copies them. Its
// errors are [*Error]s.
type Cursor struct {
	d    *jsontext.Decoder
	text []byte
}

// Walk calls read with a cursor, which has to pass one value. Anything else
// that follows it is an error. So is what read returns: see [Cursor.Fail].
func Walk(text []byte, read func(*Cursor) error) error {
	return decode(text, func(d *jsontext.Decoder) error { return read(&Cursor{d, text}) })
}

// Enter passes what an object, '{', or an array, '[', begins with. Until Leave
// the cursor is in it.
func (c *Cursor) Enter(open byte) error { return enter(c.d, jsontext.Kind(open)) }

// More reports whether there is one more name or element. At the end of the
// text, or where no value can stand, it reports true: reading that fails.
func (c *Cursor) More() bool {
	k := c.d.PeekKind()
	return k != '}' && k != ']'
}

// Leave passes the end of an object or array.
func (c *Cursor) Leave() error {
	_, err := c.d.ReadToken()
	return err
}

// Next returns what comes next by the byte that it begins with: '{', '[', '"',
// 't', 'f', 'n', or '0' for a number. Anything else can't begin a value.
func (c *Cursor) Next() byte { return byte(c.d.PeekKind()) }

// Value passes a value, or a name, and returns it as it stands in the text.
func (c *Cursor) Value() ([]byte, error) {
	value, err := c.d.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(c.d.InputOffset())
	return c.text[end-len(value) : end : end], nil
}

// RawMember is a member of an object whose value is raw.
type RawMember struct {
	Name  []byte // what it says, without quotes
	Value []byte // as it stands in the text
}

// Members passes an object. It appends the members to those of into, and
// returns the object as it stands in the text. Equal names are the caller's to
// refuse.
func (c *Cursor) Members(into []RawMember) (members []RawMember, whole []byte, err error) {
	if err := c.Enter('{'); err != nil {
		return nil, nil, err
	}
	start := int(c.d.InputOffset()) - 1
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
	end := int(c.d.InputOffset())
	return into, c.text[start:end:end], err
}

// Name returns what a name says, which stands in quotes. It is a part of the
// text where nothing is escaped.
func Name(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(Unquote(quoted))
}

// Fail returns an error of what the cursor has passed last, or stands before.
func (c *Cursor) Fail(reason string, args ...any) error { return fail(c.d, reason, args...) }
