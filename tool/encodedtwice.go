package tool

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Models write an array or an object now and then as a string that holds its
// JSON: {"ids":"[1,2]"}, or all of the arguments as one string. Such a string
// is decoded once more: only after it was refused, only where the schema wants
// an array or an object, and what is in it has to be as strict, and fit as
// well, as anything else. Nothing else is guessed. What comes of it is derived
// anew each time; what the model wrote is what is stored.

// Arguments returns a value in the form that it is to be decoded from, if it
// fits: as it is, in most cases. Otherwise the error is a *ValidationError.
func (s *Schema) Arguments(value json.RawMessage) (json.RawMessage, error) {
	refused := s.Validate(value)
	e, ok := refused.(*ValidationError)
	if !ok || len(e.encoded) == 0 {
		return value, refused
	}
	derived, ok := decodedOnce(value, e.encoded)
	if !ok {
		return value, refused
	}
	if err := s.Validate(derived); err != nil {
		return value, err
	}
	return derived, nil
}

// decodedOnce puts what the strings at those places hold in their place. It
// returns false if one of them holds no array or object.
func decodedOnce(value json.RawMessage, paths [][]string) (json.RawMessage, bool) {
	root := places{}
	for _, path := range paths {
		root.add(path)
	}
	d := onceMore{p: parser{s: string(value)}, ok: true}
	d.value(root)
	d.out.WriteString(d.p.s[d.copied:])
	return d.out.Bytes(), d.ok
}

// places is a place in a value, with those below it that are of interest; one
// without any is of interest itself.
type places map[string]places

func (p places) add(path []string) {
	for _, step := range path {
		if p[step] == nil {
			p[step] = places{}
		}
		p = p[step]
	}
}

// onceMore goes through a text that is strict JSON, up to the places that it is
// told, and copies it.
type onceMore struct {
	p      parser
	out    bytes.Buffer
	copied int // up to here the text is in out
	ok     bool
}

// value goes through a value of which here is of interest; nil: nothing is.
func (d *onceMore) value(here places) {
	d.p.space()
	switch c := d.p.s[d.p.i]; {
	case here != nil && len(here) == 0 && c == '"':
		d.decode()
	case len(here) > 0 && c == '{':
		d.members(func() (string, bool) {
			key, err := d.p.str()
			d.p.space()
			return key, err == nil && d.p.eat(':')
		}, '}', here)
	case len(here) > 0 && c == '[':
		n := -1
		d.members(func() (string, bool) { n++; return strconv.Itoa(n), true }, ']', here)
	default:
		if _, err := d.p.value(0); err != nil {
			d.ok = false
		}
	}
}

func (d *onceMore) members(name func() (string, bool), closing byte, here places) {
	d.p.i++ // the bracket
	for d.ok {
		d.p.space()
		if d.p.eat(closing) {
			return
		}
		d.p.eat(',')
		d.p.space()
		step, ok := name()
		d.ok = d.ok && ok
		d.value(here[step])
	}
}

// decode puts the text that a string holds in the string's place.
func (d *onceMore) decode() {
	start := d.p.i
	text, err := d.p.str()
	text = strings.TrimSpace(text)
	if err != nil || !strings.HasPrefix(text, "[") && !strings.HasPrefix(text, "{") {
		d.ok = false
		return
	}
	if _, err := parseStrict([]byte(text), forGo); err != nil {
		d.ok = false
		return
	}
	d.out.WriteString(d.p.s[d.copied:start])
	d.out.WriteString(text)
	d.copied = d.p.i
}
