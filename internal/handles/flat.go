package handles

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// What a model reads of each action, and of the parameters.
const (
	toldID = "With every action, and only then: the handle's id, which you choose in spawn; " +
		idWords + "."
	toldAnswer = "With apply, and only then: the answer to the handle's question, as text, or as " +
		"JSON where its schema asks for that."
)

// toldInput is what a model reads of the input of a tool that asks questions,
// and of one that doesn't.
var toldInput = map[bool]string{
	true: "With apply, and only then: what to give the running handle; or, where it waits for " +
		"you, the answer to its question, as text, or as JSON where its schema asks for that.",
	false: "With apply, and only then: what to give the running handle.",
}

// flat returns the schema that every provider takes: no parameter is required,
// and the descriptions tell what goes with which action.
func (f *Form) flat(o own, given *jsontree.Object) *jsontree.Object {
	action := text(f.tells(o))
	action.Set("enum", f.actions)
	properties := jsontree.New(actionParameter, action, idParameter, text(toldID))
	if slices.Contains(f.actions, Apply) {
		properties.Set(inputParameter, given)
	}
	properties.Members = append(properties.Members, o.properties.Members...)
	root := jsontree.New("type", "object", "properties", properties)
	o.others(root)
	o.definitions(root)
	return root
}

// tells returns the description of action.
func (f *Form) tells(o own) string {
	var b strings.Builder
	b.WriteString("Leave it out to run the tool and wait for its result. ")
	b.WriteString("spawn: begin it as a handle that goes on while you do something else")
	for _, a := range f.actions[1:] {
		switch a {
		case Fetch:
			b.WriteString("; fetch: show what is new of a handle")
		case Apply:
			b.WriteString("; apply: " + f.toldApply)
		case Abort:
			b.WriteString("; abort: stop it")
		}
	}
	b.WriteByte('.')
	if len(f.own) == 0 {
		return b.String()
	}
	b.WriteString(" The tool's own parameters go with spawn, or with no action")
	if names := o.required(); len(names) > 0 {
		const most = 12
		fmt.Fprintf(&b, "; then required: %s", strings.Join(names[:min(len(names), most)], ", "))
		if n := len(names) - most; n > 0 {
			fmt.Fprintf(&b, " and %d more", n)
		}
	}
	b.WriteByte('.')
	return b.String()
}

// described returns a schema with words before its own description.
func described(s *jsontree.Object, words string) *jsontree.Object {
	if own, ok := s.Text("description"); ok {
		words += " " + own
	}
	s = s.Clone()
	s.Set("description", words)
	return s
}
