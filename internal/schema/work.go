package schema

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// The library validates without a bound: a list of a million wrong items makes
// a million errors, and alternatives that overlap are tried 2^depth times. It
// takes no context, and a goroutine that nothing can end is no bound. So a
// [part] in each subschema counts what is done, and goes through members, items
// and alternatives in the library's place, since it stops where the library
// would not.

// work is how much one validation may still do. There is one for each compiled
// schema. Validations of one schema by the library take turns, by the lock
// here.
type work struct {
	// mu guards left. The goroutine of a validation holds it until the library
	// is done; no code of users runs under it. Compilation alone writes parts
	// and exhaustive.
	mu    sync.Mutex
	left  int
	parts []*part
	// exhaustive: all alternatives must be tried, since some part asks for the
	// members that none of them has looked at.
	exhaustive bool
}

// How much a validation may do, in subschemas that are applied to a value: so
// much for each byte of the value, at least, and at most.
const (
	workPerByte = 32
	leastWork   = 16 << 10
	mostWork    = 2 << 20 // a second or two
)

// errTooMuchWork stops a validation. It travels as a panic: the library has no
// other way out.
var errTooMuchWork = errors.New(
	"checking it takes too many steps, since many of the schema's alternatives " +
		"apply to it: make it smaller or less nested")

// run validates a value whose text has that many bytes.
func (w *work) run(full *jsonschema.Schema, value any, size int) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = min(leastWork+workPerByte*size, mostWork)
	return full.Validate(value)
}

func (w *work) spend(n int) {
	if w.left -= n; w.left < 0 {
		panic(errTooMuchWork)
	}
}

// vocabulary puts a part into each subschema that is compiled.
func (w *work) vocabulary() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: "mem:///work",
		Compile: func(ctx *jsonschema.CompilerContext,
			_ map[string]any) (jsonschema.SchemaExt, error) {
			p := &part{work: w, schema: ctx.Enqueue(nil)}
			w.parts = append(w.parts, p)
			return p, nil
		},
	}
}

// takeOver gives each part what the library would do without a bound.
func (w *work) takeOver() {
	for _, p := range w.parts {
		w.exhaustive = w.exhaustive || p.schema.UnevaluatedItems != nil ||
			p.schema.UnevaluatedProperties != nil
		p.takeOver()
	}
}

// part is one subschema's share: the keywords that it took over, and the count.
type part struct {
	work   *work
	schema *jsonschema.Schema

	properties map[string]*jsonschema.Schema
	patterns   map[jsonschema.Regexp]*jsonschema.Schema
	others     any // nil, false or a schema
	names      *jsonschema.Schema
	prefix     []*jsonschema.Schema
	items      any // of what follows the prefix: nil, false or a schema
	contains   *jsonschema.Schema
	content    *jsonschema.Schema
	all, any   []*jsonschema.Schema
	one        []*jsonschema.Schema
}

func (p *part) takeOver() {
	s := p.schema
	p.properties, s.Properties = s.Properties, nil
	p.patterns, s.PatternProperties = s.PatternProperties, nil
	p.others, s.AdditionalProperties = s.AdditionalProperties, nil
	p.names, s.PropertyNames = s.PropertyNames, nil
	p.contains, s.Contains = s.Contains, nil
	p.content, s.ContentSchema = s.ContentSchema, nil
	p.all, s.AllOf = s.AllOf, nil
	p.any, s.AnyOf = s.AnyOf, nil
	p.one, s.OneOf = s.OneOf, nil
	p.prefix, s.PrefixItems = s.PrefixItems, nil
	if s.Items2020 != nil {
		p.items, s.Items2020 = s.Items2020, nil
	}
	switch items := s.Items.(type) { // before 2020
	case []*jsonschema.Schema:
		p.prefix, p.items = items, s.AdditionalItems
	case *jsonschema.Schema:
		p.items = items
	}
	s.Items, s.AdditionalItems = nil, nil
}

// Validate is called by the library for each value that the subschema is
// applied to, unless that fails by its type, an enum, a constant or a format.
// Of such few are tried: they are errors.
func (p *part) Validate(ctx *jsonschema.ValidatorContext, v any) {
	p.work.spend(1)
	switch v := v.(type) {
	case map[string]any:
		p.object(ctx, v)
	case []any:
		p.list(ctx, v)
	case string:
		p.text(ctx, v)
	}
	p.alternatives(ctx, v)
}

// most returns how many errors of one object or list are looked for, by how
// deep it stands: all of them together stay small.
func most(ctx *jsonschema.ValidatorContext) int {
	return max(1, 128>>(len(ctx.ValueLocation())&^1))
}

// apply validates a part of the value, at a step below it. What the schema's
// own part doesn't see is counted here.
func (p *part) apply(
	ctx *jsonschema.ValidatorContext, s *jsonschema.Schema, v any, step string,
) error {
	if s.Enum != nil {
		p.work.spend(len(s.Enum.Values))
	}
	return pruned(ctx, ctx.Validate(s, v, []string{step}))
}

func (p *part) object(ctx *jsonschema.ValidatorContext, o map[string]any) {
	names := p.inOrder(ctx, o)
	var unknown []string
	left := most(ctx)
	for _, name := range names {
		known, faults := p.member(ctx, name, o[name])
		if !known {
			unknown = append(unknown, name)
		}
		if left -= faults; left <= 0 || len(unknown) >= most(ctx) {
			break
		}
	}
	if unknown != nil {
		ctx.AddError(&kind.AdditionalProperties{Properties: unknown})
	}
	p.checkNames(ctx, names)
}

// inOrder lists the names of an object. The order counts only where errors may
// be cut off.
func (p *part) inOrder(ctx *jsonschema.ValidatorContext, o map[string]any) []string {
	if p.properties == nil && p.patterns == nil && p.others == nil && p.names == nil {
		return nil
	}
	if len(o) < most(ctx) {
		return slices.Collect(maps.Keys(o))
	}
	return slices.Sorted(maps.Keys(o))
}

// member applies the schemas for a member of that name, and counts what does
// not fit. Known is false where no such member may be there.
func (p *part) member(
	ctx *jsonschema.ValidatorContext, name string, v any,
) (known bool, faults int) {
	try := func(s *jsonschema.Schema) {
		known = true
		if err := p.apply(ctx, s, v, name); err != nil {
			ctx.AddErr(err)
			faults++
		}
	}
	if s, ok := p.properties[name]; ok {
		try(s)
	}
	for pattern, s := range p.patterns {
		if pattern.MatchString(name) {
			try(s)
		}
	}
	others, isSchema := p.others.(*jsonschema.Schema)
	switch {
	case known:
	case isSchema:
		try(others)
	case p.others == nil:
		return true, 0 // and nothing has looked at it
	case p.others == false:
		return false, 0
	}
	ctx.EvaluatedProp(name)
	return true, faults
}

// checkNames applies the schema for keys. The library would hand out the place
// of the object in a slice that it goes on writing to.
func (p *part) checkNames(ctx *jsonschema.ValidatorContext, names []string) {
	if p.names == nil {
		return
	}
	left := most(ctx)
	for _, name := range names {
		p.work.spend(1)
		var bad *jsonschema.ValidationError
		if errors.As(p.names.Validate(name), &bad) {
			ctx.AddErrors(bad.Causes, &kind.PropertyNames{Property: name})
			left--
		}
		if left <= 0 {
			return
		}
	}
}

func (p *part) list(ctx *jsonschema.ValidatorContext, list []any) {
	rest, isSchema := p.items.(*jsonschema.Schema)
	left := most(ctx)
	for i, v := range list {
		s := rest
		if i < len(p.prefix) {
			s = p.prefix[i]
		} else if !isSchema {
			break
		}
		if err := p.apply(ctx, s, v, strconv.Itoa(i)); err != nil {
			ctx.AddErr(err)
			left--
		}
		if left <= 0 {
			break
		}
	}
	if n := len(list) - len(p.prefix); n > 0 && p.items == false {
		ctx.AddError(&kind.AdditionalItems{Count: n})
	}
	p.checkContains(ctx, list)
}

func (p *part) checkContains(ctx *jsonschema.ValidatorContext, list []any) {
	if p.contains == nil {
		return
	}
	var matched []int
	for i, v := range list {
		p.work.spend(1)
		if p.apply(ctx, p.contains, v, strconv.Itoa(i)) == nil {
			matched = append(matched, i)
			if p.schema.DraftVersion >= 2020 {
				ctx.EvaluatedItem(i)
			}
		}
	}
	switch least := p.schema.MinContains; {
	case least != nil && len(matched) < *least:
		ctx.AddError(&kind.MinContains{Want: *least})
	case least == nil && len(matched) == 0:
		ctx.AddError(&kind.Contains{})
	}
	if limit := p.schema.MaxContains; limit != nil && len(matched) > *limit {
		ctx.AddError(&kind.MaxContains{Got: matched[:*limit+1], Want: *limit})
	}
}

// text validates the content of a string, where the schema describes it. The
// library has refused content that is no JSON.
func (p *part) text(ctx *jsonschema.ValidatorContext, s string) {
	media := p.schema.ContentMediaType
	if p.content == nil || media == nil || media.UnmarshalJSON == nil {
		return
	}
	b := []byte(s)
	if e := p.schema.ContentEncoding; e != nil {
		var err error
		if b, err = e.Decode(s); err != nil {
			return
		}
	}
	v, err := media.UnmarshalJSON(b)
	if err == nil && p.content.Validate(v) != nil {
		ctx.AddError(&kind.ContentSchema{})
	}
}

// alternatives applies the schemas that are about the same value.
func (p *part) alternatives(ctx *jsonschema.ValidatorContext, v any) {
	if errs := p.failures(ctx, p.all, v, func(int) bool { return true }); len(errs) > 0 {
		ctx.AddErrors(errs, &kind.AllOf{})
	}
	if errs := p.failures(ctx, p.any, v, func(fit int) bool {
		return fit == 0 || p.work.exhaustive
	}); len(errs) == len(p.any) && len(p.any) > 0 {
		ctx.AddErrors(errs, &kind.AnyOf{})
	}
	fits := 0
	errs := p.failures(ctx, p.one, v, func(fit int) bool { fits = fit; return fit < 2 })
	switch {
	case len(p.one) > 0 && fits == 0:
		ctx.AddErrors(errs, &kind.OneOf{})
	case fits > 1:
		ctx.AddError(&kind.OneOf{Subschemas: []int{0}})
	}
}

// failures returns the errors of the schemas that the value does not fit. After
// each schema it asks more whether to go on, with the number of those that fit.
func (p *part) failures(
	ctx *jsonschema.ValidatorContext, schemas []*jsonschema.Schema, v any, more func(fit int) bool,
) (errs []*jsonschema.ValidationError) {
	for i, s := range schemas {
		var bad *jsonschema.ValidationError
		if errors.As(pruned(ctx, ctx.Validate(s, v, nil)), &bad) {
			errs = append(errs, bad)
		}
		if !more(i + 1 - len(errs)) {
			break
		}
	}
	return errs
}

// pruned returns an error without the parts that won't be read, so that the
// errors that are kept while the rest is looked at stay small.
func pruned(ctx *jsonschema.ValidatorContext, err error) error {
	bad, ok := err.(*jsonschema.ValidationError) // the library's own
	if !ok {
		return err
	}
	left := 64
	if len(ctx.ValueLocation()) > 8 {
		left = 4
	}
	prune(bad, &left)
	return bad
}

func prune(e *jsonschema.ValidationError, left *int) {
	for i, c := range e.Causes {
		if *left--; *left < 0 && i > 0 {
			e.Causes = e.Causes[:i:i]
			return
		}
		prune(c, left)
	}
}
