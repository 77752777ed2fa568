// Command decorator wraps a tool: the wrapper counts calls and retries one that
// failed. It keeps every hint of the tool that it wraps.
//
//	go run ./examples/decorator
//
// It prints:
//
//	again: it failed: the station doesn't answer
//	model reads: {"temp_c":3.5}
//	model says: It has 3.5 degrees in Oslo.
//	body was entered 2 times
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

type WeatherInput struct {
	City string `json:"city" jsonschema:"City name"`
}

type WeatherOutput struct {
	TempC float64 `json:"temp_c"`
}

var tries int

// weather fails the first time.
var weather = tool.Must(tool.Func(
	tool.Spec{
		Name: "get_weather", Description: "Current weather for a city.",
		Effect: tool.ReadOnly,
	},
	func(context.Context, WeatherInput) (tool.Result[WeatherOutput], error) {
		if tries++; tries == 1 {
			return nil, errors.New("the station doesn't answer")
		}
		return tool.Done(WeatherOutput{TempC: 3.5}), nil
	}))

// again is a decorator. It embeds the tool, and so has the tool's Spec.
type again struct{ tool.Tool }

func (a again) Execute(ctx context.Context, call tool.Call) (tool.Execution, error) {
	exec, err := a.Tool.Execute(ctx, call)
	if err != nil && a.Spec().Effect == tool.ReadOnly { // never repeat what changes something
		fmt.Println("again: it failed:", err)
		exec, err = a.Tool.Execute(ctx, call)
	}
	return exec, err
}

// Unwrap lets tool.As look through the decorator.
func (a again) Unwrap() tool.Tool { return a.Tool }

// counted is another decorator, with a method of its own.
type counted struct {
	tool.Tool
	calls *int
}

func (c counted) Execute(ctx context.Context, call tool.Call) (tool.Execution, error) {
	*c.calls++
	return c.Tool.Execute(ctx, call)
}

func (c counted) Unwrap() tool.Tool { return c.Tool }

func (c counted) Calls() int { return *c.calls }

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("get_weather", `{"city":"Oslo"}`),
	fakellm.Says("It has 3.5 degrees in Oslo."))

func main() {
	ctx := context.Background()
	wrapped := again{counted{weather, new(int)}}
	ag, err := agent.New(agent.Config{Name: "guide", Model: model, Tools: []tool.Tool{wrapped}})
	check(err)
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	rn, err := runner.New(ag, session.NewStore(kv, nil), nil)
	check(err)
	defer rn.Close()

	for ev, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText("Is it cold in Oslo?"), nil) {
		check(err)
		switch ev := ev.(type) {
		case event.Result:
			fmt.Println("model reads:", string(ev.Result.Output))
		case event.TextDelta:
			fmt.Println("model says:", ev.Delta)
		}
	}

	// As finds what a tool, or one that it wraps, can do.
	if c, ok := tool.As[interface{ Calls() int }](wrapped); ok {
		fmt.Println("body was entered", c.Calls(), "times")
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
