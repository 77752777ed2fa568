package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

type WeatherInput struct {
	City string `json:"city" jsonschema:"City name"`
}

type WeatherOutput struct {
	TempC float64 `json:"temp_c"`
}

// temperature stands for a weather service.
func temperature(_ context.Context, city string) (float64, error) {
	if city != "Oslo" {
		return 0, errors.New("no station there")
	}
	return -3.5, nil
}

// A tool that answers at once. Arguments that don't fit never reach the
// function.
func ExampleFunc() {
	weather := tool.Must(tool.Func(
		tool.Spec{Name: "get_weather", Description: "Current weather for a city.",
			Effect: tool.ReadOnly},
		func(ctx context.Context, in WeatherInput) (tool.Result[WeatherOutput], error) {
			t, err := temperature(ctx, in.City)
			if err != nil {
				return nil, err // the model sees it and may try again
			}
			return tool.Done(WeatherOutput{TempC: t}), nil
		}))

	fmt.Println(string(weather.Spec().Input))
	exec, err := weather.Execute(context.Background(),
		tool.Call{Arguments: json.RawMessage(`{"city":"Oslo"}`)})
	fmt.Println(string(exec.Output), err)
	_, err = weather.Execute(context.Background(),
		tool.Call{Arguments: json.RawMessage(`{"town":"Oslo"}`)})
	fmt.Println(err)
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"City name"}},"required":["city"],"additionalProperties":false}
	// {"temp_c":-3.5} <nil>
	// The arguments do not fit, and get_weather was not run: /city: is required (a string: City name); /town: there is no property "town"; the properties are "city". Correct them and call it again.
}

type DeployInput struct {
	Service string `json:"service"`
}

type DeployOutput struct {
	OK bool `json:"ok"`
}

// startJob stands for an outside system that calls back when it is done.
func startJob(service, token, key string) (id string, err error) { return "job-7", nil }

// A tool that waits for an outside job. What a Resume delivers later is the
// tool's output.
func ExamplePending() {
	deploy := tool.Must(tool.Func(
		tool.Spec{Name: "deploy", Description: "Deploy a service.", Effect: tool.Idempotent,
			MayPause: true},
		func(ctx context.Context, in DeployInput) (tool.Result[DeployOutput], error) {
			call := tool.CallFrom(ctx)
			job, err := startJob(in.Service, call.Token(), call.IdempotencyKey())
			if err != nil {
				return nil, err
			}
			return tool.Pending[DeployOutput](tool.Await{Key: job, Timeout: time.Hour}), nil
		}))

	exec, err := deploy.Execute(context.Background(),
		tool.Call{Arguments: json.RawMessage(`{"service":"checkout"}`)})
	fmt.Println(exec.Await.Key, exec.Await.Timeout, err)
	// Output:
	// job-7 1h0m0s <nil>
}

// A tool that asks a person, whose answer is its output.
func ExampleNeedInput() {
	colour := tool.Must(tool.Func(
		tool.Spec{Name: "ask_colour", Description: "Ask the user for a colour.", MayPause: true},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.NeedInput[string]("Which colour?"), nil
		}))

	exec, err := colour.Execute(context.Background(), tool.Call{})
	fmt.Println(exec.Await.Reason, exec.Await.Prompt, err)
	fmt.Println(string(colour.Spec().Output))
	// Output:
	// input Which colour? <nil>
	// {"type":"string"}
}

type Offers []struct{ Flight, Price string }

type Choice struct {
	Offer int `json:"offer" jsonschema:"Number of the offer, from 0"`
}

type BookInput struct {
	To string `json:"to"`
}

// A tool that asks, then acts. The offers are kept with the question, perhaps
// for days.
func ExampleResumable() {
	which := tool.NewQuestion[string, Offers, Choice]("which")
	book := tool.Must(tool.Resumable(
		tool.Spec{Name: "book_flight", Description: "Book a flight."},
		func(_ context.Context, in BookInput) (tool.Result[string], error) {
			return which.Ask("Which flight to "+in.To+"?",
				Offers{{"SK1", "100 EUR"}, {"DY2", "80 EUR"}}), nil
		},
		tool.On(which, func(_ context.Context, in BookInput,
			re tool.Reply[Offers, Choice]) (tool.Result[string], error) {
			if o := re.Answer.Offer; o < 0 || o >= len(re.State) {
				return which.Ask("No such offer. Which flight?", re.State), nil
			}
			return tool.Done("booked " + re.State[re.Answer.Offer].Flight), nil
		})))

	call := tool.Call{Arguments: json.RawMessage(`{"to":"Oslo"}`)}
	exec, _ := book.Execute(context.Background(), call)
	fmt.Println(exec.Await.Prompt, string(exec.Await.Data))

	call.Answer = exec.Await.Answered(json.RawMessage(`{"offer":1}`))
	exec, err := book.Execute(context.Background(), call)
	fmt.Println(string(exec.Output), err)
	// Output:
	// Which flight to Oslo? [{"Flight":"SK1","Price":"100 EUR"},{"Flight":"DY2","Price":"80 EUR"}]
	// "booked DY2" <nil>
}

// logged is a decorator. It embeds the tool, and so keeps all its hints.
type logged struct{ tool.Tool }

func (l logged) Execute(ctx context.Context, call tool.Call) (tool.Execution, error) {
	fmt.Println("calling", l.Spec().Name)
	return l.Tool.Execute(ctx, call)
}

func (l logged) Unwrap() tool.Tool { return l.Tool }

// priced is an optional interface of some tools.
type priced interface{ Price() int }

type freeTool struct{ tool.Tool }

func (freeTool) Price() int { return 0 }

func ExampleAs() {
	echo := tool.Must(tool.Func(tool.Spec{Name: "echo", Effect: tool.ReadOnly},
		func(_ context.Context, s string) (tool.Result[string], error) {
			return tool.Done(s), nil
		}))

	t := logged{freeTool{echo}}
	p, ok := tool.As[priced](t)
	fmt.Println(t.Spec().Effect, ok, p.Price())
	exec, err := t.Execute(context.Background(),
		tool.Call{Arguments: json.RawMessage(`{"value":"hi"}`)})
	fmt.Println(string(exec.Output), err)
	// Output:
	// read_only true 0
	// calling echo
	// "hi" <nil>
}

// refund is a tool's function, tested by itself.
func refund(ctx context.Context, cents int) (tool.Result[string], error) {
	return tool.Done(fmt.Sprintf("refunded %d under %s",
		cents, tool.CallFrom(ctx).IdempotencyKey())), nil
}

func ExampleWithCall() {
	ctx := tool.WithCall(context.Background(), tool.Call{ID: "call-1"})
	r, err := refund(ctx, 500)
	fmt.Println(r == tool.Done("refunded 500 under call-1.0"), err)
	// Output:
	// true <nil>
}

// A server that offers tools by a protocol of its own lists them, and runs
// calls of them. The text of a refusal is for the model: it tells why a call
// was not run.
func ExampleRegistry() {
	echo := tool.Must(tool.Func(tool.Spec{Name: "echo", Description: "Say it again."},
		func(_ context.Context, s string) (tool.Result[string], error) {
			return tool.Done(s), nil
		}))
	tools, err := tool.NewRegistry([]tool.Tool{echo}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range tools.Defs() {
		fmt.Println(d.Name+":", d.Description)
	}
	for _, call := range []tool.Call{
		{Tool: "echo", Arguments: json.RawMessage(`{"value":"hi"}`)},
		{Tool: "echo", Arguments: json.RawMessage(`{"value":3}`)},
		{Tool: "ecco"},
	} {
		exec, err := tools.Run(context.Background(), call)
		var refused *tool.Refusal
		switch {
		case errors.As(err, &refused):
			fmt.Println(refused.Kind, refused.Text)
		case err != nil:
			fmt.Println("failed:", err)
		default:
			fmt.Println(string(exec.Output))
		}
	}
	// Output:
	// echo: Say it again.
	// "hi"
	// invalid_arguments The arguments do not fit, and echo was not run: /value: must be a string, got 3. Correct them and call it again.
	// unknown_tool There is no tool "ecco", and nothing was run. Did you mean echo? The tools are: echo.
}

// A unit test of a tool runs it as the runner would: once for what it asks, and
// once more with the answer.
func ExampleRun() {
	which := tool.NewQuestion[string, int, string]("which")
	rename := tool.Must(tool.Resumable(tool.Spec{Name: "rename"},
		func(_ context.Context, old string) (tool.Result[string], error) {
			return which.Ask("What is the new name of "+old+"?", len(old)), nil
		},
		tool.On(which, func(_ context.Context, old string,
			re tool.Reply[int, string]) (tool.Result[string], error) {
			return tool.Done(old + " is now " + re.Answer), nil
		})))
	ctx, args := context.Background(), json.RawMessage(`{"value":"a.txt"}`)

	_, err := tool.Run(ctx, rename, json.RawMessage(`{"name":"a.txt"}`), nil)
	fmt.Println(err)
	asked, err := tool.Run(ctx, rename, args, nil)
	fmt.Println(asked.Await.Prompt, err)
	done, err := tool.Run(ctx, rename, args, &tool.Call{
		Answer: asked.Await.Answered(json.RawMessage(`"b.txt"`))})
	fmt.Println(string(done.Output), err)
	// Output:
	// The arguments do not fit, and rename was not run: /name: there is no property "name"; the properties are "value"; /value: is required (a string). Correct them and call it again.
	// What is the new name of a.txt? <nil>
	// "a.txt is now b.txt" <nil>
}

// A tool shows the model a picture beside its result, and hands the caller a
// file that the model never sees.
func ExampleWith() {
	chart := tool.Must(tool.Func(
		tool.Spec{Name: "chart", Description: "Draw the load of a service.", Effect: tool.ReadOnly},
		func(_ context.Context, in struct {
			Service string `json:"service"`
		}) (tool.Result[string], error) {
			png, csv := []byte("\x89PNG..."), []byte("at,load\n")
			return tool.With(tool.Done("the load of "+in.Service),
				tool.Action{Media: &llm.Media{MediaType: "image/png", Name: "load.png", Data: png}},
				tool.Action{Artifact: &tool.Artifact{MediaType: "text/csv", Name: "load.csv",
					Data: csv}}), nil
		}))
	exec, err := chart.Execute(context.Background(),
		tool.Call{Arguments: json.RawMessage(`{"service":"checkout"}`)})
	fmt.Println(string(exec.Output), exec.Actions[0].Media.Name, exec.Actions[1].Artifact.Name, err)
	// Output: "the load of checkout" load.png load.csv <nil>
}
