package runner_test

import (
	"context"

	"github.com/fermata-ai/fermata/tool"
)

// heldUp is a tool that tells when its body is entered, and returns once it is
// let.
func heldUp(name, says string) (t tool.Tool, entered, let chan struct{}) {
	entered, let = make(chan struct{}), make(chan struct{})
	return does(tool.Spec{Name: name}, func(context.Context, string) (tool.Result[textOut], error) {
		close(entered)
		<-let
		return tool.Done(textOut{says}), nil
	}), entered, let
}

// stuck is a tool that tells when its body is entered, which ends only with its
// context. Asked what became of the call, which c counts, it says "done once".
func stuck(name string, c *counter) (t tool.Tool, entered chan struct{}) {
	entered = make(chan struct{})
	reconcile := func(context.Context, tool.Call) (tool.Execution, error) {
		c.add("asked")
		return tool.Execution{Output: text("done once")}, nil
	}
	return does(tool.Spec{Name: name, Reconcile: reconcile},
		func(ctx context.Context, _ string) (tool.Result[textOut], error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		}), entered
}
