package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// whoseAnswer is a way in which a handle waits, and who may end that by an
// input.
type whoseAnswer struct {
	await   *tool.Await        // with which the body ends
	live    *tool.LiveQuestion // that it asks while it runs
	lost    bool               // its process dies, and what it did is unknown
	layers  interceptor.Chain
	decides string // who, in the words of the model's refusal; empty: the model
	program bool   // a program's input ends it
}

var whoseAnswers = map[string]whoseAnswer{
	"a person's answer": {await: &tool.Await{Prompt: "Which?"},
		decides: "a person's answer", program: true},
	"the model's answer": {
		await: &tool.Await{Reason: tool.ReasonAssistant, Prompt: "Which?"}, program: true},
	"a layer's gate":     {layers: approval(), decides: "a person's approval"},
	"an unknown outcome": {lost: true, decides: "an operator's word", program: true},
	"a person, asked by a body that runs": {
		live: &tool.LiveQuestion{ID: "q", Text: "Which?"}, decides: "a person's answer", program: true},
	"the model, asked by a body that runs": {
		live: &tool.LiveQuestion{ID: "q", Text: "Which?", Assistant: true}, program: true},
}

// tool returns a tool whose handles wait in that way, and what tells that a body
// was entered, or has asked.
func (w whoseAnswer) tool(t *testing.T) (_ tool.Tool, entered chan struct{}) {
	t.Helper()
	entered = make(chan struct{}, 2)
	spec := tool.Spec{Name: "build", MayPause: true, AskOperator: w.lost,
		Mailbox: []tool.MailboxEvent{{Name: tool.InputEvent}}}
	if !w.lost {
		spec.Effect = tool.Idempotent
	}
	own := rawTool{spec, func(ctx context.Context, c tool.Call) (tool.Execution, error) {
		if w.live == nil {
			entered <- struct{}{}
		}
		switch live := c.Host.(tool.Live); {
		case c.Answer != nil:
			return tool.Execution{Output: c.Answer.Payload}, nil
		case w.await != nil:
			await := *w.await
			return tool.Execution{Await: &await}, nil
		case w.live != nil:
			live.Produce(ctx, c, tool.Content{Total: 1, Tail: "?", Question: w.live})
			entered <- struct{}{}
			mail, _, err := live.NextMail(ctx, c, 0)
			if err != nil {
				return tool.Execution{}, err
			}
			return tool.Execution{Output: mail[0].Payload}, nil
		case w.lost:
			<-ctx.Done()
			return tool.Execution{}, ctx.Err()
		}
		return tool.Execution{Output: json.RawMessage(`"ran"`)}, nil
	}}
	made, err := handle.Stateful(own, &handle.Options{Asks: true,
		HandlePolicy: tool.HandlePolicy{AtEnd: tool.KeepAtEnd}})
	must(t, err)
	return made, entered
}

// Whatever a handle waits for, the model's input ends that only where the answer
// is the model's. What it is refused for changes nothing.
func TestWhatAModelAnswersIsItsOwn(t *testing.T) {
	for name, w := range whoseAnswers {
		t.Run(name, func(t *testing.T) {
			r, before := w.begun(t)
			r.say("Answer it.").finished(event.FinishStop)
			got := r.outputs()[0]
			refused := strings.Contains(got, "not yours to answer") &&
				strings.Contains(got, "It waits for "+w.decides+".")
			if refused != (w.decides != "") {
				t.Errorf("the model's input comes to %s", got)
			}
			if refused {
				st, err := r.store.Load(t.Context(), before.Session)
				must(t, err)
				after := st.Call(before.Call)
				h, err := r.Fetch(t.Context(), chat, "a", user)
				must(t, err)
				if h.State != tool.HandleWaiting || after.Answer != nil ||
					after.Mailbox != nil && after.Mailbox.Count != 0 {
					t.Errorf("it has come to %+v, with %+v", h, after)
				}
				must(t, r.Abort(t.Context(), chat, "a", user, ""))
			}
			if h := r.awaited("a"); !refused && string(h.Output) != `"gcc"` {
				t.Errorf("it has come to %+v", h)
			}
			r.told(0)
		})
	}
}

// A program, which acts for a person, answers whatever is a question. What waits
// for a decision isn't ended by an input.
func TestWhatAProgramAnswers(t *testing.T) {
	for name, w := range whoseAnswers {
		t.Run(name, func(t *testing.T) {
			r, _ := w.begun(t)
			_, err := r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user,
				Value: json.RawMessage(`"gcc"`), Delivery: "1"})
			if (err == nil) != w.program {
				t.Errorf("the program's input comes to %v", err)
			}
			if !w.program {
				must(t, r.Abort(t.Context(), chat, "a", user, ""))
			}
			if h := r.awaited("a"); w.program && string(h.Output) != `"gcc"` {
				t.Errorf("it has come to %+v", h)
			}
			r.told(0)
		})
	}
}

// begun returns a rig whose handle waits in that way, and the handle. Its model
// gives it an input once it is told to.
func (w whoseAnswer) begun(t *testing.T) (*rig, tool.Handle) {
	t.Helper()
	made, entered := w.tool(t)
	r := newRig(t, agent.Config{Tools: []tool.Tool{made}, Interceptors: w.layers,
		Model: fakellm.New(fakellm.Says("Hi."),
			fakellm.Calls("build", `{"action":"apply","id":"a","input":"gcc"}`),
			fakellm.Says("Done."))}, &rigOptions{memory: true})
	r.say("Hello.").finished(event.FinishStop)
	r.spawned("a", "build", `{}`)
	switch {
	case w.live != nil: // no commit tells of its question
		<-entered
	case w.lost:
		<-entered
		r.restart()
	}
	r.asking("a")
	h, err := r.Fetch(t.Context(), chat, "a", user)
	must(t, err)
	return r, h
}

// An input that a body can't take is refused to a caller before it is stored, as
// it is to a model.
func TestAnInputIsCheckedBeforeItIsStored(t *testing.T) {
	model := fakellm.New(fakellm.Says("Hi."),
		fakellm.Calls("sh", `{"action":"apply","id":"a","input":{}}`).
			And("sh", `{"action":"apply","id":"a","input":{"text":"x\n"}}`),
		fakellm.Says("Done."), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{programs(t)}, Model: model}, nil)
	r.say("Hello.").finished(event.FinishStop)
	s := r.spawned("a", "sh", `{"script":"read x; echo got $x"}`)
	_, err := r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user,
		Value: json.RawMessage(`"x"`), Delivery: "1"})
	if !errors.Is(err, session.ErrInvalidResumePayload) ||
		!strings.Contains(err.Error(), `an input is {"text": "…"}`) {
		t.Errorf("the program's input comes to %v", err)
	}
	c, err := r.Call(t.Context(), s.Session, s.Call, user)
	must(t, err)
	if c.Mail.Count != 0 {
		t.Errorf("it was stored: %+v", c.Mail)
	}
	r.say("Type.").finished(event.FinishStop)
	if got := r.outputs()[0]; !strings.Contains(got, "neither") {
		t.Errorf("the model's input comes to %s", got)
	}
	if h := r.awaited("a"); !strings.Contains(string(h.Output), "got x") {
		t.Errorf("it has come to %s", h.Output)
	}
	r.told(0)
}
