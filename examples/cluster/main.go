// Command cluster is a service of several processes on one store: two replicas,
// which take messages and webhooks, and two workers, which drive the agent.
//
//	go run .
//
// The program runs itself as those four processes, on a PostgreSQL that it
// starts, or on an etcd within it where PostgreSQL isn't installed: see show.go.
// With -store it uses another one, which is left as it is then:
//
//	go run . -store postgres://user@host/database
//	go run . -store etcd://host:2379
//
// This file is the program that you would write.
//
// It prints:
//
//	1  A user asks one replica. One of two workers begins
//
//	worker 1  calls check {"service":"checkout"}
//
//	2  That worker is killed in the middle. The other one takes over
//
//	worker 2  check: passed, of one job
//	worker 2  calls deploy {"service":"checkout"}
//	worker 2  waits for a job
//
//	3  The replica that was asked ends. The job calls the other one back
//
//	webhook   answered 200 OK
//	worker 2  deploy: done
//	worker 2  says Checkout is live.
//
//	4  The job calls back once more, to be sure. Nothing happens twice
//
//	webhook   answered 200 OK, duplicate: true
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/cluster/engines"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

var (
	store  = flag.String("store", "", "the `URL` of the store: postgres://… or etcd://…")
	listen = flag.String("listen", "", "the `address` of a replica; without it, this is a worker")
	public = flag.String("public", "", "the `URL` at which replicas take webhooks")
	jobs   = flag.String("jobs", "", "the `URL` of the service that runs jobs")
	part   = flag.Bool("part", false, "be one process of the cluster, and not the show")
)

type Input struct {
	Service string `json:"service"`
}

type Output struct {
	Result string `json:"result"`
}

// check runs for a while. It may be run again, under the same key.
var check = tool.Must(tool.Func(
	tool.Spec{Name: "check", Description: "Check a service.", Effect: tool.Idempotent},
	func(ctx context.Context, in Input) (tool.Result[Output], error) {
		result, err := ask(ctx, *jobs+"/check", tool.CallFrom(ctx).IdempotencyKey(), "")
		if err != nil {
			return nil, err
		}
		return tool.Done(Output{result}), nil
	}))

// deploy starts a job that calls back.
var deploy = tool.Must(tool.Func(
	tool.Spec{Name: "deploy", Description: "Deploy a service.", Effect: tool.Idempotent,
		MayPause: true},
	func(ctx context.Context, in Input) (tool.Result[Output], error) {
		call := tool.CallFrom(ctx)
		callback := webhook.URL(*public+"/hooks", call.Token(tool.PermitComplete))
		job, err := ask(ctx, *jobs+"/deploy", call.IdempotencyKey(), callback)
		if err != nil {
			return nil, err
		}
		return tool.Pending[Output](tool.Await{Key: job, Timeout: time.Hour}), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("check", `{"service":"checkout"}`),
	fakellm.Calls("deploy", `{"service":"checkout"}`),
	fakellm.Says("Checkout is live."))

func main() {
	flag.Parse()
	if !*part {
		show()
		return
	}
	ctx := context.Background()
	kv, err := engines.Open(ctx, *store, "")
	fail(err)
	defer kv.Close()
	ag, err := agent.New(agent.Config{Name: "ops", Model: model,
		Tools: []tool.Tool{check, deploy}})
	fail(err)
	// All processes have one clock here, and needn't wait long for one that died.
	sessions := session.NewStore(kv, &session.Options{Lease: 3 * time.Second,
		MaxSkew: 100 * time.Millisecond})
	quiet := slog.New(slog.DiscardHandler) // a death is shown, and not logged
	rn, err := runner.New(ag, sessions, &runner.Options{Logger: quiet})
	fail(err)
	defer rn.Close()
	if *listen == "" {
		go rn.Work(ctx, &runner.WorkOptions{OnEvent: print})
	} else {
		go serve(rn)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the input ends
}

// serve is a replica: it takes messages and webhooks, and drives nothing.
func serve(rn *runner.Runner) {
	hooks, err := webhook.New(rn, webhook.Config{})
	fail(err)
	mux := http.NewServeMux()
	mux.Handle("/hooks/", hooks)
	mux.HandleFunc("POST /messages/{session}", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
		if err == nil {
			_, err = rn.Send(r.Context(), "ada", r.PathValue("session"), llm.UserText(string(text)), nil)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	fail(http.ListenAndServe(*listen, mux))
}

// print tells what a worker does.
func print(_ string, ev event.Event, err error) {
	if err != nil {
		return // another worker has the session
	}
	switch ev := ev.(type) {
	case event.Message:
		if text := ev.Message.Text(); text != "" && ev.Message.Role == llm.RoleAssistant {
			fmt.Println("says", text)
		}
		for _, c := range ev.Message.ToolCalls() {
			fmt.Println("calls", c.Name, string(c.Arguments))
		}
	case event.Pause:
		fmt.Println("waits for a", ev.Pause.Await.Key)
	case event.Result:
		fmt.Println(said(ev))
	}
}

func fail(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
