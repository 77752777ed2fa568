package schema

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
	"github.com/fermata-ai/fermata/internal/strictjson"
)

// quick is a schema in a form that finds at little cost that a value fits, and
// never that one doesn't. It knows the keywords that nearly all schemas of
// tools are made of; the full validator judges the other values, and explains.
// So a mistake here could only let pass what the full validator refuses; a fuzz
// test compares the two. A quick does not change once it is compiled: any
// goroutine may use it.
//
// It is written by hand since its absence is felt: the full validator makes
// maps of the tree, and 15 allocations more for a call with one string, 49 more
// for four fields, where a whole call in memory makes 113.
type quick struct {
	all        bool  // everything fits
	never      bool  // there is something in the schema that quick does not know
	types      kinds // 0: any
	properties map[string]property
	required   []string
	others     *quick // what further properties must fit; nil: none may be there
	items      *quick
	enum       []string // strings only
	min, max   *int64
	float      float64 // numbers are nearer to zero than this; 0: there is no such bound
	ref        *quick  // what a reference refers to
}

// property is what a member of an object must fit.
type property struct {
	*quick
	required bool
}

// kinds is a set of JSON types.
type kinds uint8

const (
	aNull kinds = 1 << iota
	aBool
	anInteger
	aNumber
	aString
	anArray
	anObject
)

var kindNames = map[string]kinds{
	"null": aNull, "boolean": aBool, "string": aString, "array": anArray, "object": anObject,
	"integer": anInteger, "number": anInteger | aNumber,
}

// annotations are the keywords that do not bear on what fits.
var annotations = []string{"title", "description", "default", "examples", "deprecated", "readOnly",
	"writeOnly", "$comment", "$defs"}

// compileQuick compiles a schema's tree.
func compileQuick(doc any) *quick {
	c := quickCompiler{root: doc, defs: map[string]*quick{}}
	return c.compile(doc)
}

type quickCompiler struct {
	root any
	defs map[string]*quick
}

func (c *quickCompiler) compile(doc any) *quick {
	s, ok := doc.(map[string]any)
	if !ok {
		return &quick{never: true}
	}
	q := &quick{others: &quick{all: true}, all: true, properties: map[string]property{}}
	for key, v := range s {
		if slices.Contains(annotations, key) {
			continue
		}
		if !q.all && (q.ref != nil || key == "$ref") {
			return &quick{never: true} // something beside a reference
		}
		q.all = false
		if !c.keyword(q, key, v) {
			return &quick{never: true}
		}
	}
	for _, name := range q.required {
		p, known := q.properties[name]
		if !known {
			p.quick = q.others
		}
		q.properties[name] = property{p.quick, true}
	}
	return q
}

// keyword reads a keyword of a schema into q. It returns false for one that
// quick does not know.
func (c *quickCompiler) keyword(q *quick, key string, v any) bool {
	switch key {
	case "type":
		q.types = readKinds(v)
		return q.types != 0
	case "properties":
		return c.readProperties(q, v)
	case "required":
		return readStrings(&q.required, v)
	case "enum":
		return readStrings(&q.enum, v) && len(q.enum) > 0
	case "additionalProperties":
		if v == false {
			q.others = nil
			return true
		}
		q.others = c.compile(v)
		return true
	case "items":
		q.items = c.compile(v)
		return true
	case "minimum":
		return q.readBound(&q.min, v, "-")
	case "maximum":
		return q.readBound(&q.max, v, "")
	case "$ref":
		return c.readRef(q, v)
	}
	return false
}

func readKinds(v any) (all kinds) {
	if one, ok := v.(string); ok {
		return kindNames[one]
	}
	list, _ := v.([]any)
	for _, e := range list {
		name, _ := e.(string)
		if kindNames[name] == 0 {
			return 0
		}
		all |= kindNames[name]
	}
	return all
}

func (c *quickCompiler) readProperties(q *quick, v any) bool {
	m, ok := v.(map[string]any)
	for name, sub := range m {
		q.properties[name] = property{c.compile(sub), false}
	}
	return ok
}

func readStrings(to *[]string, v any) bool {
	list, ok := v.([]any)
	for _, e := range list {
		s, isString := e.(string)
		ok = ok && isString
		*to = append(*to, s)
	}
	return ok
}

// readBound reads a bound: an int64, or one of those that follow from a Go type
// of greater numbers.
func (q *quick) readBound(to **int64, v any, sign string) bool {
	switch n, _ := v.(json.Number); strings.TrimPrefix(string(n), sign) {
	case MaxFloat64:
		q.float = math.MaxFloat64
	case MaxFloat32:
		q.float = math.MaxFloat32
	case maxUint64:
		return sign == "" // no int64 is above it, and quick knows no others
	default:
		i, err := strconv.ParseInt(string(n), 10, 64)
		*to = &i
		return err == nil
	}
	return true
}

const maxUint64 = "18446744073709551615"

// readRef reads a reference to a definition at the root. A definition may refer
// to itself.
func (c *quickCompiler) readRef(q *quick, v any) bool {
	ref, _ := v.(string)
	root, _ := c.root.(map[string]any)
	defs, _ := root["$defs"].(map[string]any)
	if len(ref) <= len(jsontree.DefsPrefix) ||
		ref[:len(jsontree.DefsPrefix)] != jsontree.DefsPrefix {
		return false
	}
	name := ref[len(jsontree.DefsPrefix):]
	def, ok := defs[name]
	// A path, or escaped: it may mean another definition than the one of that
	// very name.
	if !ok || strings.ContainsAny(name, "/~%") {
		return false
	}
	if q.ref, ok = c.defs[name]; !ok {
		q.ref = &quick{}
		c.defs[name] = q.ref // before what refers back to it
		*q.ref = *c.compile(def)
	}
	return true
}

// fits reports whether v certainly fits.
func (q *quick) fits(v any) bool {
	for n := 0; q != nil && q.ref != nil; n++ {
		if q = q.ref; n == strictjson.MaxDepth {
			return false // it refers to itself
		}
	}
	switch {
	case q == nil || q.never:
		return false
	case q.all:
		return true
	}
	switch v := v.(type) {
	case nil:
		return q.is(aNull)
	case bool:
		return q.is(aBool)
	case strictjson.String:
		return (q.types == 0 || q.types&aString != 0) &&
			(q.enum == nil || slices.Contains(q.enum, v.Text))
	case strictjson.Number:
		return q.number(v.Text)
	case strictjson.Array:
		return q.is(anArray) && q.list(v)
	case strictjson.Object:
		return q.is(anObject) && q.object(v)
	}
	return false
}

// is reports whether a value of kind k, which is no string, fits as far as its
// kind goes.
func (q *quick) is(k kinds) bool { return (q.types == 0 || q.types&k != 0) && q.enum == nil }

func (q *quick) number(n string) bool {
	if q.types != 0 && q.types&aNumber != 0 && q.min == nil && q.max == nil {
		return q.enum == nil && q.isFloat(n)
	}
	// No other form of a number, and none beyond 64 bits, is known.
	i, err := strconv.ParseInt(n, 10, 64)
	return err == nil && q.is(anInteger) && (q.min == nil || i >= *q.min) &&
		(q.max == nil || i <= *q.max)
}

// isFloat reports whether a number is certainly within the bounds of a float.
func (q *quick) isFloat(n string) bool {
	if q.float == 0 {
		return true
	}
	f, err := strconv.ParseFloat(n, 64)
	return err == nil && -q.float < f && f < q.float
}

func (q *quick) list(v strictjson.Array) bool {
	if q.items == nil {
		return true
	}
	for _, e := range v {
		if !q.items.fits(e) {
			return false
		}
	}
	return true
}

func (q *quick) object(o strictjson.Object) bool {
	missing := len(q.required)
	for i := range o.Members {
		m := &o.Members[i]
		p, known := q.properties[m.Name]
		if !known {
			p.quick = q.others
		}
		if !p.fits(m.Value) {
			return false
		}
		if p.required {
			missing--
		}
	}
	return missing == 0 // a name that is required twice is never found twice
}
