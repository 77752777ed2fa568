package wait

import (
	"context"
	"encoding/json"

	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/tool"
)

// complete ends a handle.
type complete struct{ base }

type completeInput struct {
	ID     string          `json:"handleId"`
	Result json.RawMessage `json:"result"`
	Error  *string         `json:"error"`
}

// Acts tells the runner which handle a call ends: it comes after the call of its
// turn that makes the handle.
func (t *complete) Acts(arguments json.RawMessage) (action, handle string) {
	return waits.ActionComplete, idOf(arguments)
}

// Execute ends the handle.
func (t *complete) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	in, err := input[completeInput](c)
	if err != nil {
		return tool.Execution{}, err
	}
	// A result of null is one, where no error stands beside it.
	has := len(in.Result) > 0 && (string(in.Result) != "null" || in.Error == nil)
	switch {
	case has && in.Error != nil:
		return tool.Execution{}, waits.Errorf("There are result and error: give one of them.")
	case !has && in.Error == nil:
		return tool.Execution{}, waits.Errorf("There is neither result nor error: give one of them.")
	case in.Error != nil && *in.Error == "":
		return tool.Execution{}, waits.Errorf("error is empty: tell why it has failed.")
	}
	end := waits.End{Result: in.Result}
	if in.Error != nil {
		end = waits.End{Error: *in.Error}
	}
	host, err := waits.HostOf(c)
	if err != nil {
		return tool.Execution{}, err
	}
	w, err := host.CompleteWait(ctx, c, t.config.Scope, in.ID, end)
	if err != nil {
		return tool.Execution{}, worded(err)
	}
	exec, err := reply(waits.EndedBy(&w))
	exec.Handle = told(&w)
	return exec, err
}
