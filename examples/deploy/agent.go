package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/examples/internal/stage"
	"github.com/fermata-ai/fermata/examples/internal/standin"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
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

// deploy starts a job that ends long after this function has returned, and says so.
func deploy(ci, hooks string) tool.Tool {
	return tool.Must(tool.Func(
		tool.Spec{Name: "deploy", Description: "Deploy a service.", Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, in DeployInput) (tool.Result[DeployOutput], error) {
			call := tool.CallFrom(ctx)
			job, err := startJob(ctx, ci, in, webhook.URL(hooks, call.Token()), call.IdempotencyKey())
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

// weather answers at once.
var weather = tool.Must(tool.Func(
	tool.Spec{Name: "get_weather", Description: "Current weather for a city.", Effect: tool.ReadOnly},
	func(_ context.Context, in WeatherInput) (tool.Result[WeatherOutput], error) {
		return tool.Done(WeatherOutput{TempC: 3.5}), nil
	}))

// where asks a person. The answer is the tool's output, and must be one of two.
var where = tool.Must(tool.Func(
	tool.Spec{Name: "ask_environment", Description: "Ask the user where to deploy to.", Effect: tool.ReadOnly, MayPause: true,
		Output: json.RawMessage(`{"enum": ["staging", "production"]}`)},
	func(context.Context, struct{}) (tool.Result[string], error) {
		return tool.NeedInput[string]("Where to: staging or production?"), nil
	}))

// open opens the store, and makes a runner for the agent on it: what each process does that has to do with the agent.
func open(args []string) (rn *runner.Runner, closeAll func()) {
	ag := stage.Must(agent.New(agent.Config{
		Name: "ops", Model: standin.Deployer, Tools: []tool.Tool{deploy(args[1], args[2]), weather, where},
	}))
	db := stage.Must(bolt.Open(args[0], nil))
	rn = stage.Must(runner.New(ag, session.NewStore(db, nil), nil))
	return rn, func() { stage.Check(rn.Close()); stage.Check(db.Close()) }
}
