// Package other must not compile: see the test that builds it.
package other

import (
	"context"

	"github.com/fermata-ai/fermata/tool"
)

// Tool pauses with an output type that is not its own.
func Tool() (tool.Tool, error) {
	return tool.Func(tool.Spec{Name: "other"},
		func(context.Context, struct{}) (tool.Result[int], error) {
			return tool.Pending[string](tool.Await{}), nil
		})
}
