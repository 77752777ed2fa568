// Command deploy is what fermata is for. A tool call waits for an outside job.
// The process that ran the call exits. The job calls back days later, and
// another process carries the agent on.
//
//	go run ./examples/deploy
//
// The program runs itself twice, as two processes that share one file: see
// show.go. This file is the program that you would write.
//
// It prints:
//
//	1  A user asks. The call waits for a job, and the process exits
//
//	assistant calls deploy {"service":"checkout","version":"v2.5.0"}
//	deploy    waits for job-1
//	run       paused
//
//	2  No process runs. The call waits in the file, for a minute or a month
//
//	time      a second passes
//
//	3  Another process opens the file and shows what is in it
//
//	user      Deploy checkout v2.5.0, please.
//	assistant calls deploy {"service":"checkout","version":"v2.5.0"}
//	deploy    waits for job-1
//
//	4  The job reports how far it is, and calls back when it is done
//
//	deploy     33 %  built
//	deploy     67 %  tested
//	webhook   answers 200 OK
//	deploy    done: {"url":"https://checkout.example.com"}
//	assistant Checkout v2.5.0 is live.
//	run       stop
//
//	5  The job calls back once more, to be sure. Nothing happens twice
//
//	webhook   answers 200 OK, duplicate: true
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

var (
	file   = flag.String("file", "", "the `file` that keeps the sessions")
	ci     = flag.String("ci", "", "the `URL` of the CI server")
	listen = flag.String("listen", "", "the `address` where webhooks arrive")
	ask    = flag.String("ask", "", "a `message` for the agent; without it, webhooks are served")
)

type DeployInput struct {
	Service string `json:"service"`
	Version string `json:"version" jsonschema:"description=As tagged,pattern=^v[0-9]"`
}

type DeployOutput struct {
	URL string `json:"url"`
}

// deploy starts a job on the CI server and doesn't wait for it. The job gets a
// URL by which it reports how far it is and, at the end, what came of it.
var deploy = tool.Must(tool.Func(
	tool.Spec{
		Name: "deploy", Description: "Deploy a service.",
		Effect: tool.Idempotent, MayPause: true,
	},
	func(ctx context.Context, in DeployInput) (tool.Result[DeployOutput], error) {
		call := tool.CallFrom(ctx)
		token := call.Token(tool.PermitComplete, tool.PermitProgress)
		callback := webhook.URL("http://"+*listen+"/hooks", token)
		job, err := startJob(ctx, in, callback, call.IdempotencyKey())
		if err != nil {
			return nil, err // the model sees it and may try again
		}
		return tool.Pending[DeployOutput](tool.Await{Key: job, Timeout: time.Hour}), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("deploy", `{"service":"checkout","version":"v2.5.0"}`),
	fakellm.Says("Checkout v2.5.0 is live."))

func main() {
	flag.Parse()
	if *file == "" {
		store.Share() // what -store names is the processes'
		show()
		return
	}
	ctx := context.Background()
	db, err := store.Open(*file)
	check(err)
	defer db.Close()
	ag, err := agent.New(agent.Config{Name: "ops", Model: model, Tools: []tool.Tool{deploy}})
	check(err)
	rn, err := runner.New(ag, session.NewStore(db, nil), nil)
	check(err)
	defer rn.Close()

	// The first process runs the agent until a call waits, and exits.
	if *ask != "" {
		follow(rn.Run(ctx, "ada", "chat-1", llm.UserText(*ask), nil))
		return
	}

	// The second one takes the callback. The webhook makes the result durable,
	// the worker carries the agent on, and Follow shows what happens.
	hooks, err := webhook.New(rn, webhook.Config{})
	check(err)
	go func() { check(http.ListenAndServe(*listen, hooks)) }()
	go rn.Work(ctx, nil)
	follow(rn.Follow(ctx, "chat-1", "ada", &runner.FollowOptions{ThroughWaits: true}))
	_, _ = io.Copy(io.Discard, os.Stdin) // serve until the input ends
}

// follow prints what a session does.
func follow(events iter.Seq2[event.Event, error]) {
	for ev, err := range events {
		check(err)
		switch ev := ev.(type) {
		case event.Message:
			if text := ev.Message.Text(); text != "" {
				fmt.Printf("%-9s %s\n", ev.Message.Role, text)
			}
			for _, c := range ev.Message.ToolCalls() {
				fmt.Printf("%-9s calls %s %s\n", ev.Message.Role, c.Name, c.Arguments)
			}
		case event.Progress:
			p := ev.Progress
			fmt.Printf("%-9s %3.0f %%  %s\n", ev.Tool, 100*p.Fraction, p.Message)
		case event.Pause:
			fmt.Printf("%-9s waits for %s\n", ev.Pause.Tool, ev.Pause.Await.Key)
		case event.Result:
			fmt.Printf("%-9s %s: %s\n", ev.Result.Name, ev.Status, ev.Result.Output)
		case event.End:
			fmt.Printf("%-9s %s\n", "run", ev.Finish)
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		os.Exit(1)
	}
}
