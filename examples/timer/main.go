// Command timer sleeps in a way that outlives the process. A call sets a timer
// and waits. The process may end; the call goes on when its time has come.
//
//	go run ./examples/timer
//
// It prints:
//
//	call waits for: timer 1s
//	run ends: paused
//	everything is closed, and the time runs
//	model reads: "now: stand up"
//	model says: It is time to stand up.
//	run ends: stop
//	the session has 4 messages
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/examples/store"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

type RemindInput struct {
	Text    string `json:"text"`
	Seconds int    `json:"seconds" jsonschema:"minimum=1"`
}

// remind is entered twice. The first time it has no answer, and sets the timer.
// The second time the timer is the answer.
var remind = tool.Must(tool.Func(
	tool.Spec{
		Name: "remind", Description: "Remind the user later.",
		Effect: tool.Idempotent, MayPause: true,
	},
	func(ctx context.Context, in RemindInput) (tool.Result[string], error) {
		if tool.CallFrom(ctx).Answer == nil {
			return tool.Pending[string](tool.Await{
				Reason: tool.ReasonTimer, Timeout: time.Duration(in.Seconds) * time.Second,
			}), nil
		}
		return tool.Done("now: " + in.Text), nil
	}))

// model is a script in place of a model, so that the example needs no key.
var model = fakellm.New(
	fakellm.Calls("remind", `{"text":"stand up","seconds":1}`),
	fakellm.Says("It is time to stand up."))

// open opens the file, as each process does when it starts.
func open(file string) (rn *runner.Runner, closeAll func()) {
	db, err := store.Open(file)
	check(err)
	ag, err := agent.New(agent.Config{Name: "coach", Model: model, Tools: []tool.Tool{remind}})
	check(err)
	rn, err = runner.New(ag, session.NewStore(db, nil), nil)
	check(err)
	return rn, func() { check(rn.Close()); check(db.Close()) }
}

func main() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "timer-")
	check(err)
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "fermata.db")

	rn, closeAll := open(file)
	for ev, err := range rn.Run(ctx, "ada", "chat-1", llm.UserText("Remind me to stand up."), nil) {
		check(err)
		show(ev)
	}
	closeAll()
	fmt.Println("everything is closed, and the time runs")

	// Another process, perhaps tomorrow. Its worker sleeps until the timer is
	// due; a timer that was due in between fires at once.
	rn, closeAll = open(file)
	defer closeAll()
	check(rn.Work(ctx, &runner.WorkOptions{
		Session: "chat-1", UntilOver: true, // a service leaves these out
		OnEvent: func(_ string, ev event.Event, err error) { check(err); show(ev) },
	}))
	p, err := rn.Show(ctx, "chat-1", "ada")
	check(err)
	fmt.Println("the session has", p.Messages, "messages")
}

func show(ev event.Event) {
	switch ev := ev.(type) {
	case event.Pause:
		fmt.Println("call waits for:", ev.Pause.Await.Reason, ev.Pause.Deadline.Sub(ev.Pause.Since))
	case event.Result:
		fmt.Println("model reads:", string(ev.Result.Output))
	case event.TextDelta:
		fmt.Println("model says:", ev.Delta)
	case event.End:
		fmt.Println("run ends:", ev.Finish)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
