// Package handles is what models and tools say to each other about handles: the
// schemas that a model is told, its calls, and the replies and texts that it
// reads.
//
// A handle is a tool's call that goes on while the model does something else.
// The model names it, looks at it, gives it input, and stops it. Package
// tool/handle makes tools of that kind, and the runner drives them. Both use
// this package, which knows neither: it stores nothing, and looks at no clock.
//
// What a model or a tool wrote is bounded wherever it stands in a text of this
// package, and quoted where it could be taken for words of the runtime.
package handles

// Where things are:
//
//   - what a model is told of a tool: form.go, flat.go, exact.go
//   - what it calls: parse.go, actions.go, id.go, faults.go
//   - what it reads of a handle: reply.go, refusals.go; produced.go (what is
//     new), cut.go (head and tail), bounded.go (what is kept)
//   - the tool await: await.go, awaited.go, share.go
//   - what the runtime tells a model by itself: guidance.go, inquiry.go,
//     notice.go

import (
	"encoding/json"
	"errors"

	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/tool/misfit"
)

// members returns the members of an object that a model wrote. The error is a
// *misfit.Error.
func members(text json.RawMessage) ([]strictjson.RawMember, error) {
	if schema.IsNull(text) {
		return nil, nil
	}
	doc, err := strictjson.Parse(text, strictjson.Strict(true))
	if err != nil {
		return nil, notStrict(err)
	}
	if _, ok := doc.Root.(strictjson.Object); !ok {
		return nil, misfit.Of("type", "the arguments must be an object")
	}
	var all []strictjson.RawMember
	err = strictjson.Walk([]byte(doc.Text), func(c *strictjson.Cursor) (err error) {
		all, _, err = c.Members(nil)
		return err
	})
	if err != nil {
		return nil, notStrict(err)
	}
	return all, nil
}

func notStrict(err error) error {
	f := misfit.Fault{Rule: "json", Message: "it is no valid JSON: " + err.Error()}
	if s, ok := errors.AsType[*strictjson.SyntaxError](err); ok {
		f.Path = schema.Pointer(s.Path)
	}
	return &misfit.Error{Faults: []misfit.Fault{f}}
}
