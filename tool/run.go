package tool

import (
	"context"
	"encoding/json"
)

// Run runs a tool once, in a unit test of it, as the runner would: it checks
// the arguments, bounds and recovers the tool's function, and checks what that
// returns. The error is a *Refusal if the arguments don't fit; a *PanicError or
// a *TimeoutError; or what the function returned.
//
// A call may be given for what else the function sees: an answer, decisions, a
// Host. Its tool and its arguments are set. Nil is the first entry of a call
// that has no Host.
//
// A pause is an Execution with an Await. To go on, run the tool again with a
// call that has the answer:
//
//	exec, err = tool.Run(ctx, t, args, &tool.Call{Answer: &tool.Answer{
//		Pause: 1, Payload: payload, Data: exec.Await.Data}})
func Run(ctx context.Context, t Tool, args json.RawMessage, c *Call) (Execution, error) {
	b, err := newBox(Limits{}, []Tool{t})
	if err != nil {
		return Execution{}, err
	}
	call := Call{ID: "call-1", Session: "session-1", Turn: 1, Attempt: 1}
	if c != nil {
		call = c.Clone()
	}
	call.Tool, call.Arguments = b.names[0], args
	return b.run(ctx, call)
}
