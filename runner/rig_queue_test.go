package runner_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// parrot is a model that calls the tools which the last message of its user names
// after "use", and otherwise says "re: " and that message.
func parrot() modelFunc {
	return func(r llm.Request) []llm.Event {
		var events []llm.Event
		last := r.Messages[len(r.Messages)-1]
		said := "re: " + last.Text()
		if last.Role == llm.RoleTool {
			said = "so"
		}
		if names, uses := strings.CutPrefix(last.Text(), "use "); uses {
			for _, name := range strings.Fields(names) {
				events = append(events, llm.PartDone{Part: llm.ToolCall{Name: name,
					Arguments: []byte(`{"text":"a"}`)}})
			}
		} else {
			events = append(events, llm.PartDone{Part: llm.Text{Text: said}})
		}
		return append(events, llm.Finish{Reason: llm.StopEnd})
	}
}

// echoRig is a rig of that model, in memory.
func echoRig(t *testing.T, o *rigOptions, tools ...tool.Tool) *rig {
	t.Helper()
	if o == nil {
		o = &rigOptions{}
	}
	o.memory = true
	return newRig(t, agent.Config{Tools: tools, Model: parrot()}, o)
}

// payingRig is echoRig with a tool "pay", whose calls are approved first.
func payingRig(t *testing.T, o *rigOptions, n *counter) *rig {
	t.Helper()
	if o == nil {
		o = &rigOptions{}
	}
	o.memory = true
	return newRig(t, agent.Config{Tools: []tool.Tool{instant("pay", tool.Once, n)},
		Model: parrot(), Interceptors: approval()}, o)
}

// send sends a message, whose id is its text.
func (r *rig) send(text string, while runner.While) runner.Sent {
	r.t.Helper()
	sent, err := r.Send(r.t.Context(), user, chat, llm.UserText(text),
		&runner.SendOptions{MessageID: text, While: while})
	must(r.t, err)
	return sent
}

// sent returns how the message of an id stands.
func (r *rig) sentAs(id string) runner.Sent {
	r.t.Helper()
	sent, err := r.Sent(r.t.Context(), chat, id, user)
	must(r.t, err)
	return sent
}

// reads fails the test unless these are the texts of the history, without those
// that are empty.
func (r *rig) reads(want string) {
	r.t.Helper()
	var texts []string
	for _, text := range r.texts() {
		if text != "" {
			texts = append(texts, text)
		}
	}
	if got := strings.Join(texts, " | "); got != want {
		r.t.Errorf("the history is\n%s\nand not\n%s", got, want)
	}
}

// queue lists the ids of what waits.
func (r *rig) queue() string {
	r.t.Helper()
	var ids []string
	for _, q := range r.transcript().Queue {
		ids = append(ids, q.ID)
	}
	return strings.Join(ids, ", ")
}

// rest closes the runner, and checks the store.
func (r *rig) rest() {
	r.t.Helper()
	if len(r.transcript().Pending) == 0 {
		r.acceptable()
	}
	must(r.t, r.Close())
	r.sound()
}

// userTexts lists the user's messages among events.
func (s *seen) userTexts() string {
	var texts []string
	for _, m := range of[event.Message](s) {
		if m.Message.Role == llm.RoleUser {
			texts = append(texts, m.Message.Text())
		}
	}
	return strings.Join(texts, ", ")
}

// refuses are options by which answers of that kind are not allowed.
func refuses(why error, kind runner.AnswerKind) *runner.Options {
	return &runner.Options{Logger: slog.New(slog.DiscardHandler),
		Authorizer: func(_ context.Context, op runner.Operation) error {
			if op.Answer == kind {
				return why
			}
			return nil
		}}
}
