package interceptor

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Log is a layer that logs model calls and tool calls: names, ids, times and how they ended. Contents (arguments, outputs,
// messages) are left out: they may hold secrets. A nil logger means slog.Default.
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
				logger.Log(ctx, level, "tool call", "session", c.Session, "tool", c.Tool, "call", c.ID,
					"attempt", c.Attempt, "took", time.Since(start), "outcome", how)
				return exec, err
			}
		},
	}
}

func logModel(ctx context.Context, logger *slog.Logger, next ModelHandler, r llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		start := time.Now()
		attrs := []any{"session", r.Metadata["session"], "messages", len(r.Messages)}
		for ev, err := range next(ctx, r) {
			if err != nil {
				logger.Log(ctx, slog.LevelError, "model call", append(attrs, "took", time.Since(start), "error", err)...)
			}
			if f, ok := ev.(llm.Finish); ok {
				logger.Log(ctx, slog.LevelInfo, "model call", append(attrs, "took", time.Since(start), "stop", f.Reason,
					"input_tokens", f.Usage.Input, "output_tokens", f.Usage.Output)...)
			}
			if !yield(ev, err) {
				return
			}
		}
	}
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
