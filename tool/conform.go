package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// conformer rewrites JSON, which a schema has taken, where encoding/json would not read it as the schema means it:
//
//   - 1.0 and 1e3 are integers by JSON Schema, and become 1 and 1000 where the Go type is an integer;
//   - a key that is a field's name in another case is refused: encoding/json would take it for the field, while a schema that
//     was written by hand and takes further properties did not check it;
//   - a field that is absent gets its default.
//
// All else stays as it is, byte for byte: what a json.RawMessage holds is the caller's.
type conformer struct {
	fields   map[reflect.Type]map[string]field
	defaults defaults
}

// defaults are those of the fields of structs, in their order.
type defaults map[reflect.Type][]fieldDefault

type fieldDefault struct {
	name  string
	value json.RawMessage
}

func newConformer(t reflect.Type, d defaults) *conformer {
	c := &conformer{map[reflect.Type]map[string]field{}, d}
	c.learn(t, map[reflect.Type]bool{})
	return c
}

// learn lists the fields of all structs that t is made of.
func (c *conformer) learn(t reflect.Type, seen map[reflect.Type]bool) {
	t = target(t)
	if seen[t] || readsItself(t) {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		c.learn(t.Elem(), seen)
	case reflect.Struct:
		byName := map[string]field{}
		c.fields[t] = byName
		for _, f := range jsonFields(t) {
			byName[f.name] = f
			c.learn(f.typ, seen)
		}
	}
}

// target is what a pointer points to.
func target(t reflect.Type) reflect.Type {
	for n := 0; t.Kind() == reflect.Pointer && n < maxDepth; n++ {
		t = t.Elem()
	}
	return t
}

// readsItself says that a type has its own way to read JSON, a big.Int aside: that is an integer like others.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t != bigIntType && (p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler))
}

// conform returns text, or a copy of it that is rewritten.
func (c *conformer) conform(text json.RawMessage, t reflect.Type) (json.RawMessage, error) {
	r := rewriter{conformer: c, p: parser{s: string(text)}}
	if err := r.value(t); err != nil {
		return nil, err
	}
	if r.copied == 0 {
		return text, nil
	}
	r.out.WriteString(r.p.s[r.copied:])
	return r.out.Bytes(), nil
}

// rewriter walks through a text and a type together. What it does not replace it copies.
type rewriter struct {
	*conformer
	p      parser
	out    bytes.Buffer
	copied int // up to here the text is in out
}

// replace writes new in place of the text from start to end.
func (r *rewriter) replace(start, end int, new string) {
	r.out.WriteString(r.p.s[r.copied:start])
	r.out.WriteString(new)
	r.copied = end
}

func (r *rewriter) value(t reflect.Type) error {
	r.p.space()
	t = target(t)
	if r.p.i < len(r.p.s) && !readsItself(t) {
		switch c, k := r.p.s[r.p.i], t.Kind(); {
		case c == '{' && k == reflect.Struct && t != bigIntType:
			return r.object(t, r.fields[t])
		case c == '{' && k == reflect.Map:
			return r.object(t, nil)
		case c == '[' && (k == reflect.Slice || k == reflect.Array):
			return r.array(t.Elem())
		case (c == '-' || isDigit(c)) && (reflect.Int <= k && k <= reflect.Uintptr || t == bigIntType):
			return r.integer()
		}
	}
	return r.skip()
}

// skip leaves a value as it is.
func (r *rewriter) skip() error {
	r.p.space()
	if _, err := r.p.value(0); err != nil {
		return err
	}
	return nil
}

func (r *rewriter) integer() error {
	start := r.p.i
	if err := r.skip(); err != nil {
		return err
	}
	was := r.p.s[start:r.p.i]
	if is, ok := plainInteger(was); ok && is != was {
		r.replace(start, r.p.i, is)
	}
	return nil
}

func (r *rewriter) array(elem reflect.Type) error {
	r.p.i++ // [
	for n := 0; ; n++ {
		r.p.space()
		if r.p.eat(']') {
			return nil
		}
		r.p.eat(',')
		if err := r.value(elem); err != nil {
			return within(err, strconv.Itoa(n))
		}
	}
}

// misnamed is the error of a member whose name is a field's in another case.
type misnamed struct {
	path  []string // where it is, innermost first: its own name
	meant string
}

func (e *misnamed) Error() string {
	return fmt.Sprintf("there is no property %q; did you mean %q?", clip(e.path[0]), e.meant)
}

// within adds where an error is.
func within(err error, key string) error {
	if m, ok := err.(*misnamed); ok { // this file made it
		m.path = append(m.path, key)
	}
	return err
}

// object walks through the members of a struct, whose fields are given, or of a map.
func (r *rewriter) object(t reflect.Type, fields map[string]field) error {
	r.p.i++ // {
	seen := map[string]bool{}
	for {
		r.p.space()
		if r.p.i < len(r.p.s) && r.p.s[r.p.i] == '}' {
			r.addDefaults(t, seen)
			r.p.i++
			return nil
		}
		r.p.eat(',')
		r.p.space()
		key, err := r.p.str()
		if err != nil {
			return err
		}
		seen[key] = true
		r.p.space()
		r.p.eat(':')
		if err := r.member(t, fields, key); err != nil {
			return within(err, key)
		}
	}
}

func (r *rewriter) member(t reflect.Type, fields map[string]field, key string) error {
	if t.Kind() == reflect.Map {
		return r.value(t.Elem())
	}
	f, ok := fields[key]
	switch {
	case ok && f.quoted:
		return r.skip()
	case ok:
		return r.value(f.typ)
	}
	for name := range fields {
		if strings.EqualFold(name, key) {
			return &misnamed{meant: name} // the caller adds the key
		}
	}
	return r.skip()
}

// addDefaults writes the defaults of a struct's absent fields before the brace that the parser is at.
func (r *rewriter) addDefaults(t reflect.Type, seen map[string]bool) {
	comma := ""
	if len(seen) > 0 {
		comma = ","
	}
	var b strings.Builder
	for _, d := range r.defaults[t] {
		if !seen[d.name] {
			b.WriteString(comma + string(Text(d.name)) + ":" + string(d.value))
			comma = ","
		}
	}
	if b.Len() > 0 {
		r.replace(r.p.i, r.p.i, b.String())
	}
}

// plainInteger writes a JSON number, if it is an integer, without a point or an exponent. It calculates on the text, and so
// exactly.
func plainInteger(n string) (string, bool) {
	sign := ""
	if rest, ok := strings.CutPrefix(n, "-"); ok {
		sign, n = "-", rest
	}
	mantissa, exponent := n, 0
	if i := strings.IndexAny(n, "eE"); i >= 0 {
		mantissa = n[:i]
		var err error
		if exponent, err = strconv.Atoi(n[i+1:]); err != nil {
			return "", false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	point := len(whole) + exponent // where the point stands in digits
	if strings.Trim(digits, "0") == "" {
		return "0", true
	}
	if point < len(digits) || point > maxNumber {
		return "", false
	}
	digits += strings.Repeat("0", point-len(digits))
	return sign + strings.TrimLeft(digits, "0"), true
}
