package strictjson

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fermata-ai/fermata/internal/excerpt"
)

// Rules are the legal JSON that [Parse] refuses, beside equal names.
type Rules struct {
	// Fold refuses names that differ only by case, since encoding/json takes
	// them for one field.
	Fold bool
	// Depth bounds nesting; 0 is what the decoder takes, 10000.
	Depth int
	// Digits bounds the characters of a number; 0: nothing does.
	Digits int
	// Exponent bounds the exponent of a number; 0: nothing does. An exact
	// calculation with 1e999999 takes minutes.
	Exponent int
}

// Strict returns the rules for values that come from outside. With fold they
// are for those that a Go struct is decoded from.
func Strict(fold bool) Rules {
	return Rules{
		Fold:  fold,
		Depth: MaxDepth,
		// More than the largest RSA key has.
		Digits: 4096,
		// A float64 has 308.
		Exponent: 1000,
	}
}

// MaxDepth is how deep a value from outside may be nested.
const MaxDepth = 1000

// SyntaxError is where a text stops being strict JSON. Its words are for the
// model, or the person, that wrote the text.
type SyntaxError struct {
	Offset int // in bytes
	// Of the value that is wrong, or holds what is: names and places, from the
	// outside in.
	Path   []string
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s (at byte %d)", e.Reason, e.Offset) }

// Parse reads a text that is one JSON value and nothing else. Strings of the
// tree are parts of the text where nothing is escaped. Invalid UTF-8 in them,
// and half a surrogate pair, become U+FFFD. The error is a [*SyntaxError].
func Parse[T ~string | ~[]byte](text T, r Rules) (Doc, error) {
	p := parsers.Get().(*parser)
	defer p.putBack()
	p.text, p.rules = string(text), r
	err := json.Unmarshal([]byte(text), p, tolerant)
	switch {
	case err == nil:
		return Doc{p.text, p.root}, nil
	case p.failed == nil && p.end > 0:
		p.trailing()
	case p.failed == nil: // before the decoder was lent
		p.instead(0, valueOnly, "")
	}
	slices.Reverse(p.failed.Path)
	return Doc{Text: p.text}, p.failed
}

// parsers are kept, since json.Unmarshal moves each to the heap.
var parsers = sync.Pool{New: func() any { return new(parser) }}

func (p *parser) putBack() {
	*p = parser{}
	parsers.Put(p)
}

// parser makes a tree of what the decoder reads. Its methods return false when
// failed is set, and those that saw what they stand in add to its path.
type parser struct {
	text   string
	rules  Rules
	root   any
	end    int // of the root, once it is read
	failed *SyntaxError
	// between: the failure is of what stands between two parts, and so none of
	// a part.
	between bool
}

// UnmarshalJSONFrom is for json.Unmarshal, which has decoders to lend.
func (p *parser) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var ok bool
	if p.root, ok = p.value(d, valueOnly, ""); !ok {
		return p.failed
	}
	p.end = int(d.InputOffset())
	return nil
}

func (p *parser) fail(offset int, format string, args ...any) bool {
	p.failed = &SyntaxError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
	return false
}

// wrong fails with what stands where the decoder does not find what is wanted,
// after a key where that is a member's value.
func (p *parser) wrong(d *jsontext.Decoder, want wanted, key string) bool {
	return p.instead(int(d.InputOffset()), want, key)
}

// within adds a step to the path of a part's failure.
func (p *parser) within(step string) {
	if !p.between {
		p.failed.Path = append(p.failed.Path, step)
	}
	p.between = false
}

// value reads a value, which is wanted after a key where it is a member's.
func (p *parser) value(d *jsontext.Decoder, want wanted, key string) (any, bool) {
	switch d.PeekKind() {
	case '{':
		return p.object(d)
	case '[':
		return p.array(d)
	}
	raw, err := d.ReadValue()
	if err != nil {
		return nil, p.wrong(d, want, key)
	}
	start := int(d.InputOffset()) - len(raw)
	switch raw[0] {
	case '"':
		return String{p.says(raw, start), start}, true
	case 'n':
		return nil, true
	case 't', 'f':
		return raw[0] == 't', true
	}
	n := Number{p.text[start : start+len(raw)], start}
	return n, p.bounded(n)
}

// says returns the text of a string, which stands at start.
func (p *parser) says(quoted []byte, start int) string {
	if s := quoted[1 : len(quoted)-1]; bytes.IndexByte(s, '\\') < 0 && utf8.Valid(s) {
		return p.text[start+1 : start+1+len(s)]
	}
	return Unquote(quoted)
}

// open reads the token that an object or an array begins with.
func (p *parser) open(d *jsontext.Decoder) bool {
	deep := p.rules.Depth > 0 && d.StackDepth() >= p.rules.Depth
	if _, err := d.ReadToken(); err != nil {
		return p.fail(int(d.InputOffset()), "it is nested too deep") // by the decoder's own bound
	}
	if deep {
		return p.fail(int(d.InputOffset())-1, "it is nested more than %d deep", p.rules.Depth)
	}
	return true
}

// room is for how many parts there is room at first.
const room = 4

func (p *parser) array(d *jsontext.Decoder) (any, bool) {
	if !p.open(d) {
		return nil, false
	}
	list := Array{}
	for d.PeekKind() != ']' {
		want := element
		if len(list) == 0 {
			want = valueOnly
			list = make(Array, 0, room)
		}
		v, ok := p.value(d, want, "")
		if !ok {
			p.within(strconv.Itoa(len(list)))
			return nil, false
		}
		list = append(list, v)
	}
	_, err := d.ReadToken()
	return list, err == nil || p.wrong(d, element, "")
}

func (p *parser) object(d *jsontext.Decoder) (any, bool) {
	if !p.open(d) {
		return nil, false
	}
	before := names{exact: !p.rules.Fold}
	var members []Member
	for d.PeekKind() != '}' {
		want := nextName
		if members == nil {
			want = firstName
			members = make([]Member, 0, room)
		}
		name, ok := p.name(d, &before, want)
		if !ok {
			return nil, false
		}
		v, ok := p.value(d, memberValue, name)
		if !ok {
			p.within(name)
			return nil, false
		}
		members = append(members, Member{name, v})
	}
	_, err := d.ReadToken()
	return Object{members, int(d.InputOffset()) - 1}, err == nil || p.wrong(d, nextName, "")
}

// name reads a member's name.
func (p *parser) name(d *jsontext.Decoder, before *names, want wanted) (string, bool) {
	quoted, err := d.ReadValue()
	if err != nil || quoted[0] != '"' {
		return "", p.wrong(d, want, "")
	}
	start := int(d.InputOffset()) - len(quoted)
	name := p.says(quoted, start)
	switch other, alike := before.alike(name); {
	case alike && other == name:
		return "", p.fail(start, "the key %q is there twice", excerpt.Of(name))
	case alike:
		return "", p.fail(start, "the keys %q and %q differ only by case", excerpt.Of(other),
			excerpt.Of(name))
	}
	return name, true
}

// bounded checks a number against the rules.
func (p *parser) bounded(n Number) bool {
	if most := p.rules.Digits; most > 0 && len(n.Text) > most {
		return p.fail(n.Start, "a number has %d characters: at most %d are taken",
			len(n.Text), most)
	}
	at := strings.IndexAny(n.Text, "eE")
	if at < 0 || p.rules.Exponent == 0 {
		return true
	}
	digits := strings.TrimLeft(n.Text[at+1:], "+-0")
	exponent := 0
	for _, c := range digits[:min(len(digits), 9)] {
		exponent = 10*exponent + int(c-'0')
	}
	if exponent > p.rules.Exponent {
		return p.fail(n.Start, "the exponent of the number %s is above %d", excerpt.Of(n.Text),
			p.rules.Exponent)
	}
	return true
}
