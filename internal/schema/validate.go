// Package schema checks JSON against a JSON Schema, within a bound of work, and
// explains in few words what does not fit.
//
// It knows no tools and no Go types: package gotype makes schemas of types, and
// reads what they have taken. It is not a validator of its own either:
// github.com/santhosh-tekuri/jsonschema gives the keywords their meaning.
package schema

// Where things are: validate.go begins; then work.go (the bound), explain.go
// (faults in words), quick.go (the fast path), encodedtwice.go; given.go
// (schemas that were written by hand); conventions.go (what gotype writes into
// schemas, and faults are explained by).

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// Schema is a compiled JSON Schema, of the draft that it names, by default
// 2020-12. Formats and content encodings are checked. It is safe for concurrent
// use.
type Schema struct {
	doc   any // the schema's own tree, to explain faults by
	quick *quick
	full  *jsonschema.Schema
	work  *work // of full
}

// schemaURL names a schema while it is compiled. Nothing is ever read from
// there, or from anywhere else.
const schemaURL = "mem:///schema"

// Compile compiles a JSON Schema. An empty one takes every JSON value. A
// reference to another document is an error.
func Compile(raw json.RawMessage) (s *Schema, err error) {
	defer func() { // the schema may come from anywhere
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("schema: the compiler panicked: %v", r)
		}
	}()
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	doc, err := parse(raw)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.AssertFormat()
	c.AssertContent()
	w := &work{}
	c.RegisterVocabulary(w.vocabulary())
	c.AssertVocabs()
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	full, err := c.Compile(schemaURL)
	if err != nil {
		return nil, fmt.Errorf("schema: %s", strings.ReplaceAll(err.Error(), schemaURL, ""))
	}
	w.takeOver()
	return &Schema{doc, compileQuick(doc), full, w}, nil
}

// maxSchemaDepth is how deep a schema may be nested: the compiler's time grows
// with the square.
const maxSchemaDepth = 200

// parse parses a schema's text into a tree as encoding/json makes it.
func parse(text []byte) (any, error) {
	rules := strictjson.Strict(false)
	rules.Depth = maxSchemaDepth
	d, err := strictjson.Parse(text, rules)
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %w", err)
	}
	return strictjson.Plain(d.Root), nil
}

// HasProperty reports whether the schema has a property of that name.
func (s *Schema) HasProperty(name string) bool {
	_, ok := lookup(s.doc, []string{"properties", name})
	return ok
}

// NeverText reports whether no string fits the schema, as its type says.
func (s *Schema) NeverText() bool {
	doc, ok := s.doc.(map[string]any)
	return ok && doc["type"] != nil && readKinds(doc["type"])&aString == 0
}

// noLoader keeps a schema that came from outside from reading files.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to another document, %q", excerpt.Of(url))
}

// Validate reports whether a JSON text fits the schema: nil, or a
// *misfit.Error. What is no strict JSON does not: besides what JSON itself
// forbids, such as text after the value, equal keys and keys that differ only
// by case are refused.
func (s *Schema) Validate(value json.RawMessage) error { return s.validate(value, true) }

// ValidateResult is Validate for a value that no Go struct is decoded from,
// such as a tool's result. Keys that differ only by case are fine in it.
func (s *Schema) ValidateResult(value json.RawMessage) error {
	if s.quick.all && json.Valid(value) {
		return nil
	}
	return s.validate(value, false)
}

func (s *Schema) validate(value json.RawMessage, fold bool) error {
	defer strictjson.Turn(len(value))()
	d, err := strictjson.Parse(value, strictjson.Strict(fold))
	if err != nil {
		return notStrict(err)
	}
	bad, _ := s.check(d)
	return orNil(bad)
}

// orNil keeps a nil pointer from being an error.
func orNil(bad *misfit.Error) error {
	if bad == nil {
		return nil
	}
	return bad
}

// check returns what is wrong with a value, nil if nothing is, and the places
// at which a string stands and an array or an object is wanted.
func (s *Schema) check(d strictjson.Doc) (bad *misfit.Error, encoded [][]string) {
	if s.FitsPlainly(d) {
		return nil, nil
	}
	return s.judge(d)
}

// FitsPlainly reports whether a value certainly fits, as far as can be seen
// without the full validator, which is asked about all others. It is the fast
// path of nearly every call: see quick.go.
func (s *Schema) FitsPlainly(d strictjson.Doc) bool { return s.quick.fits(d.Root) }

// judge asks the full validator about a value.
func (s *Schema) judge(d strictjson.Doc) (bad *misfit.Error, encoded [][]string) {
	value := strictjson.Plain(d.Root)
	defer func() {
		switch r := recover(); {
		case r == nil:
		case r == error(errTooMuchWork):
			bad = misfit.Of("schema", errTooMuchWork.Error())
		default:
			bad = misfit.Of("schema", "the validator panicked: "+excerpt.InBrief(fmt.Sprint(r)))
		}
	}()
	err := s.work.run(s.full, value, len(d.Text))
	var v *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil, nil
	case !errors.As(err, &v):
		return misfit.Of("schema", excerpt.InBrief(err.Error())), nil
	}
	x := explainer{value: value, schema: s.doc}
	x.explain(v)
	return x.result(), x.encoded
}

// explain collects the faults of v. Where any of several schemas would do, it
// explains those that the value came closest to.
func (x *explainer) explain(v *jsonschema.ValidationError) {
	at := v.InstanceLocation
	switch k := v.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, c := range v.Causes {
			x.explain(c)
		}
	case *kind.AnyOf, *kind.OneOf:
		x.alternatives(v)
	case *kind.Type:
		x.wrongType(at, v.SchemaURL, k.Want)
	case *kind.Required:
		x.missing(at, v.SchemaURL, k.Missing)
	case *kind.AdditionalProperties:
		x.unknown(at, v.SchemaURL, k.Properties)
	case *kind.Enum:
		x.add(at, "enum", "must be one of %s", x.list(k.Want))
	case *kind.Const:
		x.add(at, "const", "must be %s", x.list([]any{k.Want}))
	case *kind.Format:
		x.add(at, "format", "must be a valid %s%s", k.Want, formatExample(k.Want))
	case *kind.Pattern:
		if words, ok := keyWords(k.Want); ok {
			x.add(at, "pattern", "%s", words)
			return
		}
		x.add(at, "pattern", "must match the regular expression %s", excerpt.InBrief(k.Want))
	case *kind.Minimum:
		x.add(at, "minimum", "must be at least %s", number(k.Want))
	case *kind.Maximum:
		x.add(at, "maximum", "must be at most %s", number(k.Want))
	case *kind.ExclusiveMinimum:
		x.add(at, "exclusiveMinimum", "must be more than %s", number(k.Want))
	case *kind.ExclusiveMaximum:
		x.add(at, "exclusiveMaximum", "must be less than %s", number(k.Want))
	case *kind.MultipleOf:
		x.add(at, "multipleOf", "must be a multiple of %s", number(k.Want))
	default:
		x.explainMore(v)
	}
}

func (x *explainer) explainMore(v *jsonschema.ValidationError) {
	at := v.InstanceLocation
	switch k := v.ErrorKind.(type) {
	case *kind.MinLength:
		x.add(at, "minLength", "must have at least %d characters, has %d", k.Want, k.Got)
	case *kind.MaxLength:
		x.add(at, "maxLength", "must have at most %d characters, has %d", k.Want, k.Got)
	case *kind.MinItems:
		x.add(at, "minItems", "must have at least %d items, has %d", k.Want, k.Got)
	case *kind.MaxItems:
		x.add(at, "maxItems", "must have at most %d items, has %d", k.Want, k.Got)
	case *kind.MinProperties:
		x.add(at, "minProperties", "must have at least %d properties, has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		x.add(at, "maxProperties", "must have at most %d properties, has %d", k.Want, k.Got)
	case *kind.UniqueItems:
		x.add(at, "uniqueItems", "must have no equal items: those at %d and %d are",
			k.Duplicates[0], k.Duplicates[1])
	case *kind.PropertyNames:
		x.badKey(at, k.Property, v)
	case *kind.Dependency:
		x.add(at, "dependencies", "must have %s, since it has %q", quoted(k.Missing), k.Prop)
	case *kind.DependentRequired:
		x.add(at, "dependentRequired", "must have %s, since it has %q", quoted(k.Missing), k.Prop)
	case *kind.ContentEncoding:
		x.add(at, "contentEncoding", "must be encoded as %s", k.Want)
	case *kind.Contains, *kind.MinContains:
		x.add(at, "contains", "has too few items of the kind that the schema asks for")
	case *kind.FalseSchema:
		x.add(at, "false", "is not allowed here")
	case *kind.RefCycle:
		x.add(at, "$ref", "can't be judged: the schema refers to itself without end")
	case *kind.Not:
		x.add(at, "not", "is what the schema excludes")
	default: // the library's own words, without its notion of where
		_, words, _ := strings.Cut((&jsonschema.ValidationError{ErrorKind: k}).Error(), ": ")
		x.add(at, strings.Join(k.KeywordPath(), "/"), "does not fit the schema: %s",
			excerpt.InBrief(words))
	}
}

// alternatives explains why none of several schemas fits. Those that fail by
// the type of the value itself explain little if another one got further.
func (x *explainer) alternatives(v *jsonschema.ValidationError) {
	if k, ok := v.ErrorKind.(*kind.OneOf); ok && len(k.Subschemas) > 0 {
		x.add(v.InstanceLocation, "oneOf",
			"must fit exactly one of the schema's alternatives, and fits several")
		return
	}
	var types []string
	var further []*jsonschema.ValidationError
	for _, c := range v.Causes {
		if t := typesWanted(c, len(v.InstanceLocation)); t != nil {
			types = append(types, t...)
		} else {
			further = append(further, c)
		}
	}
	if len(further) == 0 {
		slices.Sort(types)
		x.wrongType(v.InstanceLocation, v.SchemaURL, slices.Compact(types))
		return
	}
	best := further[0]
	for _, c := range further[1:] {
		if depth(c) > depth(best) {
			best = c
		}
	}
	if len(further) > 1 {
		x.add(v.InstanceLocation, "anyOf",
			"fits none of the schema's alternatives; the closest one fails by what follows")
	}
	x.explain(best)
}

// typesWanted returns the types that a failed schema wants, if the type of the
// value at that depth is what failed.
func typesWanted(v *jsonschema.ValidationError, at int) []string {
	for len(v.Causes) == 1 {
		v = v.Causes[0]
	}
	if k, ok := v.ErrorKind.(*kind.Type); ok && len(v.InstanceLocation) == at {
		return k.Want
	}
	return nil
}

// depth returns how far into the value a schema got before it failed.
func depth(v *jsonschema.ValidationError) int {
	d := len(v.InstanceLocation)
	for _, c := range v.Causes {
		d = max(d, depth(c))
	}
	return d
}

// badKey explains a key that the schema for keys does not take.
func (x *explainer) badKey(at []string, key string, v *jsonschema.ValidationError) {
	inner := explainer{value: key, schema: x.schema}
	for _, c := range v.Causes {
		inner.explain(c)
	}
	words := "is not allowed"
	if len(inner.faults) > 0 {
		words = inner.faults[0].message
	}
	x.add(at, "propertyNames", "the key %q %s", excerpt.Of(key), words)
}

// number returns a bound as a person would write it.
func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	if n, exact := r.FloatPrec(); exact {
		return r.FloatString(n)
	}
	return r.RatString()
}
