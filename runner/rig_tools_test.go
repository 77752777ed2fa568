package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/tool"
)

// does is a tool that does what f says.
func does(s tool.Spec, f func(context.Context, string) (tool.Result[textOut], error)) tool.Tool {
	return tool.Must(tool.Func(s,
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			return f(ctx, in.Text)
		}))
}

// asks is a turn of the model that calls one tool several times.
func asks(name string, texts ...string) fakellm.Turn {
	var t fakellm.Turn
	for _, s := range texts {
		t = t.And(name, string(text(s)))
	}
	return t
}

// toolLayer is a layer around tool calls.
func toolLayer(name string,
	f func(context.Context, tool.Call, interceptor.ToolHandler) (tool.Execution, error)) interceptor.Layer {
	return interceptor.Layer{Name: name,
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
				return f(ctx, c, next)
			}
		}}
}

// oneCall is an agent with one tool, which the model calls once.
func oneCall(t tool.Tool, layers ...interceptor.Layer) agent.Config {
	return agent.Config{
		Model: fakellm.New(fakellm.Calls(t.Spec().Name, `{"text":"a"}`), fakellm.Says("I see.")),
		Tools: []tool.Tool{t}, Interceptors: layers,
	}
}

// rawTool is a tool in its raw form: what it returns is its own encoding.
type rawTool struct {
	spec tool.Spec
	f    func(context.Context, tool.Call) (tool.Execution, error)
}

func (r rawTool) Spec() tool.Spec { return r.spec }

func (r rawTool) Execute(ctx context.Context, c tool.Call) (tool.Execution, error) {
	return r.f(ctx, c)
}

// around is a turn layer.
func around(f func(ctx context.Context, turn interceptor.Turn, next interceptor.TurnHandler) turnEvents) interceptor.Chain {
	return interceptor.Chain{{Name: "around",
		Turn: func(next interceptor.TurnHandler) interceptor.TurnHandler {
			return func(ctx context.Context, turn interceptor.Turn) turnEvents {
				return f(ctx, turn, next)
			}
		}}}
}

// passes is a layer that lets every call through. With it, the call is claimed
// by its own goroutine, and not by the loop.
var passes = interceptor.Layer{Name: "passes",
	Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler { return next }}

func approval() interceptor.Chain { return interceptor.Chain{interceptor.Approval(nil)} }

// starting is a tool that starts an outside job, and then does what its test
// wants.
func starting(effect tool.Effect, n *counter,
	then func(context.Context, tool.Call) (tool.Result[textOut], error)) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "deploy", Effect: effect, MayPause: true},
		func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
			n.add("deploy")
			return then(ctx, tool.CallFrom(ctx))
		}))
}

// jobs is an agent whose model starts some jobs at once, and then is done.
func jobs(n *counter, some int) agent.Config {
	var asked []string
	for i := range some {
		asked = append(asked, "job", fmt.Sprintf(`{"text":"j%d"}`, i))
	}
	return agent.Config{Tools: []tool.Tool{waiting("job", tool.Idempotent, n)},
		Model: messages(calls(asked...), says("Done."))}
}

// stubborn is a tool whose body ignores its context until release is closed.
func stubborn(entered chan<- string, release <-chan struct{}) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "slow", Description: "s"},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			entered <- in.Text
			<-release
			return tool.Done(textOut{"in the end"}), nil
		}))
}

// asking is a tool that asks a person; the answer is its output.
func asking(name string, n *counter) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name, Description: "Asks.", MayPause: true},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			n.add(name)
			return tool.NeedInput[textOut](in.Text), nil
		}))
}

// blocker is a tool whose bodies note that they were entered, and wait to be
// let go.
type blocker struct {
	mu      sync.Mutex
	entered []string
	let     map[string]chan struct{}
}

func (b *blocker) tool(s tool.Spec,
	then func(context.Context, string) (tool.Result[textOut], error)) tool.Tool {
	return does(s, func(ctx context.Context, name string) (tool.Result[textOut], error) {
		b.mu.Lock()
		b.entered = append(b.entered, name)
		b.mu.Unlock()
		<-b.gate(name)
		if then == nil {
			return tool.Done(textOut{name}), nil
		}
		return then(ctx, name)
	})
}

func (b *blocker) gate(name string) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.let == nil {
		b.let = map[string]chan struct{}{}
	}
	if b.let[name] == nil {
		b.let[name] = make(chan struct{})
	}
	return b.let[name]
}

// now is which bodies have been entered, sorted.
func (b *blocker) now() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(slices.Values(b.entered))
}

// messageTool takes the user's next message for its output.
func messageTool(n *counter) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "ask", Description: "Asks.", MayPause: true},
		func(_ context.Context, in textIn) (tool.Result[string], error) {
			n.add("ask")
			return tool.Pending[string](tool.Await{Reason: tool.ReasonInput,
				Mode: tool.ModeMessage, Prompt: in.Text}), nil
		}))
}

// rewrite is a layer that puts other arguments in the place of the model's.
func rewrite(name string, f func(args string) string) interceptor.Layer {
	return interceptor.Layer{Name: name,
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
				c.Arguments = json.RawMessage(f(string(c.Arguments)))
				return next(ctx, c)
			}
		}}
}

// transfer is a tool that notes the arguments which it was run with, byte for
// byte.
func transfer(ran *[]string) tool.Tool {
	type in struct {
		Cents int64  `json:"cents"`
		Note  string `json:"note,omitempty"`
	}
	t := tool.Must(tool.Func(tool.Spec{Name: "transfer"},
		func(ctx context.Context, in in) (tool.Result[int64], error) {
			*ran = append(*ran, string(tool.CallFrom(ctx).Arguments))
			return tool.Done(in.Cents), nil
		}))
	return t
}

// The tools of most tests.
type (
	textIn struct {
		Text string `json:"text"`
	}
	textOut struct {
		Text string `json:"text"`
	}
)

// instant is a tool that answers at once with its argument.
func instant(name string, effect tool.Effect, c *counter) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name,
		Description: "Answers at once.", Effect: effect},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			c.add(name)
			return tool.Done(textOut(in)), nil
		}))
}

// waiting is a tool that waits for an outside job, whose key is the argument.
func waiting(name string, effect tool.Effect, c *counter) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name, Description: "Waits for a job.",
		Effect: effect, MayPause: true},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			c.add(name)
			return tool.Pending[textOut](tool.Await{Key: in.Text, Timeout: time.Hour}), nil
		}))
}

// text is the JSON of those tools' inputs and outputs.
func text(s string) json.RawMessage {
	b, _ := json.Marshal(textOut{s})
	return b
}

// counter counts what bodies do, under names.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[name]++
	return c.n[name]
}

func (c *counter) get(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}

// clock is a clock that stands until the test lets time pass.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// journal is the text of a log, which may be read while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text.Reset()
}

// logger writes the journal.
func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func printed(v any) string { return fmt.Sprintf("%+v", v) }
