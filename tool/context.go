package tool

import "context"

type callKey struct{}

// callContext is a context that knows its call.
type callContext struct {
	context.Context
	call Call
}

func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return &c.call
	}
	return c.Context.Value(key)
}

// WithCall returns a context for a tool's function. [Run] and the runner do
// this; a test of a function may, too.
func WithCall(ctx context.Context, c Call) context.Context {
	return &callContext{ctx, c}
}

// CallFrom returns a copy of the call that ctx was made for: the zero Call
// outside of one.
func CallFrom(ctx context.Context) Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c.Clone()
	}
	return Call{}
}
