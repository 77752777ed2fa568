// Command layer puts a layer of one's own around tool calls: no deployments to
// production while there is a freeze, and a line in the audit log for each call
// that gets through.
//
//	go run ./examples/layer
//
// It prints:
//
//	model calls: deploy {"service":"cart","environment":"production"}
//	call ends: denied: "The call was refused, and the tool was not run. Do not try again unless you are told to. Reason: production is frozen until Monday"
//	model calls: deploy {"service":"cart","environment":"staging"}
//	audit: ada calls deploy {"service":"cart","environment":"staging"}, error: <nil>
//	call ends: done: "cart runs on staging"
//	model says: It runs on staging. On Monday I can deploy it to production.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

type DeployInput struct {
	Service     string `json:"service"`
	Environment string `json:"environment" jsonschema:"enum=staging,enum=production"`
}

var deploy = tool.Must(tool.Func(
	tool.Spec{Name: "deploy", Description: "Deploy a service.", Effect: tool.Idempotent},
	func(_ context.Context, in DeployInput) (tool.Result[string], error) {
		return tool.Done(in.Service + " runs on " + in.Environment), nil
	}))

// freeze denies what it doesn't let through. The model reads the reason.
func freeze(next interceptor.ToolHandler) interceptor.ToolHandler {
	return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
		var in DeployInput
		if err := json.Unmarshal(call.Arguments, &in); err != nil {
			return tool.Execution{}, err
		}
		if in.Environment == "production" {
			return tool.Execution{}, tool.Denied("production is frozen until Monday")
		}
		return next(ctx, call)
	}
}

// audit sees each call that gets through, and how it ended. A layer may run
// again for the same call, after a pause or a crash: it must be repeatable.
func audit(next interceptor.ToolHandler) interceptor.ToolHandler {
	return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
		exec, err := next(ctx, call)
		fmt.Printf("audit: %s calls %s %s, error: %v\n", call.User, call.Tool, call.Arguments, err)
		return exec, err
	}
}

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("deploy", `{"service":"cart","environment":"production"}`),
	fakellm.Calls("deploy", `{"service":"cart","environment":"staging"}`),
	fakellm.Says("It runs on staging. On Monday I can deploy it to production."))

func main() {
	ctx := context.Background()
	ag, err := agent.New(agent.Config{
		Name: "ops", Model: model, Tools: []tool.Tool{deploy},
		// The first is the outermost. Names are durable: they key what a layer decided.
		Interceptors: interceptor.Chain{
			{Name: "freeze", Tools: []string{"deploy"}, Tool: freeze},
			{Name: "audit", Tool: audit},
		},
	})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	for ev, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText("Deploy the cart."), nil) {
		check(err)
		switch ev := ev.(type) {
		case event.Call:
			fmt.Println("model calls:", ev.Call.Name, string(ev.Call.Arguments))
		case event.Result:
			fmt.Printf("call ends: %s: %s\n", ev.Status, ev.Result.Output)
		case event.TextDelta:
			fmt.Println("model says:", ev.Delta)
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
