package tool

import (
	"cmp"
	"context"
	"encoding/json"
)

// Run runs a tool once, in a unit test of it, as the runner would: it checks
// the arguments, bounds and recovers the tool's function, and checks what that
// returns. The error is a *Refusal if the arguments don't fit; a *PanicError or
// a *TimeoutError; or what the function returned.
//
// A call may be given for what else the function sees: an answer, decisions, a
// Host. Its tool and its arguments are set, and so are its ids and numbers where
// it has none. Nil is the first entry of a call that has no Host.
//
// A pause is an Execution with an Await. A tool that is entered again is run
// with a call that has the answer (the answer to any other pause is the call's
// output, and its tool doesn't run again):
//
//	exec, err = tool.Run(ctx, t, args, &tool.Call{Answer: exec.Await.Answered(payload)})
func Run(ctx context.Context, t Tool, args json.RawMessage, c *Call) (Execution, error) {
	b, err := newBox(Limits{}, []Tool{t})
	if err != nil {
		return Execution{}, err
	}
	var call Call
	if c != nil {
		call = c.Clone()
	}
	call.ID, call.Session = cmp.Or(call.ID, "call-1"), cmp.Or(call.Session, "session-1")
	call.Turn, call.Attempt = cmp.Or(call.Turn, 1), cmp.Or(call.Attempt, 1)
	call.Tool, call.Arguments = b.names[0], args
	return b.run(ctx, call)
}
