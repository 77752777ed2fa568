// Command worker has handlers that only accept, and one worker that does the
// work. A request ends as soon as its message is stored; an answer ends as soon
// as it is durable. The worker carries both on.
//
//	go run ./examples/worker
//
// It prints:
//
//	request: the message is stored, and the browser is gone
//	session: user: Render it.
//	session: waits for job-1
//	web: accepted the answer
//	session: has the result "film.mp4"
//	session: assistant: The film is ready.
//	session: ends: stop
//	worker: ends: context canceled
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// render waits for an outside job.
var render = tool.Must(tool.Func(
	tool.Spec{
		Name: "render", Description: "Render the film.",
		Effect: tool.Idempotent, MayPause: true,
	},
	func(context.Context, struct{}) (tool.Result[string], error) {
		return tool.Pending[string](tool.Await{Key: "job-1"}), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("render", `{}`),
	fakellm.Says("The film is ready."))

func main() {
	ctx := context.Background()
	kv, err := store.Open("") // in memory, or what -store names
	check(err)
	defer kv.Close()
	sessions := session.NewStore(kv, nil)
	ag, err := agent.New(agent.Config{Name: "studio", Model: model, Tools: []tool.Tool{render}})
	check(err)

	// The web side has no agent, and so no model and no tools: it only takes
	// answers. It may be another process, on an engine that processes share.
	web, err := runner.New(nil, sessions, nil)
	check(err)
	defer web.Close()

	// The worker drives every session that is due.
	rn, err := runner.New(ag, sessions, nil)
	check(err)
	defer rn.Close()
	working, stop := context.WithCancel(ctx)
	worker := make(chan error, 1)
	go func() { worker <- rn.Work(working, nil) }()

	// A request comes, and its browser goes away after the first event. The run
	// is detached: the worker carries it on. The message has an id: sent once
	// more, it is not taken for a second message.
	options := &runner.RunOptions{Detached: true, MessageID: "m-1"}
	for _, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText("Render it."), options) {
		check(err)
		fmt.Println("request: the message is stored, and the browser is gone")
		break
	}

	// Follow shows what others do to the session.
	through := &runner.FollowOptions{ThroughWaits: true}
	for ev, err := range web.Follow(ctx, "chat-1", "ada", through) {
		check(err)
		switch ev := ev.(type) {
		case event.Pause:
			fmt.Println("session: waits for", ev.Pause.Await.Key)
			// The job answers. The web side makes that durable, and no more.
			answer := runner.Complete(ev.Pause.ID, "farm", json.RawMessage(`"film.mp4"`))
			_, err := web.Resume(ctx, ev.Pause.Session, answer)
			check(err)
			fmt.Println("web: accepted the answer")
		case event.Result:
			fmt.Println("session: has the result", string(ev.Result.Output))
		case event.Message:
			if text := ev.Message.Text(); text != "" {
				fmt.Printf("session: %s: %s\n", ev.Message.Role, text)
			}
		case event.End:
			fmt.Println("session: ends:", ev.Finish)
		}
	}

	// The end, in order: the worker, the runners, the store.
	stop()
	fmt.Println("worker: ends:", <-worker)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
