package tool

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// encoding/json can't be used for checking what a model wrote: it takes the last of two equal keys, takes keys in any case,
// and its decoder ignores what follows the value. So this is a parser of JSON (RFC 8259) that refuses what two readers might
// understand differently, and says where. It builds a tree of object, []any, string, json.Number, bool and nil; whole makes of it
// the one that the validator reads.

const (
	maxDepth       = 1000 // of nesting; encoding/json takes 10000
	maxSchemaDepth = 200  // of nesting in a schema: the compiler's time grows with the square
	maxNumber      = 4096 // characters of a number: more than the largest RSA key has digits
	maxExponent    = 1000 // a float64 has 308; the validator calculates exactly, and 1e999999 would cost it minutes
	fewKeys        = 8    // objects up to this size are searched for equal keys by comparing each with each
)

// strictness says what of legal JSON to refuse besides duplicate keys.
type strictness bool

const (
	forGo     strictness = true  // keys that differ only by case, too: encoding/json would take them for one field
	forReader strictness = false // nothing else
)

// parseStrict parses data, which is one JSON value and nothing else. The error is a *syntaxError.
func parseStrict(data []byte, s strictness) (any, error) {
	p := parser{s: string(data), strict: s}
	return p.document()
}

// parseSchema parses a schema's text.
func parseSchema(data []byte) (any, error) {
	p := parser{s: string(data), deepest: maxSchemaDepth}
	v, err := p.document()
	return whole(v), err
}

// object is a JSON object as it was written. It costs a fraction of a map, where there are few members.
type object []member

type member struct {
	name  string
	value any
}

// whole is a tree with maps for objects.
func whole(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case object:
		m := make(map[string]any, len(v))
		for _, f := range v {
			m[f.name] = whole(f.value)
		}
		return m
	}
	return v
}

// syntaxError says where a text stops being strict JSON.
type syntaxError struct {
	offset int      // in bytes
	path   []string // where in the value, innermost first
	msg    string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s (at byte %d)", e.msg, e.offset) }

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

type parser struct {
	s      string // strings of the tree are parts of it where nothing is escaped
	i      int
	strict strictness
	// deepest is how deep to follow nesting; 0: maxDepth.
	deepest int
}

func (p *parser) fail(offset int, format string, args ...any) *syntaxError {
	return &syntaxError{offset: offset, msg: fmt.Sprintf(format, args...)}
}

func (p *parser) document() (any, error) {
	p.space()
	if p.i == len(p.s) {
		return nil, p.fail(p.i, "it is empty: a JSON value is expected")
	}
	v, err := p.value(0)
	if err != nil {
		return nil, err // not through a typed nil: err is an *syntaxError here
	}
	p.space()
	if p.i < len(p.s) {
		return nil, p.fail(p.i, "there is text after the end of the JSON value: %s", excerpt(p.s[p.i:]))
	}
	return v, nil
}

func (p *parser) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// found describes the next character for an error.
func (p *parser) found() string {
	if p.i >= len(p.s) {
		return "the text ends"
	}
	r, _ := utf8.DecodeRuneInString(p.s[p.i:])
	if r == '\ufeff' {
		return "a byte order mark stands"
	}
	return fmt.Sprintf("%q stands", r)
}

func (p *parser) value(depth int) (any, *syntaxError) {
	if p.i >= len(p.s) {
		return nil, p.fail(p.i, "a JSON value is expected where the text ends")
	}
	switch c := p.s[p.i]; c {
	case '{':
		return p.object(depth + 1)
	case '[':
		return p.array(depth + 1)
	case '"':
		s, err := p.str()
		if err != nil {
			return nil, err
		}
		return s, nil
	case 't':
		return true, p.word("true")
	case 'f':
		return false, p.word("false")
	case 'n':
		return nil, p.word("null")
	default:
		if c == '-' || isDigit(c) {
			return p.number()
		}
		return nil, p.fail(p.i, "a JSON value is expected where %s", p.found())
	}
}

func (p *parser) word(w string) *syntaxError {
	if !strings.HasPrefix(p.s[p.i:], w) {
		return p.fail(p.i, "a JSON value is expected where %s", p.found())
	}
	p.i += len(w)
	return nil
}

func (p *parser) tooDeep(depth int) *syntaxError {
	limit := p.deepest
	if limit == 0 {
		limit = maxDepth
	}
	if depth > limit {
		return p.fail(p.i, "it is nested more than %d deep", limit)
	}
	return nil
}

func (p *parser) array(depth int) (any, *syntaxError) {
	if err := p.tooDeep(depth); err != nil {
		return nil, err
	}
	p.i++ // [
	list := []any{}
	p.space()
	if p.eat(']') {
		return list, nil
	}
	for {
		p.space()
		v, err := p.value(depth)
		if err != nil {
			err.path = append(err.path, strconv.Itoa(len(list)))
			return nil, err
		}
		list = append(list, v)
		p.space()
		switch {
		case p.eat(','):
		case p.eat(']'):
			return list, nil
		default:
			return nil, p.fail(p.i, "',' or ']' is expected where %s", p.found())
		}
	}
}

func (p *parser) object(depth int) (any, *syntaxError) {
	if err := p.tooDeep(depth); err != nil {
		return nil, err
	}
	p.i++ // {
	ks := keys{exact: p.strict != forGo}
	p.space()
	if p.eat('}') {
		return object{}, nil
	}
	o := make(object, 0, 4)
	for {
		p.space()
		at := p.i
		if p.i >= len(p.s) || p.s[p.i] != '"' {
			return nil, p.fail(p.i, "a key in double quotes is expected where %s", p.found())
		}
		k, err := p.str()
		if err != nil {
			return nil, err
		}
		switch other, ok := ks.alike(k); {
		case ok && other == k:
			return nil, p.fail(at, "the key %q is there twice", clip(k))
		case ok:
			return nil, p.fail(at, "the keys %q and %q differ only by case", clip(other), clip(k))
		}
		p.space()
		if !p.eat(':') {
			return nil, p.fail(p.i, "':' is expected after the key %q where %s", clip(k), p.found())
		}
		p.space()
		v, err := p.value(depth)
		if err != nil {
			err.path = append(err.path, k)
			return nil, err
		}
		o = append(o, member{k, v})
		p.space()
		switch {
		case p.eat(','):
		case p.eat('}'):
			return o, nil
		default:
			return nil, p.fail(p.i, "',' or '}' is expected where %s", p.found())
		}
	}
}

func (p *parser) eat(c byte) bool {
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *parser) number() (any, *syntaxError) {
	start := p.i
	p.eat('-')
	switch {
	case p.eat('0'):
	case p.digits() == 0:
		return nil, p.fail(p.i, "a digit is expected where %s", p.found())
	}
	if p.eat('.') {
		if p.digits() == 0 {
			return nil, p.fail(p.i, "a digit is expected where %s", p.found())
		}
	}
	if p.eat('e') || p.eat('E') {
		if !p.eat('+') {
			p.eat('-')
		}
		at := p.i
		if p.digits() == 0 {
			return nil, p.fail(p.i, "a digit is expected where %s", p.found())
		}
		exp, err := strconv.Atoi(p.s[at:p.i])
		if err != nil || exp > maxExponent {
			return nil, p.fail(start, "the exponent of the number %s is above %d", clip(p.s[start:p.i]), maxExponent)
		}
	}
	if n := p.i - start; n > maxNumber {
		return nil, p.fail(start, "a number has %d characters: at most %d are taken", n, maxNumber)
	}
	return json.Number(p.s[start:p.i]), nil
}

func (p *parser) digits() int {
	start := p.i
	for p.i < len(p.s) && isDigit(p.s[p.i]) {
		p.i++
	}
	return p.i - start
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
