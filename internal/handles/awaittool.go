package handles

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/fermata-ai/fermata/tool"
)

// MaxReply is how many bytes a reply of await has at most; fetch has the rest.
const MaxReply = 64 << 10

// awaitTool waits for handles.
type awaitTool struct{ spec tool.Spec }

// NewAwait returns the tool by which a model waits for handles.
func NewAwait() tool.Tool { return &awaitTool{AwaitSpec()} }

func (t *awaitTool) Spec() tool.Spec { return t.spec }

// Awaits names the handles of a call, for the runner. Arguments that can't be
// read name none, and are refused when the call is entered.
func (t *awaitTool) Awaits(arguments json.RawMessage) []string {
	a, err := ParseAwait(arguments)
	if err != nil {
		return nil
	}
	return a.IDs()
}

// Acts tells the runner that a call is none that layers are asked about.
func (t *awaitTool) Acts(json.RawMessage) (action, handle string) { return AwaitTool, "" }

// Execute waits, or tells what has come.
func (t *awaitTool) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	want, err := ParseAwait(c.Arguments)
	if err != nil {
		return tool.Execution{}, err
	}
	host, err := c.Handles()
	if err != nil {
		return tool.Execution{}, err
	}
	replies := make([]Reply, 0, len(want.IDs()))
	stopped := map[string]bool{}
	asked := false // the model, which can answer only after this call
	var untold []tool.HandleEnd
	for _, id := range want.IDs() {
		h, err := host.Handle(ctx, c, id)
		if err != nil {
			return tool.Execution{}, Missing(ctx, host, c, id, err)
		}
		r, _ := Standing(&h, false, 0)
		r.Content = "" // fetch has it, and notes what it has told
		if stopped[id] = r.State == tool.HandleStopped; stopped[id] && !h.Told {
			untold = append(untold, tool.HandleEnd{Name: id, Child: h.Session})
		}
		asked = asked || r.Question != nil && r.Question.For == Assistant
		replies = append(replies, r)
	}
	all := Group(replies)
	met := met(&want, stopped)
	if a := c.Answer; a != nil {
		if !met && !asked && !a.TimedOut && !a.Interrupted && !want.Bounded {
			// A question has ended the wait that was answered before it was told of.
			return tool.Execution{Await: wait(&want)}, nil
		}
		// What ends at that instant, or before the tool is entered, has come.
		all.TimedOut, all.Interrupted = a.TimedOut && !met, a.Interrupted
	} else if !met && !asked || len(untold) > tool.MaxEnds {
		// So many ends are noted while the await registers.
		if !want.Bounded || want.Timeout > 0 {
			return tool.Execution{Await: wait(&want)}, nil
		}
		all.TimedOut = !met && !asked
	}
	if all, err = all.Within(min(MaxReply, c.ResultLimit())); err != nil {
		return tool.Execution{}, err
	}
	out, err := all.MarshalJSON()
	return tool.Execution{Output: out, Handle: &tool.HandleStep{Ends: untold}}, err
}

// met reports whether nothing is left to wait for.
func met(a *Await, stopped map[string]bool) bool {
	for _, id := range a.All {
		if !stopped[id] {
			return false
		}
	}
	for _, id := range a.Any {
		if stopped[id] {
			return true
		}
	}
	return len(a.Any) == 0
}

// wait returns the pause of an await.
func wait(a *Await) *tool.Await {
	w := &tool.Await{Reason: tool.ReasonHandles,
		Handles: &tool.HandleWait{All: a.All, Any: a.Any}}
	if a.Bounded {
		w.Timeout, w.OnTimeout = a.Timeout, tool.ReenterOnTimeout
	}
	return w
}

// Missing is the error of a handle that isn't there, for a model. Any other
// error it returns as it is.
func Missing(ctx context.Context, host tool.Handles, c tool.Call, id string, err error) error {
	if !errors.Is(err, tool.ErrUnknownHandle) {
		return err
	}
	names, listed := host.Names(ctx, c)
	if listed != nil {
		return errors.Join(err, listed)
	}
	return errors.New(NotFound(id, names))
}
