package runner_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// sees waits until a handle satisfies a condition, as a caller sees it.
func (r *rig) sees(name string, holds func(*tool.Handle) bool) tool.Handle {
	r.t.Helper()
	for {
		h, err := r.Fetch(r.t.Context(), chat, name, user)
		must(r.t, err)
		if holds(&h) {
			return h
		}
	}
}

func asksLive(h *tool.Handle) bool { return h.Content.Question != nil }

// An input that was given while a program ran, and is handed over when it asks,
// is no answer, neither to a person's question nor to one of the model's. What
// is given to the question afterwards is.
func TestAnInputBeforeAQuestionIsNoAnswer(t *testing.T) {
	for _, by := range []string{"user", "assistant"} {
		t.Run(by, func(t *testing.T) {
			dir := t.TempDir()
			program := `mkfifo ask read; echo up; read x < ask; ` +
				`echo '{"type":"waiting","question":{"id":"q","text":"Deploy?","for":"` + by + `"}}'; ` +
				`read x < read; read start; read one; read two; read three; ` +
				`echo "{\"type\":\"stopped\",\"result\":[$two,$three]}"`
			// The first input fills the pipe, so that the second waits behind it.
			long := `"` + strings.Repeat("x", 100<<10) + `"`
			var r *rig
			goOn := func(to string) { // each of them once: a reader may be faster than the end of a writer
				must(t, os.WriteFile(filepath.Join(dir, to), []byte("on\n"), 0o600))
			}
			model := fakellm.New(
				fakellm.Calls("sh", `{"action":"spawn","id":"a",`+scripted(program)[1:]),
				fakellm.Calls("sh", `{"action":"apply","id":"a","input":`+long+`}`),
				fakellm.From(func(llm.Request) fakellm.Turn {
					r.sees("a", func(h *tool.Handle) bool { return h.Content.Total > 0 })
					return fakellm.Calls("sh", `{"action":"apply","id":"a","input":"yes"}`)
				}), fakellm.Says("Done."))
			r = newRig(t, agent.Config{Model: model,
				Tools: []tool.Tool{shell(t, dir, tool.Once)}}, &rigOptions{memory: true})
			r.say("Go.").finished(event.FinishStop)
			goOn("ask")
			r.sees("a", asksLive)
			_, err := r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user, Delivery: "1",
				Value: json.RawMessage(`"no"`)})
			must(t, err)
			goOn("read")
			const want = `[{"type":"input","input":"yes"},{"type":"answer","id":"q","answer":"no"}]`
			if h := r.awaited("a"); string(h.Output) != want {
				t.Errorf("%s: %.300s", h.Status, h.Output)
			}
			r.told(0)
		})
	}
}

// What was given is kept with the question that it was given for, and with who
// gave it.
func TestAnInputKnowsItsQuestion(t *testing.T) {
	says := make(chan tool.Content)
	own := rawTool{tool.Spec{Name: "build", Effect: tool.Idempotent, MayPause: true,
		Input:   json.RawMessage(`{"type":"object","properties":{}}`),
		Mailbox: []tool.MailboxEvent{{Name: tool.InputEvent}}}, talksUntil(says, 3)}
	model := fakellm.New(fakellm.Says("Hi."),
		fakellm.Calls("build", `{"action":"apply","id":"a","input":"one"}`), fakellm.Says("Done."),
		fakellm.Calls("build", `{"action":"apply","id":"a","input":"two"}`), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{kept(t, own)}}, nil)
	r.say("Hello.").finished(event.FinishStop)
	s := r.spawned("a", "build", `{}`)
	r.say("1").finished(event.FinishStop)
	for i, q := range []tool.LiveQuestion{{ID: "q1", Text: "?", Assistant: true}, {ID: "q2", Text: "?"}} {
		r.said(says, tool.Content{Total: i + 1, Tail: "?", Question: &q})
		if i == 0 {
			r.say("2").finished(event.FinishStop)
		}
	}
	_, err := r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user, Delivery: "3",
		Value: json.RawMessage(`"three"`)})
	must(t, err)
	r.awaited("a")
	var got []string
	for m, err := range r.Received(t.Context(), s.Session, s.Call, user) {
		must(t, err)
		by := "model"
		if m.Person {
			by = "person"
		}
		got = append(got, string(m.Payload)+m.Question+by)
	}
	if all := strings.Join(got, " "); all != `"one"model "two"q1model "three"q2person` {
		t.Error(all)
	}
	r.told(0)
}
