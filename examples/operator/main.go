// Command operator dies while a tool runs, and nothing can tell what the tool
// did. So the call waits for an operator, who looks into it and says what
// happened.
//
//	go run ./examples/operator
//
// The program starts itself twice on one file. The first process dies in the
// tool's body.
//
// It prints:
//
//	process 1
//	body dials, and the process dies
//	it ends; error: exit status 1
//
//	process 2
//	fax waits: unknown
//	operator is asked: The program stopped while fax was running. What became of it? The answer is the tool's output. If it did not happen, it can be run again.
//	model reads: "sent at 10:42"
//	model says: The order was faxed.
//	it ends; error: <nil>
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// dir has the agent's file.
var dir = os.Getenv("OPERATOR_DIR")

// fax has the default effect, tool.Once: after a crash its body is not entered
// again. There is no system to ask whether the fax went out, so it has no
// Reconcile, and an operator is asked.
var fax = tool.Must(tool.Func(
	tool.Spec{Name: "fax", Description: "Send a fax.", AskOperator: true},
	func(context.Context, struct{}) (tool.Result[string], error) {
		fmt.Println("body dials, and the process dies")
		os.Exit(1) // nothing is closed, nothing is written any more
		return nil, nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("fax", `{}`),
	fakellm.Says("The order was faxed."))

func main() {
	if dir == "" {
		supervise()
		return
	}
	ctx := context.Background()
	db, err := store.Open(filepath.Join(dir, "fermata.db"))
	check(err)
	defer db.Close()
	ag, err := agent.New(agent.Config{Name: "office", Model: model, Tools: []tool.Tool{fax}})
	check(err)
	quiet := &runner.Options{Logger: slog.New(slog.DiscardHandler)} // the log tells of the crash
	rn, err := runner.New(ag, session.NewStore(db, store.Options()), quiet)
	check(err)
	defer rn.Close()

	// The message has an id: sent again by the second process, it is not taken
	// for another one.
	options := &runner.RunOptions{MessageID: "m-1"}
	show(rn.Run(ctx, "ada", "chat-1", llm.UserText("Fax the order."), options))

	// What waits for an operator, over all sessions.
	filter := session.PauseFilter{Reason: tool.ReasonUnknown}
	for p, err := range rn.Pending(ctx, filter, "operator") {
		check(err)
		fmt.Println("operator is asked:", p.Await.Prompt)
		// The operator has looked at the fax machine. What is said is the call's
		// result. Otherwise runner.RunAgain would have the fax sent, and
		// runner.Fail would tell the model that it wasn't.
		said := runner.Complete(p.ID, "operator", json.RawMessage(`"sent at 10:42"`))
		res, err := rn.Resume(ctx, p.Session, said)
		check(err)
		show(res.Events(ctx))
	}
}

// supervise starts the program again, as a service manager does.
func supervise() {
	tmp, err := os.MkdirTemp("", "operator-")
	check(err)
	defer os.RemoveAll(tmp)
	store.Share() // what -store names is the processes'
	self, err := os.Executable()
	check(err)
	for n := range 2 {
		fmt.Println("\nprocess", n+1)
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "OPERATOR_DIR="+tmp)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err := cmd.Run()
		fmt.Println("it ends; error:", err)
		store.WaitForLease()
	}
}

func show(events iter.Seq2[event.Event, error]) {
	for ev, err := range events {
		check(err)
		switch ev := ev.(type) {
		case event.Pause:
			fmt.Printf("%s waits: %s\n", ev.Pause.Tool, ev.Pause.Await.Reason)
		case event.Result:
			fmt.Println("model reads:", string(ev.Result.Output))
		case event.TextDelta:
			fmt.Println("model says:", ev.Delta)
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
