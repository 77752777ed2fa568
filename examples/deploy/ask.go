package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/fermata-ai/fermata/examples/internal/stage"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

const chat = "chat-1"

// ask is the first process. It runs the agent until nothing is left to do but wait for the outside world.
func ask(ctx context.Context, args []string) {
	rn, closeAll := open(args)
	defer closeAll()
	message := args[3]
	if message == "" {
		message = stage.Prompt("Your message, such as: deploy checkout v2.5.0")
	}
	stage.Line("typed", "user", "%q", message)
	end := stage.Events(rn.Run(ctx, "ada", chat, llm.UserText(message), nil))
	for len(end.Pending) > 0 && end.Pending[0].Await.Reason == tool.ReasonInput {
		question := end.Pending[0]
		answer := stage.Must(json.Marshal(stage.Prompt(question.Await.Prompt)))
		res, err := rn.Resume(ctx, chat, runner.Complete(question.ID, answer, "ada"))
		if errors.Is(err, session.ErrInvalidResumePayload) {
			stage.Line("refused", "answer", "%v", err)
			continue
		}
		stage.Check(err)
		end = stage.Events(res.Events(ctx))
	}
}
