// Command consumer uses the library as a user's program does: a call pauses, is
// answered, and its agent goes on. The release check builds it outside the
// tree, against the modules as they would be tagged.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

type deployInput struct {
	Version string `json:"version"`
}

type deployOutput struct {
	URL string `json:"url"`
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "consumer:", err)
		os.Exit(1)
	}
	fmt.Println("released")
}

func run(ctx context.Context) error {
	deploy, err := tool.Func(
		tool.Spec{Name: "deploy", Description: "Deploy a version.", MayPause: true},
		func(context.Context, deployInput) (tool.Result[deployOutput], error) {
			return tool.Pending[deployOutput](tool.Await{}), nil
		})
	if err != nil {
		return err
	}
	model := fakellm.New(fakellm.Calls("deploy", `{"version":"v2"}`), fakellm.Says("It is live."))
	ag, err := agent.New(agent.Config{Name: "ops", Model: model, Tools: []tool.Tool{deploy}})
	if err != nil {
		return err
	}
	rn, err := runner.New(ag, session.NewStore(kvstore.NewMemory(), nil), nil)
	if err != nil {
		return err
	}
	defer rn.Close()

	var pause string
	for ev, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText("Deploy v2."), nil) {
		if err != nil {
			return err
		}
		if waits, ok := ev.(event.Pause); ok {
			pause = waits.Pause.ID
		}
	}
	resumed, err := rn.Resume(ctx, "chat-1",
		runner.Complete(pause, "ci", []byte(`{"url":"https://example.com"}`)))
	if err != nil {
		return err
	}
	for ev, err := range resumed.Events(ctx) {
		if err != nil {
			return err
		}
		if end, ok := ev.(event.End); ok && end.Finish == event.FinishStop {
			return nil
		}
	}
	return errors.New("the agent doesn't come to its end")
}
