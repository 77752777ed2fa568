package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// An outside system answers with the token that it was given, or with the id of
// its own job; a person with the id of the pause. Each answer is for the same
// pause, and the first one counts.
func ExampleRunner_Find() {
	var token string
	deploy := tool.Must(tool.Func(
		tool.Spec{Name: "deploy", Description: "Deploy a service.", Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, _ struct{}) (tool.Result[string], error) {
			token = tool.CallFrom(ctx).Token()
			return tool.Pending[string](tool.Await{Key: "job-7", Timeout: time.Hour}), nil
		}))
	model := fakellm.New(fakellm.Calls("deploy", `{}`), fakellm.Says("It is live."))
	ag, err := agent.New(agent.Config{Name: "ops", Model: model, Tools: []tool.Tool{deploy}})
	check(err)
	rn, err := runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
	check(err)
	defer rn.Close()

	ctx := context.Background()
	var waiting tool.Pause
	for ev, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText("Deploy."), nil) {
		check(err)
		if ev, ok := ev.(event.Pause); ok {
			waiting = ev.Pause
		}
	}

	answer := func(ref runner.Ref, output string) {
		p, err := rn.Find(ctx, ref, "ci")
		check(err)
		res, err := rn.Resume(ctx, p.Session, runner.Complete(p.ID, "ci", json.RawMessage(output)))
		var first *session.ConflictError
		switch {
		case errors.As(err, &first):
			fmt.Println(webhook.Status(err), "after what came from", first.Receipt.Actor)
		case err == nil:
			fmt.Println(webhook.Status(err), "duplicate:", res.Receipts[0].Duplicate)
		}
	}
	answer(runner.Ref{Token: token}, `"live"`)
	answer(runner.Ref{Tool: "deploy", Key: "job-7"}, `"live"`)
	answer(runner.Ref{Pause: waiting.ID}, `"down"`)
	// Output:
	// 200 duplicate: false
	// 200 duplicate: true
	// 409 after what came from ci
}
