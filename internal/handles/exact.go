package handles

import (
	"github.com/fermata-ai/fermata/internal/jsontree"
)

// exact returns the schema that has each variant of a call by itself: one for
// each action, and one without.
func (f *Form) exact(o own, given *jsontree.Object) *jsontree.Object {
	var variants []any
	for _, a := range f.actions {
		v := variant(a)
		switch a {
		case Spawn:
			v.with(o)
		case Apply:
			v.words = "To a handle: " + f.toldApply + "."
			v.add(inputParameter, given)
		}
		variants = append(variants, v.schema())
	}
	oneShot := &fields{properties: &jsontree.Object{},
		words: "Run the tool, and wait for its result."}
	if oneShot.with(o); f.open {
		oneShot.properties.Set(actionParameter, jsontree.New("not", &jsontree.Object{}))
	}
	variants = append(variants, oneShot.schema())
	root := jsontree.New("type", "object", "oneOf", variants)
	o.definitions(root)
	return root
}

// fields are those of one variant.
type fields struct {
	words      string
	properties *jsontree.Object
	required   []string
	others     *own // nil: there are no other properties
}

var wordsOf = map[Action]string{
	Spawn: "Begin a handle that goes on while you do something else.",
	Fetch: "Show what is new of a handle.",
	Abort: "Stop a handle.",
}

func variant(a Action) *fields {
	id := text("The handle's id.")
	if a == Spawn {
		id = text("The handle's id, which you choose: " + idWords + ".")
	}
	id.Set("pattern", idPattern)
	v := &fields{words: wordsOf[a], properties: &jsontree.Object{}}
	v.add(actionParameter, jsontree.New("type", "string", "const", a))
	v.add(idParameter, id)
	return v
}

func (v *fields) add(name string, s *jsontree.Object) {
	v.properties.Set(name, s)
	v.required = append(v.required, name)
}

// with adds the tool's own properties.
func (v *fields) with(o own) {
	v.properties.Members = append(v.properties.Members, o.properties.Members...)
	v.required = append(v.required, o.required()...)
	v.others = &o
}

func (v *fields) schema() *jsontree.Object {
	s := jsontree.New("type", "object", "description", v.words, "properties", v.properties)
	if len(v.required) > 0 {
		s.Set("required", v.required)
	}
	if v.others == nil {
		s.Set("additionalProperties", false)
	} else {
		v.others.others(s)
	}
	return s
}
