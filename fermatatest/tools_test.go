package fermatatest_test

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// The tools of the scenarios take a text, and return one.
type (
	textIn struct {
		Text string `json:"text"`
	}
	textOut struct {
		Text string `json:"text"`
	}
)

func text(s string) json.RawMessage {
	b, _ := json.Marshal(textOut{s})
	return b
}

func fn(s tool.Spec, f func(context.Context, textIn) (tool.Result[textOut], error)) tool.Tool {
	s.Description = "One of a scenario."
	return tool.Must(tool.Func(s, f))
}

// instant answers at once.
func instant(name string, e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: name, Effect: e},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			return tool.Done(textOut{"done: " + in.Text}), nil
		})
}

// waiting waits for an outside job, an hour at most.
func waiting(name string, e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: name, Effect: e, MayPause: true},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			return tool.Pending[textOut](tool.Await{Key: in.Text, Timeout: time.Hour}), nil
		})
}

// scanning shows the model a picture, asks, and shows another one.
func scanning(name string, e tool.Effect) tool.Tool {
	picture := func(name string, size int) tool.Action {
		return tool.Action{
			Media: &llm.Media{MediaType: "image/png", Name: name, Data: make([]byte, size)}}
	}
	file := tool.Action{
		Artifact: &tool.Artifact{Name: "raw", MediaType: "text/plain", Data: []byte("raw")}}
	which := tool.NewQuestion[textOut, int, bool]("which")
	return tool.Must(
		tool.Resumable(tool.Spec{Name: name, Description: "One of a scenario.", Effect: e},
			func(_ context.Context, in textIn) (tool.Result[textOut], error) {
				return tool.With(which.Ask("Turned?", 1), picture("one", 3000), file), nil
			},
			tool.On(which, func(_ context.Context, in textIn,
				re tool.Reply[int, bool]) (tool.Result[textOut], error) {
				return tool.With(tool.Done(textOut(in)), picture("two", 5)), nil
			})))
}

// asking asks a person.
func asking(name string, e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: name, Effect: e, MayPause: true},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			return tool.NeedInput[textOut](in.Text + "?"), nil
		})
}

// patient asks a person, and goes on by itself where no answer comes.
func patient(e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: "wonder", Effect: e, MayPause: true},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			switch a := tool.CallFrom(ctx).Answer; {
			case a == nil:
				return tool.Pending[textOut](tool.Await{Prompt: in.Text + "?", Timeout: time.Hour,
					OnTimeout: tool.ReenterOnTimeout}), nil
			case a.TimedOut:
				return tool.Done(textOut{"nobody knows"}), nil
			}
			return nil, errors.New("it was entered with an answer")
		})
}

// endless runs until it is told to end.
func endless(name string, e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: name, Effect: e},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
}

// haggle asks for an offer until it is good enough.
func haggle(e tool.Effect) tool.Tool {
	type state struct{ Asked int }
	which := tool.NewQuestion[textOut, state, int]("which")
	return tool.Must(
		tool.Resumable(
			tool.Spec{Name: "haggle", Description: "Asks until it likes the answer.", Effect: e},
			func(_ context.Context, in textIn) (tool.Result[textOut], error) {
				return which.Ask("What do you offer for the "+in.Text+"?", state{1}), nil
			},
			tool.On(which, func(_ context.Context, in textIn,
				re tool.Reply[state, int]) (tool.Result[textOut], error) {
				if re.Answer < 10 {
					return which.Ask("More!", state{re.State.Asked + 1}), nil
				}
				return tool.Done(textOut{in.Text + " is yours"}), nil
			})))
}

// sleep waits for time to pass.
func sleep(e tool.Effect) tool.Tool { return sleeper{e} }

type sleeper struct{ effect tool.Effect }

func (s sleeper) Spec() tool.Spec {
	return tool.Spec{Name: "sleep", Description: "Sleeps.", Effect: s.effect, MayPause: true,
		Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)}
}

func (s sleeper) Execute(_ context.Context, call tool.Call) (tool.Execution, error) {
	if call.Answer != nil {
		return tool.Execution{Output: json.RawMessage(`"awake"`)}, nil
	}
	return tool.Execution{
		Await: &tool.Await{Reason: tool.ReasonTimer, Timeout: 10 * time.Minute}}, nil
}

// reporting reports its progress before it waits.
func reporting(e tool.Effect) tool.Tool {
	return fn(tool.Spec{Name: "report", Effect: e, MayPause: true},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			if err := tool.CallFrom(ctx).Report(ctx, tool.Progress{Message: "begun"}); err != nil {
				return nil, err
			}
			return tool.Pending[textOut](tool.Await{Key: in.Text}), nil
		})
}

// talking takes the user's next message for its output.
func talking(e tool.Effect) tool.Tool {
	return tool.Must(
		tool.Func(tool.Spec{Name: "talk", Description: "Asks the user.", Effect: e, MayPause: true},
			func(_ context.Context, in textIn) (tool.Result[string], error) {
				return tool.Pending[string](tool.Await{Reason: tool.ReasonInput,
					Mode: tool.ModeMessage, Prompt: "Which " + in.Text + "?"}), nil
			}))
}

// failing ends the run.
func failing() tool.Tool {
	return fn(tool.Spec{Name: "fail", Effect: tool.Idempotent},
		func(context.Context, textIn) (tool.Result[textOut], error) {
			return nil, tool.Fatal(errors.New("the disk is on fire"))
		})
}

// remembering asks with a large state, and gives it back.
func remembering(e tool.Effect, big string) tool.Tool {
	which := tool.NewQuestion[textOut, textIn, textIn]("which")
	return tool.Must(
		tool.Resumable(tool.Spec{Name: "remember", Description: "Remembers.", Effect: e},
			func(_ context.Context, in textIn) (tool.Result[textOut], error) {
				return which.Ask("Do you remember?", textIn{big}), nil
			},
			tool.On(which, func(_ context.Context, in textIn,
				re tool.Reply[textIn, textIn]) (tool.Result[textOut], error) {
				return tool.Done(textOut{re.State.Text + re.Answer.Text[:3]}), nil
			})))
}
