package interceptor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Log returns a layer that logs model calls and tool calls: names, ids, times
// and how they ended. Contents (arguments, outputs, messages, the text of
// errors) are left out: they may hold secrets. A nil logger means slog.Default.
func Log(logger *slog.Logger) Layer {
	if logger == nil {
		logger = slog.Default()
	}
	return Layer{
		Name: "log",
		Model: func(next ModelHandler) ModelHandler {
			return func(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
				return logModel(ctx, logger, next, r)
			}
		},
		Tool: func(next ToolHandler) ToolHandler {
			return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
				start := time.Now()
				exec, err := next(ctx, c)
				level, how := outcome(exec, err)
				logger.Log(ctx, level, "tool call", "session", c.Session, "tool", c.Tool, "call",
					c.ID,
					"attempt", c.Attempt, "took", time.Since(start), "outcome", how)
				return exec, err
			}
		},
	}
}

func logModel(ctx context.Context, logger *slog.Logger, next ModelHandler,
	r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		start := time.Now()
		logged := false
		log := func(level slog.Level, outcome string, attrs ...any) {
			attrs = append([]any{"session", r.Metadata["session"], "messages", len(r.Messages),
				"took", time.Since(start),
				"outcome", outcome}, attrs...)
			logger.Log(ctx, level, "model call", attrs...)
			logged = true
		}
		for ev, err := range next(ctx, r) {
			if f, ok := ev.(llm.Finish); ok {
				log(slog.LevelInfo, "done", "stop", f.Reason, "input_tokens", f.Usage.Input,
					"output_tokens", f.Usage.Output)
			}
			if err != nil {
				log(slog.LevelError, "failed", failure(err)...)
			}
			if !yield(ev, err) {
				if !logged {
					log(slog.LevelInfo, "left")
				}
				return
			}
		}
		if !logged {
			log(slog.LevelWarn, "cut off")
		}
	}
}

// failure describes an error without its text: providers quote what they were
// sent.
func failure(err error) []any {
	var e *llm.Error
	switch {
	case errors.As(err, &e):
		return []any{"error", e.Kind, "provider", e.Provider, "request", e.RequestID}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return []any{"error", "the context ended"}
	}
	return []any{"error", fmt.Sprintf("%T", err)}
}

func outcome(exec tool.Execution, err error) (slog.Level, string) {
	switch {
	case tool.IsDenied(err):
		return slog.LevelInfo, "denied"
	case err != nil:
		return slog.LevelWarn, "failed"
	case exec.Await != nil:
		return slog.LevelInfo, "paused"
	}
	return slog.LevelInfo, "done"
}
