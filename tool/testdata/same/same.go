// Package same must compile: see the test that builds it.
package same

import (
	"context"

	"github.com/fermata-ai/fermata/tool"
)

// Tool pauses with its own output type.
func Tool() (tool.Tool, error) {
	return tool.Func(tool.Spec{Name: "same"},
		func(context.Context, struct{}) (tool.Result[int], error) {
			return tool.Pending[int](tool.Await{}), nil
		})
}
