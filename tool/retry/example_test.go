package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/retry"
)

// A service is overloaded, and says for how long. The call waits in the store
// until then.
func Example() {
	type Order struct {
		Item string `json:"item"`
	}
	buy := tool.Must(tool.Func(
		tool.Spec{Name: "buy", Description: "Buy an item.", Effect: tool.Idempotent},
		func(ctx context.Context, in Order) (tool.Result[string], error) {
			call := tool.CallFrom(ctx)
			if call.Tried.Count == 0 {
				return nil, retry.After(time.Minute, errors.New("the shop is full"))
			}
			// The key is that of the first try, too.
			return tool.Done(in.Item + " is bought under " + call.IdempotencyKey()), nil
		}))
	buy = tool.Must(retry.Tool(buy, &retry.Policy{Tries: 10, Max: time.Hour, Jitter: -1}))

	ctx, order := context.Background(), json.RawMessage(`{"item":"a lamp"}`)
	exec, err := tool.Run(ctx, buy, order, nil)
	fmt.Println(exec.Await.Prompt, exec.Await.Timeout, err)
	exec, err = tool.Run(ctx, buy, order, &tool.Call{Tried: tool.Tried{Count: 1}})
	fmt.Println(string(exec.Output), err)
	// Output:
	// Try 1 of 10 failed, and the next one begins by itself: the shop is full 1m0s <nil>
	// "a lamp is bought under call-1.0" <nil>
}
