package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func printed(v any) string { return fmt.Sprintf("%+v", v) }

// A body that ends when its context does has its result recorded before Close returns; one that ignores its context loses the
// lease when Close's time is over, and what it comes back with is refused.
func TestClose(t *testing.T) {
	for _, ignores := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			entered, release := make(chan struct{}), make(chan struct{})
			slow := tool.Must(tool.Func(tool.Spec{Name: "slow", Description: "s"},
				func(ctx context.Context, _ struct{}) (tool.Result[string], error) {
					close(entered)
					if ignores {
						<-release
						return tool.Done("late"), nil
					}
					<-ctx.Done()
					return nil, ctx.Err()
				}))
			r := newRig(t, agent.Config{Tools: []tool.Tool{slow}, Model: messages(calls("slow", `{}`), says("Done."))},
				&rigOptions{memory: true, runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}})
			ran := make(chan *seen)
			go func() { ran <- watch(t, r.Run(context.Background(), user, chat, llm.UserText("Go."), nil)) }()
			<-entered
			start := time.Now()
			err := r.Close()
			run := <-ran
			if !errors.Is(run.err, runner.ErrClosed) {
				t.Errorf("the run ended with %v", run.err)
			}
			if took := time.Since(start); ignores != (err != nil) || ignores != (took >= 10*time.Second) {
				t.Errorf("a body that ignores its context: %v; Close took %v: %v", ignores, took, err)
			}
			close(release)
			synctest.Wait()
			if err := watch(t, r.Continue(context.Background(), chat, user)).err; !errors.Is(err, runner.ErrClosed) {
				t.Errorf("a closed runner answers %v", err)
			}
			// Another process carries the session on: nobody had left it.
			r.open()
			watch(t, r.Continue(context.Background(), chat, user)).finished(event.FinishStop)
			history := r.transcript().History
			if got := string(history[2].Parts[0].(llm.ToolResult).Output); strings.Contains(got, "late") {
				t.Errorf("a result that came after Close is recorded: %s", got)
			}
			r.acceptable()
		})
	}
}

func TestPanicsAreResults(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex
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
	tools = append(tools, instant("before", tool.Once, &n), instant("after", tool.Once, &n), instant("leaves", tool.Once, &n))
	layer := func(name string, before, after func()) interceptor.Layer {
		return interceptor.Layer{Name: name, Tools: []string{name}, Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
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
		Model: messages(calls("text", `{}`, "nilmap", `{}`, "goexit", `{}`, "error", `{}`, "runtime", `{}`, "before", `{"text":"a"}`,
			"after", `{"text":"a"}`, "leaves", `{"text":"a"}`, "ok", `{"text":"a"}`, "ok", `{"text":"b"}`), says("Done.")),
	}, &rigOptions{runner: &runner.Options{Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))}})
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
	if !strings.Contains(log.String(), "close_test.go") {
		t.Errorf("the log has no stack: %s", log.String())
	}
	r.acceptable()
}

// A tool that pauses and doesn't say that it may: the model can do nothing about it, so whoever runs the program is told.
func TestToolThatMayNotPauseIsLogged(t *testing.T) {
	var mu sync.Mutex
	var log strings.Builder
	job := tool.Must(tool.Func(tool.Spec{Name: "job"}, func(context.Context, struct{}) (tool.Result[textOut], error) {
		return tool.NeedInput[textOut]("Well?"), nil
	}))
	r := newRig(t, agent.Config{Tools: []tool.Tool{job}, Model: messages(calls("job", `{}`), says("Done."))},
		&rigOptions{runner: &runner.Options{Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))}})
	r.say("Go.").finished(event.FinishStop)
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "MayPause") {
		t.Errorf("the log says %s", &log)
	}
}
