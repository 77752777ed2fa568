// Package tools has the tools of the chat that talk to others: one waits for a
// job, one answers at once, one asks a person.
package tools

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fermata-ai/fermata/examples/chat/internal/ci"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

type DeployInput struct {
	Service     string `json:"service"`
	Version     string `json:"version" jsonschema:"description=As tagged,pattern=^v[0-9]"`
	Environment string `json:"environment" jsonschema:"enum=staging,enum=production"`
}

type DeployOutput struct {
	URL     string `json:"url"`
	Seconds int    `json:"seconds"`
}

// Deploy returns a tool that starts a job and then pauses: the job ends long
// after the body has returned.
func Deploy(server, hooks string) tool.Tool {
	return tool.Must(tool.Func(
		tool.Spec{Name: "deploy", Description: "Deploy a service.", Effect: tool.Idempotent,
			MayPause: true},
		func(ctx context.Context, in DeployInput) (tool.Result[DeployOutput], error) {
			call := tool.CallFrom(ctx)
			token := call.Token(tool.PermitComplete, tool.PermitFail, tool.PermitProgress)
			job, err := ci.Start(ctx, server, ci.Order(in), webhook.URL(hooks, token),
				call.IdempotencyKey())
			if err != nil {
				return nil, err
			}
			return tool.Pending[DeployOutput](tool.Await{Key: job, Timeout: time.Hour}), nil
		}))
}

type WeatherInput struct {
	City string `json:"city" jsonschema:"City name"`
}

type WeatherOutput struct {
	TempC float64 `json:"temp_c"`
}

// Weather answers at once.
var Weather = tool.Must(tool.Func(
	tool.Spec{Name: "get_weather", Description: "Current weather for a city.",
		Effect: tool.ReadOnly},
	func(_ context.Context, in WeatherInput) (tool.Result[WeatherOutput], error) {
		return tool.Done(WeatherOutput{TempC: 3.5}), nil
	}))

// Where asks a person. The answer is the tool's output, and must be one of two.
var Where = tool.Must(tool.Func(
	tool.Spec{Name: "ask_environment", Description: "Ask the user where to deploy to.",
		Effect: tool.ReadOnly, MayPause: true,
		Output: json.RawMessage(`{"enum": ["staging", "production"]}`)},
	func(context.Context, struct{}) (tool.Result[string], error) {
		return tool.NeedInput[string]("Where to: staging or production?"), nil
	}))
