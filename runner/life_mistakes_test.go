package runner_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A pause that makes no sense is a mistake of whoever wrote the tool, or the layer: the model can do nothing about it, and the log tells.
func TestMistakesInPausesAreLogged(t *testing.T) {
	asks := func(spec tool.Spec, a tool.Await) tool.Tool {
		return does(spec, func(context.Context, string) (tool.Result[textOut], error) { return tool.Pending[textOut](a), nil })
	}
	layer := interceptor.Layer{Name: "gate", Tools: []string{"gated"}, Tool: func(interceptor.ToolHandler) interceptor.ToolHandler {
		return func(context.Context, tool.Call) (tool.Execution, error) {
			return tool.Execution{Await: &tool.Await{Reason: tool.ReasonApproval, Mode: tool.ModeOutput}}, nil
		}
	}}
	var n counter
	for name, tl := range map[string]tool.Tool{
		"a tool may not pause":              asks(tool.Spec{Name: "still"}, tool.Await{}),
		`goes with reason \"input\"`:        asks(tool.Spec{Name: "asks", MayPause: true}, tool.Await{Mode: tool.ModeMessage}),
		"makes the user's words the output": asks(tool.Spec{Name: "asks", MayPause: true}, tool.Await{Reason: tool.ReasonInput, Mode: tool.ModeMessage}),
		"a layer's pause always re-enters":  instant("gated", tool.ReadOnly, &n),
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var log bytes.Buffer
			config := agent.Config{Tools: []tool.Tool{tl}, Model: messages(calls(tl.Spec().Name, `{"text":"x"}`), says("Well."))}
			if tl.Spec().Name == "gated" {
				config.Interceptors = interceptor.Chain{layer}
			}
			r := newRig(t, config, &rigOptions{runner: &runner.Options{Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))}})
			r.say("Go.").finished(event.FinishStop)
			mu.Lock()
			defer mu.Unlock()
			if s := log.String(); !strings.Contains(s, name) || !strings.Contains(s, "level=ERROR") {
				t.Errorf("the log says %q", s)
			}
		})
	}
}

// Who is refused because calls wait is told what helps: a machine can't be superseded.
func TestWaitingCallsSayWhatHelps(t *testing.T) {
	for want, reason := range map[string]tool.Reason{"send the message so that it supersedes": tool.ReasonInput, "can't be superseded": tool.ReasonExternal} {
		ask := does(tool.Spec{Name: "ask", MayPause: true}, func(context.Context, string) (tool.Result[textOut], error) {
			return tool.Pending[textOut](tool.Await{Reason: reason}), nil
		})
		r := newRig(t, agent.Config{Tools: []tool.Tool{ask}, Model: messages(calls("ask", `{"text":"x"}`), says("Well."))}, nil)
		r.say("Go.").finished(event.FinishPaused)
		s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("And?"), nil))
		if s.err == nil || !strings.Contains(s.err.Error(), want) || !errors.Is(s.err, session.ErrPending) {
			t.Errorf("with reason %q: %v", reason, s.err)
		}
	}
}
