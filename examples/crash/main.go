// Command crash dies in the middle of a payment. After the restart the tool's
// body is not entered again: the payment service is asked what became of it.
//
//	go run ./examples/crash
//
// The program starts itself three times on one file. The first process dies
// after the money has moved, and before anything could be recorded of it.
//
// It prints:
//
//	process 1
//	body pays
//	the process dies
//	it ends; error: exit status 1
//
//	process 2
//	reconcile asks the payment service
//	model reads: "paid"
//	model says: The invoice is paid.
//	the session has 4 messages
//	it ends; error: <nil>
//
//	process 3
//	the session has 4 messages
//	it ends; error: <nil>
package main

import (
	"context"
	"encoding/json"
	"errors"
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

// dir has the agent's file, and the payment service's ledger beside it.
var dir = os.Getenv("CRASH_DIR")

func ledger() string { return filepath.Join(dir, "ledger") }

// pay has the default effect, tool.Once: whatever happens, its body is entered
// once.
var pay = tool.Must(tool.Func(
	tool.Spec{
		Name: "pay", Description: "Pay an invoice.",
		// Reconcile finds out what became of a call that a crash cut off. It
		// doesn't do the work again.
		Reconcile: func(_ context.Context, call tool.Call) (tool.Execution, error) {
			fmt.Println("reconcile asks the payment service")
			paid, err := os.ReadFile(ledger())
			if errors.Is(err, os.ErrNotExist) || string(paid) != call.IdempotencyKey() {
				return tool.Execution{Output: json.RawMessage(`"not paid"`)}, nil
			}
			return tool.Execution{Output: json.RawMessage(`"paid"`)}, err
		},
	},
	func(ctx context.Context, _ struct{}) (tool.Result[string], error) {
		fmt.Println("body pays")
		check(os.WriteFile(ledger(), []byte(tool.CallFrom(ctx).IdempotencyKey()), 0o600))
		fmt.Println("the process dies")
		os.Exit(1) // nothing is closed, nothing is written any more
		return nil, nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("pay", `{}`),
	fakellm.Says("The invoice is paid."))

func main() {
	if dir == "" {
		supervise()
		return
	}
	ctx := context.Background()
	db, err := store.Open(filepath.Join(dir, "fermata.db"))
	check(err)
	defer db.Close()
	ag, err := agent.New(agent.Config{Name: "office", Model: model, Tools: []tool.Tool{pay}})
	check(err)
	quiet := &runner.Options{Logger: slog.New(slog.DiscardHandler)} // the log tells of the crash
	rn, err := runner.New(ag, session.NewStore(db, store.Options()), quiet)
	check(err)
	defer rn.Close()

	// The message has an id. So it is safe to send it again when in doubt: it
	// isn't appended twice, and the run goes on where it was.
	options := &runner.RunOptions{MessageID: "m-1"}
	show(rn.Run(ctx, "ada", "chat-1", llm.UserText("Pay the invoice."), options))
	t, err := rn.Show(ctx, "chat-1", "ada")
	check(err)
	fmt.Println("the session has", t.Messages, "messages")
}

// supervise starts the program again and again, as a service manager does.
func supervise() {
	tmp, err := os.MkdirTemp("", "crash-")
	check(err)
	defer os.RemoveAll(tmp)
	store.Share() // what -store names is the processes'
	self, err := os.Executable()
	check(err)
	for n := range 3 {
		fmt.Println("\nprocess", n+1)
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "CRASH_DIR="+tmp)
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
