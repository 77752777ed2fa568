package schema

import (
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/jsontree"
)

// Member returns the schema of an object that has one member, which fits a
// schema; without a schema it is a text. Providers take objects alone.
func Member(name string, of json.RawMessage) (json.RawMessage, error) {
	member := jsontree.New("type", "string")
	root := jsontree.New("type", "object")
	if !IsNull(of) {
		var err error
		if member, err = ParseNode(of); err != nil {
			return nil, err
		}
		if defs, ok := member.Get("$defs"); ok { // references begin at the root
			root.Set("$defs", defs)
			member.Delete("$defs")
		}
	}
	root.Set("properties", jsontree.New(name, member))
	root.Set("required", []string{name})
	root.Set("additionalProperties", false)
	return root.Raw(), nil
}
