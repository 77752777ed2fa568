package strictjson

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Node is a JSON value of a text, with all that is in it.
type Node struct {
	Name  string // of a member of an object
	Kind  Kind
	Text  string // of a string: what it says; of another value without parts: its text
	Parts []Node // members or elements, in their order

	Start, End int // the value's place in the text, in bytes
}

// Kind is the kind of a value, by the first character of its text; a number's
// is '0'.
type Kind byte

// The kinds.
const (
	Null   Kind = 'n'
	False  Kind = 'f'
	True   Kind = 't'
	String Kind = '"'
	Number Kind = '0'
	Object Kind = '{'
	Array  Kind = '['
)

// Member returns an object's member of that name, or nil.
func (n *Node) Member(name string) *Node {
	if n.Kind == Object {
		for i := range n.Parts {
			if n.Parts[i].Name == name {
				return &n.Parts[i]
			}
		}
	}
	return nil
}

// Rules say what legal JSON [Parse] refuses, beside equal names.
type Rules struct {
	// Fold refuses names that differ only by case, since encoding/json takes
	// them for one field.
	Fold bool
	// Depth bounds nesting; 0 is what the decoder takes, 10000.
	Depth int
	// Digits bounds the characters of a number; 0: nothing does.
	Digits int
	// Exponent bounds the exponent of a number; 0: nothing does. Who calculates
	// with 1e999999 exactly is busy for minutes.
	Exponent int
}

// Parse reads a text that is one JSON value and nothing else. Strings of the
// tree are parts of the text where nothing is escaped. Invalid UTF-8 in them,
// and half a surrogate pair, become U+FFFD. The error is an [*Error].
func Parse[T ~string | ~[]byte](text T, r Rules) (*Node, error) {
	p := parser{text: string(text), rules: r}
	n := new(Node)
	if err := decode([]byte(text), func(d *jsontext.Decoder) error { return p.value(d, n) }); err != nil {
		return nil, err
	}
	return n, nil
}

type parser struct {
	text  string
	rules Rules
}

func (p *parser) value(d *jsontext.Decoder, n *Node) error {
	switch k := d.PeekKind(); k {
	case '{', '[':
		n.Kind = Kind(k)
		return p.parts(d, n)
	}
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	n.Kind = Kind(jsontext.Value(value).Kind())
	n.End = int(d.InputOffset())
	n.Start = n.End - len(value)
	switch n.Text = p.text[n.Start:n.End]; n.Kind {
	case String:
		n.Text = p.says(value, n.Start)
	case Number:
		return p.number(d, n)
	}
	return nil
}

// says returns what a string says, which stands at start.
func (p *parser) says(quoted []byte, start int) string {
	if s := quoted[1 : len(quoted)-1]; bytes.IndexByte(s, '\\') < 0 && utf8.Valid(s) {
		return p.text[start+1 : start+1+len(s)]
	}
	return Unquote(quoted)
}

func (p *parser) parts(d *jsontext.Decoder, n *Node) error {
	if p.rules.Depth > 0 && d.StackDepth() >= p.rules.Depth {
		return fail(d, "it is nested more than %d deep", p.rules.Depth)
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	n.Start = int(d.InputOffset()) - 1
	end := jsontext.Kind(']')
	if n.Kind == Object {
		end = '}'
	}
	names := names{exact: !p.rules.Fold}
	for d.PeekKind() != end {
		var part Node
		if n.Kind == Object {
			if err := p.name(d, &part, &names); err != nil {
				return err
			}
		}
		if err := p.value(d, &part); err != nil {
			return err
		}
		n.Parts = append(n.Parts, part)
	}
	_, err := d.ReadToken()
	n.End = int(d.InputOffset())
	return err
}

// name reads a member's name.
func (p *parser) name(d *jsontext.Decoder, n *Node, before *names) error {
	quoted, err := d.ReadValue()
	if err != nil {
		return err
	}
	n.Name = p.says(quoted, int(d.InputOffset())-len(quoted))
	switch other, alike := before.alike(n.Name); {
	case alike && other == n.Name:
		return fail(d, "the key %q is there twice", clip(n.Name))
	case alike:
		return fail(d, "the keys %q and %q differ only by case", clip(other), clip(n.Name))
	}
	return nil
}

// number checks a number against the rules.
func (p *parser) number(d *jsontext.Decoder, n *Node) error {
	if most := p.rules.Digits; most > 0 && len(n.Text) > most {
		return fail(d, "a number has %d characters: at most %d are taken", len(n.Text), most)
	}
	at := strings.IndexAny(n.Text, "eE")
	if at < 0 || p.rules.Exponent == 0 {
		return nil
	}
	digits := strings.TrimLeft(n.Text[at+1:], "+-0")
	exponent := 0
	for _, c := range digits[:min(len(digits), 9)] {
		exponent = 10*exponent + int(c-'0')
	}
	if exponent > p.rules.Exponent {
		return fail(d, "the exponent of the number %s is above %d", clip(n.Text), p.rules.Exponent)
	}
	return nil
}

// clip shortens what an error quotes.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
