package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/tool"
)

// A result that is nested so deep that no message could hold it, be it a tool's or a layer's, is the call's error, and the session goes on.
func TestDeepResults(t *testing.T) {
	for _, by := range []string{"tool", "layer"} {
		for _, depth := range []int{1000, 1001, 9998, 10000} {
			t.Run(fmt.Sprint(by, " ", depth), func(t *testing.T) {
				deep := json.RawMessage(strings.Repeat("[", depth) + `"[[{"` + strings.Repeat("]", depth))
				c := oneCall(tool.Must(tool.Func(tool.Spec{Name: "dig", Description: "Digs."},
					func(context.Context, textIn) (tool.Result[any], error) {
						if by == "tool" {
							return tool.Done[any](deep), nil
						}
						return tool.Done[any](1), nil
					})))
				if by == "layer" {
					c.Interceptors = interceptor.Chain{toolLayer("deepen",
						func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
							exec, err := next(ctx, c)
							exec.Output = deep
							return exec, err
						})}
				}
				r := newRig(t, c, &rigOptions{memory: true})
				r.say("Go.").finished(event.FinishStop)
				r.restart()
				call := r.transcript().History[1].ToolCalls()[0].ID
				if res := r.result(call); res.Error != (depth > 1000) || res.Error && !strings.Contains(string(res.Output), "nested more than 1000 deep") {
					t.Errorf("the result is %.100s", res.Output)
				}
				r.acceptable()
			})
		}
	}
}
