package gotype

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// conformer rewrites JSON, which a schema has taken, where encoding/json would
// not read it as the schema means it:
//
//   - 1.0 and 1e3 are integers by JSON Schema, and become 1 and 1000 where the
//     Go type is an integer;
//   - a key that is a field's name in another case is refused: encoding/json
//     would take it for the field, while a schema that was written by hand and
//     takes further properties did not check it;
//   - a field that is absent gets its default.
//
// All else stays as it is, byte for byte: what a json.RawMessage holds is the
// caller's.
type conformer struct {
	fields   map[reflect.Type]map[string]field
	defaults defaults
}

// defaults holds those of the fields of structs, in their order.
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

// target returns the type that a pointer points to, and any other type as it
// is.
func target(t reflect.Type) reflect.Type {
	for n := 0; t.Kind() == reflect.Pointer && n < strictjson.MaxDepth; n++ {
		t = t.Elem()
	}
	return t
}

// readsItself reports whether a type has its own way to read JSON, a big.Int
// aside: that is an integer like others.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t != bigIntType && (p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler))
}

// conform returns the document's text, or a copy of it that is rewritten.
func (c *conformer) conform(d strictjson.Doc, t reflect.Type) (string, error) {
	r := rewriter{conformer: c, edit: strictjson.NewEdit(d.Text)}
	if err := r.value(d.Root, t); err != nil {
		return "", err
	}
	return r.edit.Result(), nil
}

// rewriter walks through a tree and a type together.
type rewriter struct {
	*conformer
	edit *strictjson.Edit
}

func (r *rewriter) value(v any, t reflect.Type) error {
	t = target(t)
	if readsItself(t) {
		return nil
	}
	k := t.Kind()
	switch v := v.(type) {
	case strictjson.Object:
		switch {
		case k == reflect.Struct && t != bigIntType:
			return r.object(v, t)
		case k == reflect.Map:
			return r.mapping(v, t.Elem())
		}
	case strictjson.Array:
		if k == reflect.Slice || k == reflect.Array {
			return r.array(v, t.Elem())
		}
	case strictjson.Number:
		if reflect.Int <= k && k <= reflect.Uintptr || t == bigIntType {
			r.integer(v)
		}
	}
	return nil
}

func (r *rewriter) integer(n strictjson.Number) {
	if is, ok := plainInteger(n.Text); ok && is != n.Text {
		r.edit.Replace(n.Start, n.Start+len(n.Text), is)
	}
}

func (r *rewriter) array(list strictjson.Array, elem reflect.Type) error {
	for i, v := range list {
		if err := r.value(v, elem); err != nil {
			return within(err, strconv.Itoa(i))
		}
	}
	return nil
}

func (r *rewriter) mapping(o strictjson.Object, elem reflect.Type) error {
	for i := range o.Members {
		if err := r.value(o.Members[i].Value, elem); err != nil {
			return within(err, o.Members[i].Name)
		}
	}
	return nil
}

// misnamed is the error of a member that has a field's name in another case.
type misnamed struct {
	path  []string // where it is, innermost first: its own name
	meant string
}

func (e *misnamed) Error() string {
	return fmt.Sprintf("there is no property %q; did you mean %q?", excerpt.Of(e.path[0]), e.meant)
}

// inward returns a path from the outside in, which was noted the other way
// round.
func inward(path []string) []string {
	path = slices.Clone(path)
	slices.Reverse(path)
	return path
}

// within returns an error with the step at which it is added to its path.
func within(err error, key string) error {
	if m, ok := err.(*misnamed); ok { // this file made it
		m.path = append(m.path, key)
	}
	return err
}

// object walks through the members of a struct.
func (r *rewriter) object(o strictjson.Object, t reflect.Type) error {
	fields := r.fields[t]
	for i := range o.Members {
		m := &o.Members[i]
		if err := r.member(m.Value, fields, m.Name); err != nil {
			return within(err, m.Name)
		}
	}
	r.addDefaults(o, t)
	return nil
}

func (r *rewriter) member(v any, fields map[string]field, name string) error {
	f, ok := fields[name]
	switch {
	case ok && f.quoted:
		return nil
	case ok:
		return r.value(v, f.typ)
	}
	for field := range fields {
		if strings.EqualFold(field, name) {
			return &misnamed{meant: field} // the caller adds the name
		}
	}
	return nil
}

// addDefaults writes the defaults of a struct's absent fields before its
// closing brace.
func (r *rewriter) addDefaults(o strictjson.Object, t reflect.Type) {
	var b []byte
	for _, d := range r.defaults[t] {
		named := func(m strictjson.Member) bool { return m.Name == d.name }
		if slices.ContainsFunc(o.Members, named) {
			continue
		}
		if len(o.Members) > 0 || len(b) > 0 {
			b = append(b, ',')
		}
		name, err := jsontree.Encode(d.name)
		if err != nil { // a string always encodes
			continue
		}
		b = append(append(append(b, name...), ':'), d.value...)
	}
	if len(b) > 0 {
		r.edit.Replace(o.End, o.End, string(b))
	}
}

// maxDigits is how long a number may become: as long as one may be written.
const maxDigits = 4096

// plainInteger returns a JSON number, if it is an integer, without a point or
// an exponent. It calculates on the text, and so exactly.
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
	if point < len(digits) || point > maxDigits {
		return "", false
	}
	digits += strings.Repeat("0", point-len(digits))
	return sign + strings.TrimLeft(digits, "0"), true
}
