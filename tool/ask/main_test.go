package ask_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/ask"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	user = "ada"
	chat = "chat-1"
)

// dialog is a session whose model asks once, with those arguments.
type dialog struct {
	*runner.Runner
	t   *testing.T
	now time.Time
}

func begin(t *testing.T, o *ask.Options, args string) (*dialog, event.End) {
	t.Helper()
	asks, err := ask.User(o)
	must(t, err)
	ag, err := agent.New(agent.Config{Name: "desk", Tools: []tool.Tool{asks},
		Model: fakellm.New(fakellm.Calls(asks.Spec().Name, args), fakellm.Says("I see."),
			fakellm.Says("Welcome."))})
	must(t, err)
	d := &dialog{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	store := session.NewStore(kvstore.NewMemory(), &session.Options{
		Now: func() time.Time { return d.now }})
	d.Runner, err = runner.New(ag, store, &runner.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() {
		for p, err := range hold.Of(store).Check(context.Background()) {
			t.Errorf("%v, %v", p, err)
		}
		d.Close()
	})
	return d, d.say("Help me.")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// say runs a user's message and returns the end of the run.
func (d *dialog) say(text string) (end event.End) {
	d.t.Helper()
	for ev, err := range d.Run(d.t.Context(), user, chat, llm.UserText(text), nil) {
		must(d.t, err)
		if e, ok := ev.(event.End); ok {
			end = e
		}
	}
	return end
}

// answer resumes with an answer and returns the end of the run.
func (d *dialog) answer(p tool.Pause, answer string) (end event.End, err error) {
	res, err := d.Resume(d.t.Context(), chat, runner.Complete(p.ID, user, []byte(answer)))
	if err != nil {
		return end, err
	}
	for ev, err := range res.Events(d.t.Context()) {
		must(d.t, err)
		if e, ok := ev.(event.End); ok {
			end = e
		}
	}
	return end, nil
}

// reads is the result of the call, as the model reads it.
func (d *dialog) reads() llm.ToolResult {
	d.t.Helper()
	t, err := d.Show(d.t.Context(), chat, user)
	must(d.t, err)
	for _, m := range t.History {
		for _, p := range m.Parts {
			if r, ok := p.(llm.ToolResult); ok {
				return r
			}
		}
	}
	d.t.Fatal("the model reads no result")
	return llm.ToolResult{}
}
