package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestModelThatPanics: the run fails, and the process and the other sessions
// live on.
func TestModelThatPanics(t *testing.T) {
	good := messages(says("Hi."))
	bad := true
	r := newRig(t, agent.Config{Model: modelFunc(func(req llm.Request) []llm.Event {
		if bad && req.Metadata["session"] == chat {
			panic("the provider's client is broken")
		}
		return good(req)
	})}, nil)
	run := r.say("Go.")
	if run.end.Finish != event.FinishFailed || run.err == nil ||
		run.err.Error() != "model: the model, or a layer around it, panicked: the provider's client is broken" {
		t.Errorf("the run ended as %q with %v", run.end.Finish, run.err)
	}
	watch(t, r.Run(t.Context(), user, "chat-2",
		llm.UserText("Hi."), nil)).finished(event.FinishStop)
	bad = false
	r.carryOn().finished(event.FinishStop)
}

func TestPanicsAreResults(t *testing.T) {
	var log journal
	var n counter
	tools := []tool.Tool{instant("ok", tool.Once, &n)}
	for name, body := range map[string]func(){
		"text": func() { panic("secret-in-the-stack") },
		//lint:ignore SA5000 it is to panic, as a tool would
		"nilmap":  func() { var m map[string]int; m[fmt.Sprint()]++ },
		"goexit":  runtime.Goexit,
		"error":   func() { panic(errors.New("custom")) },
		"runtime": func() { var s []int; _ = s[len(s)+1] },
	} {
		tools = append(tools, tool.Must(tool.Func(tool.Spec{Name: name, Description: "p"},
			func(context.Context, struct{}) (tool.Result[string], error) {
				body()
				return tool.Done("unreachable"), nil
			})))
	}
	tools = append(tools, instant("before", tool.Once, &n), instant("after", tool.Once, &n),
		instant("leaves", tool.Once, &n))
	layer := func(name string, before, after func()) interceptor.Layer {
		return interceptor.Layer{Name: name, Tools: []string{name},
			Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
				return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
					before()
					exec, err := next(ctx, c)
					after()
					return exec, err
				}
			}}
	}
	nothing := func() {}
	r := newRig(t, agent.Config{
		Concurrency: 2, Tools: tools,
		Interceptors: interceptor.Chain{
			layer("before", func() { panic("in a layer") }, nothing),
			layer("after", nothing, func() { panic("in a layer") }),
			layer("leaves", runtime.Goexit, nothing),
		},
		Model: messages(calls("text", `{}`, "nilmap", `{}`, "goexit", `{}`, "error", `{}`,
			"runtime", `{}`, "before", `{"text":"a"}`,
			"after", `{"text":"a"}`, "leaves", `{"text":"a"}`, "ok", `{"text":"a"}`,
			"ok", `{"text":"b"}`), says("Done.")),
	}, &rigOptions{
		runner: &runner.Options{
			Logger: log.logger(),
		},
	})
	r.say("Go.").finished(event.FinishStop)
	for _, p := range r.transcript().History[2].Parts {
		res := p.(llm.ToolResult)
		if res.Error == (res.Name == "ok") {
			t.Errorf("%s settled with %s", res.Name, res.Output)
		}
		if strings.Contains(string(res.Output), ".go:") {
			t.Errorf("the model reads the stack: %s", res.Output)
		}
	}
	if n.get("ok") != 2 || n.get("before") != 0 || n.get("after") != 1 {
		t.Errorf("bodies were entered %v", n.n)
	}
	if !strings.Contains(log.String(), "process_panics_test.go") {
		t.Errorf("the log has no stack: %s", log.String())
	}
	r.acceptable()
}

// Types that panic when they are read or written.
type (
	panicsOnRead  struct{ Text string }
	panicsOnWrite struct{ Text string }
)

func (*panicsOnRead) UnmarshalJSON([]byte) error { panic("cannot be read") }

func (panicsOnWrite) MarshalJSON() ([]byte, error) { panic("cannot be written") }

func (panicsOnRead) MarshalJSON() ([]byte, error) { return []byte(`"x"`), nil }

func (*panicsOnWrite) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, new(any)) }

// TestCodecsThatPanic: the panic is the result of that call, and of no other.
func TestCodecsThatPanic(t *testing.T) {
	var n counter
	var log journal
	read := tool.Must(tool.Func(tool.Spec{Name: "read"}, func(context.Context, struct {
		Value panicsOnRead `json:"value"`
	}) (tool.Result[string], error) {
		n.add("read")
		return tool.Done("never"), nil
	}))
	write := tool.Must(tool.Func(tool.Spec{Name: "write"},
		func(context.Context, textIn) (tool.Result[panicsOnWrite], error) {
			n.add("write")
			return tool.Done(panicsOnWrite{}), nil
		}))
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("read", `{"value":"x"}`).And("write",
			`{"text":"a"}`).And("ok", `{"text":"b"}`), fakellm.Says("I see.")),
		Tools: []tool.Tool{read, write, instant("ok", tool.Once, &n)}, Concurrency: 1,
	}, &rigOptions{
		runner: &runner.Options{
			Logger: log.logger(),
		},
	})
	res := of[event.Result](r.say("Go.").finished(event.FinishStop))
	for i, want := range []string{"cannot be read", "cannot be written", `"b"`} {
		text := string(res[i].Result.Output)
		if !strings.Contains(text, want) || res[i].Result.Error != (i < 2) ||
			strings.Contains(text, ".go:") {
			t.Errorf("result %d is %s", i, text)
		}
	}
	if n.get("read") != 0 || n.get("write") != 1 || n.get("ok") != 1 {
		t.Errorf("bodies were entered %v", n.n)
	}
	if !strings.Contains(log.String(), "process_panics_test.go") {
		t.Errorf("the log has no stack: %s", log.String())
	}
	r.acceptable()
}

// Types that read themselves: one ends its goroutine, one takes as long as it
// is told.
type (
	quitter struct{}
	dawdler struct{}
)

func (*quitter) UnmarshalJSON([]byte) error { runtime.Goexit(); return nil }

func (*dawdler) UnmarshalText([]byte) error {
	wake := make(chan struct{})
	dawdlers <- wake
	<-wake
	return nil
}

var dawdlers = make(chan chan struct{})

// reading is a rig with a tool whose argument is an In.
func reading[In any](t *testing.T) *rig {
	type in struct {
		Who In `json:"who"`
	}
	return newRig(t, agent.Config{
		Tools: []tool.Tool{tool.Must(tool.Func(tool.Spec{Name: "greet",
			Description: "Greets.", Effect: tool.ReadOnly},
			func(context.Context, in) (tool.Result[textOut], error) {
				return tool.Done(textOut{"hello"}), nil
			}))},
		Model: messages(calls("greet", `{"who":"Ada"}`), says("Done.")),
	}, nil)
}

// Code that reads a tool's arguments ends its goroutine. That fails the call:
// the goroutine was not the caller's.
func TestReadingArgumentsEndsTheGoroutine(t *testing.T) {
	r := reading[quitter](t)
	gone, over := make(chan struct{}), false
	go func() {
		defer close(gone)
		shows(t, r.say("Go.").finished(event.FinishStop), "greet failed")
		over = true
	}()
	<-gone
	if !over {
		t.Error("the caller's goroutine has ended")
	}
}

// Code that reads a tool's arguments takes its time: its caller can leave all
// the same.
func TestReadingArgumentsTakesLong(t *testing.T) {
	r := reading[dawdler](t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan *seen, 1)
	go func() { ended <- watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil)) }()
	wake := <-dawdlers
	defer close(wake)
	cancel()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the run doesn't end while the arguments are read")
	}
}

// A result that is nested so deep that no message could hold it is the call's
// error, and the session goes on: a tool's as well as a layer's.
func TestDeepResults(t *testing.T) {
	for _, by := range []string{"tool", "layer"} {
		for _, depth := range []int{1000, 1001, 9998, 10000} {
			t.Run(fmt.Sprint(by, " ", depth), func(t *testing.T) {
				deep := json.RawMessage(strings.Repeat("[", depth) + `"[[{"` + strings.Repeat("]",
					depth))
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
				if res := r.result(call); res.Error != (depth > 1000) || res.Error &&
					!strings.Contains(string(res.Output), "nested more than 1000 deep") {
					t.Errorf("the result is %.100s", res.Output)
				}
				r.acceptable()
			})
		}
	}
}

// TestOutcomesThatAreNone: a raw tool or a layer returns what can't be stored.
// That is the call's failure, and not the run's.
func TestOutcomesThatAreNone(t *testing.T) {
	for name, exec := range map[string]tool.Execution{
		"no JSON":               {Output: json.RawMessage(`{"a":`)},
		"two values":            {Output: json.RawMessage(`1 2`)},
		"invalid UTF-8 outside": {Output: json.RawMessage("\xff")},
		"an empty action":       {Output: json.RawMessage(`1`), Actions: []tool.Action{{}}},
		"too large":             {Output: json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)},
		"data that is no JSON":  {Await: &tool.Await{Data: json.RawMessage(`{`)}},
		"no such reason":        {Await: &tool.Await{Reason: "boredom"}},
		"a bad schema": {Await: &tool.Await{Reason: tool.ReasonInput,
			Schema: json.RawMessage(`{"type":"nosuch"}`)}},
		"a schema that is none": {Await: &tool.Await{Reason: tool.ReasonInput,
			Schema: json.RawMessage(`{`)}},
		"a schema too large": {
			Await: &tool.Await{
				Schema: json.RawMessage(`{"description":"` + strings.Repeat("x", 70<<10) + `"}`),
			},
		},
		"a key too long":     {Await: &tool.Await{Key: strings.Repeat("k", 1000)}},
		"a negative timeout": {Await: &tool.Await{Timeout: -1}},
		"a layer's reason":   {Await: &tool.Await{Reason: tool.ReasonApproval}},
		"in a layer's name":  {Await: &tool.Await{Gate: "approval"}},
	} {
		for who, c := range map[string]agent.Config{
			"tool": oneCall(rawTool{tool.Spec{Name: "raw", MayPause: true},
				func(context.Context, tool.Call) (tool.Execution, error) { return exec, nil }}),
			"layer": oneCall(rawTool{tool.Spec{Name: "raw", MayPause: true},
				func(context.Context, tool.Call) (tool.Execution, error) {
					return tool.Execution{}, nil
				}},
				toolLayer("raw",
					func(ctx context.Context, c tool.Call, next interceptor.ToolHandler) (tool.Execution, error) {
						if exec.Await == nil {
							_, _ = next(ctx, c)
						}
						return exec, nil
					})),
		} {
			if good := exec.Await != nil && (exec.Await.Gate != "" ||
				exec.Await.Reason == tool.ReasonApproval); good && who == "layer" {
				continue // which a layer may say
			}
			t.Run(name+" by a "+who, func(t *testing.T) {
				r := newRig(t, c, &rigOptions{memory: true})
				run := r.say("Go.")
				if len(run.end.Pending) > 0 && who == "layer" {
					return // a layer's schema and key mean nothing
				}
				run.finished(event.FinishStop)
				if res := of[event.Result](run); len(res) != 1 || res[0].Status != event.Failed ||
					who == "tool" && !strings.Contains(string(res[0].Result.Output), "raw") {
					t.Errorf("it has %d results, the first %s: %.100s", len(res),
						res[0].Status, res[0].Result.Output)
				}
				r.acceptable()
			})
		}
	}
}

// What OnEvent does wrong harms no session.
func TestOnEventPanics(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"j"}`), says("Done."))}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v")))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_ = r.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
		if _, ok := ev.(event.End); ok {
			cancel()
		}
		panic("in OnEvent")
	}})
	if got := r.transcript(); got.Finish != event.FinishStop {
		t.Errorf("it is %q", got.Finish)
	}
}

// Code of others may return a nil pointer as its error, or one whose methods
// panic otherwise. It is told as a panic of that code, wherever it comes from.
func TestErrorsWhoseMethodsPanic(t *testing.T) {
	fails := func() error { var err *fs.PathError; return err }
	act := does(tool.Spec{Name: "act", MayPause: true,
		Cancel: tool.Cancel{Tries: 1, Do: func(context.Context, tool.Cancelled) error { return fails() }}},
		func(_ context.Context, how string) (tool.Result[textOut], error) {
			if how == "wait" {
				return tool.Pending[textOut](tool.Await{}), nil
			}
			return nil, fails()
		})
	acts := func(how string) llm.Model { return fakellm.New(asks("act", how), fakellm.Says("I see.")) }
	for name, test := range map[string]struct {
		says   string
		model  llm.Model
		layers interceptor.Chain
	}{
		"a tool":   {"act panicked", acts("fail"), nil},
		"a Cancel": {"act panicked", acts("wait"), nil},
		"a tool layer": {"a layer around the tool panicked", acts("fail"), interceptor.Chain{
			toolLayer("fails", func(context.Context, tool.Call, interceptor.ToolHandler) (tool.Execution, error) {
				return tool.Execution{}, fails()
			})}},
		"a model": {"the model, or a layer around it, panicked", streams(
			func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
				return func(yield func(llm.Event, error) bool) { yield(nil, fails()) }
			}), nil},
		"a turn layer": {"a turn layer panicked", acts("fail"), around(
			func(context.Context, interceptor.Turn, interceptor.TurnHandler) turnEvents {
				return func(yield func(event.Event, error) bool) { yield(nil, fails()) }
			})},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, agent.Config{Model: test.model, Interceptors: test.layers,
				Tools: []tool.Tool{act}}, &rigOptions{memory: true})
			run := r.say("Go.")
			for _, p := range run.end.Pending {
				_, err := r.Cancel(t.Context(), chat, p.Call, user, "")
				must(t, err)
				must(t, r.Work(t.Context(), &runner.WorkOptions{Session: chat, UntilOver: true}))
			}
			told := fmt.Sprint(run.err, r.outputs())
			for u, err := range r.Undos(t.Context(), session.UndoFilter{}, user) {
				must(t, err)
				told += u.Failed
			}
			if !strings.Contains(told, test.says) {
				t.Errorf("it is told %s", told)
			}
		})
	}
}

// A worker asks the Authorizer about what a message in the queue is to deny. One
// that panics refuses, and the worker goes on.
func TestAuthorizerThatPanics(t *testing.T) {
	var n counter
	var panics atomic.Bool
	r := newRig(t, agent.Config{Tools: []tool.Tool{asking("ask", &n)},
		Model: fakellm.New(fakellm.Calls("ask", `{"text":"a"}`), fakellm.Says("I see."))},
		&rigOptions{memory: true, runner: &runner.Options{
			Logger: slog.New(slog.DiscardHandler),
			Authorizer: func(context.Context, runner.Operation) error {
				if panics.Load() {
					panic("no")
				}
				return nil
			}}})
	r.say("Go.").finished(event.FinishPaused)
	_, err := r.Send(t.Context(), user, chat, llm.UserText("No."),
		&runner.SendOptions{While: runner.WhileSupersede})
	must(t, err)
	panics.Store(true)
	r.works(func(ev event.Event) bool { _, ended := ev.(event.End); return ended })
	if _, err := r.Show(t.Context(), chat, user); !errors.Is(err, runner.ErrNotAllowed) {
		t.Errorf("it is shown, with %v", err)
	}
	panics.Store(false)
	if got := r.transcript(); len(got.Pending) != 1 {
		t.Errorf("these wait: %v", got.Pending)
	}
}
