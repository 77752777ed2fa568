package httpapi_test

import (
	"bytes"
	"os"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var agSchema = sync.OnceValues(func() (*jsonschema.Compiler, error) {
	text, err := os.ReadFile("internal/agui/testdata/agui-1.0.json")
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	return c, c.AddResource("agui.json", doc)
})

var agCompiling sync.Mutex

// agValid returns why a text has not the protocol's form.
func agValid(form string, text []byte) error {
	agCompiling.Lock()
	defer agCompiling.Unlock()
	c, err := agSchema()
	if err != nil {
		return err
	}
	s, err := c.Compile("agui.json#/$defs/" + form)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}
