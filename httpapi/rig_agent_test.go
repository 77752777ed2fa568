package httpapi_test

import (
	"context"
	"errors"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// tools are those of the agent.
func (s *site) tools() []tool.Tool {
	type nothing struct{}
	type payment struct {
		Cents int `json:"cents"`
	}
	return []tool.Tool{
		tool.Must(tool.Func(tool.Spec{Name: "build", MayPause: true},
			func(context.Context, nothing) (tool.Result[string], error) {
				return tool.Pending[string](tool.Await{Key: "job-1"}), nil
			})),
		tool.Must(tool.Func(tool.Spec{Name: "pay"},
			func(_ context.Context, in payment) (tool.Result[string], error) {
				s.paid.Store(int64(in.Cents))
				return tool.Done("paid"), nil
			})),
		tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true},
			func(context.Context, nothing) (tool.Result[string], error) {
				return tool.NeedInput[string]("Which colour?"), nil
			})),
		tool.Must(tool.Func(tool.Spec{Name: "report"},
			func(context.Context, nothing) (tool.Result[string], error) {
				return tool.With(tool.Done("made"), tool.Action{Artifact: &tool.Artifact{
					Name: "../a \"b\"\r\nX-Evil: 1.html", MediaType: "text/html", Data: photo}}), nil
			})),
		tool.Must(tool.Func(tool.Spec{Name: "slow", Effect: tool.Idempotent},
			func(ctx context.Context, _ nothing) (tool.Result[string], error) {
				select {
				case <-s.gate:
					return tool.Done("slept"), nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})),
	}
}

// own is an Authorizer that lets users do with their own sessions what they
// like.
func own(_ context.Context, op runner.Operation) error {
	if op.Own() {
		return nil
	}
	return errors.New("it is not yours")
}

// staffOr lets the staff do everything, beside what else is allowed.
func staffOr(
	rule func(context.Context, runner.Operation) error,
) func(context.Context, runner.Operation) error {
	return func(ctx context.Context, op runner.Operation) error {
		if op.Actor == "staff" {
			return nil
		}
		return rule(ctx, op)
	}
}
