package runner_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// Types that read themselves: one ends its goroutine, one takes as long as it is told.
type (
	quitter struct{}
	dawdler struct{}
)

func (*quitter) UnmarshalJSON([]byte) error { runtime.Goexit(); return nil }

func (*dawdler) UnmarshalText([]byte) error {
	wake := make(chan struct{})
	dawdlers <- wake
	<-wake
	return nil
}

var dawdlers = make(chan chan struct{})

// reading is a rig with a tool whose argument is an In.
func reading[In any](t *testing.T) *rig {
	type in struct {
		Who In `json:"who"`
	}
	return newRig(t, agent.Config{
		Tools: []tool.Tool{tool.Must(tool.Func(tool.Spec{Name: "greet", Description: "Greets.", Effect: tool.ReadOnly},
			func(context.Context, in) (tool.Result[textOut], error) { return tool.Done(textOut{"hello"}), nil }))},
		Model: messages(calls("greet", `{"who":"Ada"}`), says("Done.")),
	}, nil)
}

// Code that reads a tool's arguments and ends its goroutine fails the call: the goroutine was not the caller's.
func TestReadingArgumentsEndsTheGoroutine(t *testing.T) {
	r := reading[quitter](t)
	gone, over := make(chan struct{}), false
	go func() {
		defer close(gone)
		shows(t, r.say("Go.").finished(event.FinishStop), "greet failed")
		over = true
	}()
	<-gone
	if !over {
		t.Error("the caller's goroutine has ended")
	}
}

// Code that reads a tool's arguments and takes its time keeps nobody from leaving.
func TestReadingArgumentsTakesLong(t *testing.T) {
	r := reading[dawdler](t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan *seen, 1)
	go func() { ended <- watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil)) }()
	wake := <-dawdlers
	defer close(wake)
	cancel()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the run doesn't end while the arguments are read")
	}
}
