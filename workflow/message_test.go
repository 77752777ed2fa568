package workflow_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/workflow"
)

// shown is the session of the workflow.
func (r *rig) shown() runner.Session {
	r.t.Helper()
	s, err := r.Session(r.t.Context(), here, ada)
	must(r.t, err)
	return s
}

// refuses checks that the session takes no further message, and that it stands
// as before.
func (r *rig) refuses(when string) {
	r.t.Helper()
	before := r.shown()
	m := llm.UserText(`{"more":1}`)
	for name, got := range map[string]error{
		"run": r.say(m).err,
		"superseding": r.take(r.Run(r.t.Context(), ada, here, m,
			&runner.RunOptions{Supersede: true})).err,
		"sent":     r.sends(m, runner.WhileQueue),
		"steering": r.sends(m, runner.WhileSteer),
		"sent now": r.sends(m, runner.WhileRefuse),
	} {
		if !errors.Is(got, session.ErrInvalidMessage) || !strings.Contains(got.Error(), "takes one") {
			r.t.Errorf("%s, a message that is %s: %v", when, name, got)
		}
	}
	if is := r.shown(); is.Messages != before.Messages || is.Finish != before.Finish ||
		is.Why != before.Why {
		r.t.Errorf("%s, it is %+v; before that it was %+v", when, is, before)
	}
}

func (r *rig) sends(m llm.Message, while runner.While) error {
	_, err := r.Send(r.t.Context(), ada, here, m, &runner.SendOptions{While: while})
	return err
}

// A workflow takes no further message: not while it goes on, nor when it is
// done, nor when it has failed. It stays what it is. Its own message may come
// again.
func TestAWorkflowHearsOneMessage(t *testing.T) {
	for name, last := range map[string]tool.Tool{"done": echo("last"), "failed": bad("last")} {
		t.Run(name, func(t *testing.T) {
			w := two(t, last, "1")
			r := newRig(t, w.Agent())
			m, err := w.Message(nil)
			must(t, err)
			first := &runner.RunOptions{MessageID: "first"}
			r.take(r.Run(t.Context(), ada, here, m, first))
			r.refuses("while it waits")
			r.answer("a", "x")
			ended := r.carryOn()
			r.refuses("once it has ended")
			got := r.take(r.Run(t.Context(), ada, here, m, first))
			if got.end.Finish != ended.end.Finish || got.end.Why != ended.end.Why {
				t.Errorf("its own message again: %+v, %v; it had ended by %+v", got.end, got.err, ended.end)
			}
			r.sound()
		})
	}
}

// A message that comes while a workflow has work waits, and is refused when its
// place comes.
func TestAMessageAmongSteps(t *testing.T) {
	var r *rig
	var refused error
	w := build(t, workflow.New("sends").
		Step("a", fn("sends", func(context.Context, in) (out, error) {
			_, refused = r.Send(t.Context(), ada, here, llm.UserText("more"),
				&runner.SendOptions{MessageID: "more"})
			return out{"x"}, nil
		}), nil, nil).
		Output(workflow.From("a", "/text")))
	r = newRig(t, w.Agent())
	if got := r.begin(w, nil); got.text != "x" || got.end.Finish != event.FinishStop {
		t.Errorf("%+v, %v: %s", got.end, got.err, got.text)
	}
	r.carryOn()
	if refused == nil {
		sent, err := r.Sent(t.Context(), here, "more", ada)
		must(t, err)
		refused = errors.New(sent.Refused)
	}
	if !strings.Contains(refused.Error(), "takes one") {
		t.Errorf("it is refused with %v", refused)
	}
	is, err := r.Show(t.Context(), here, ada)
	must(t, err)
	if is.Finish != event.FinishStop || len(is.Queue) != 0 {
		t.Errorf("it stands as %+v", is)
	}
	r.sound()
}

// A process that doesn't have the workflow's agent takes a further message. Then
// the workflow tells that it has ended, and stays what it is.
func TestAMessageThroughAnotherProcess(t *testing.T) {
	other, err := agent.New(agent.Config{Name: "other", Model: fakellm.New()})
	must(t, err)
	for name, last := range map[string]tool.Tool{"done": echo("last"), "failed": bad("last")} {
		t.Run(name, func(t *testing.T) {
			w := build(t, workflow.New("one").
				Step("only", last, args{"text": "it"}, nil).Output(workflow.From("only", "/text")))
			r := newRig(t, w.Agent())
			ended := r.begin(w, nil)
			r.restart(other)
			must(t, r.sends(llm.UserText("more"), runner.WhileQueue))
			r.restart(w.Agent())
			got := r.carryOn()
			if got.end.Finish != ended.end.Finish || got.end.Why != ended.end.Why {
				t.Errorf("it ends as %+v, and had ended as %+v", got.end, ended.end)
			}
			if name == "done" && (!strings.Contains(got.text, "has ended") ||
				!strings.HasSuffix(got.text, "It came to: it")) {
				t.Errorf("it says %q", got.text)
			}
			r.sound()
		})
	}
}

// A message that answers the question of a step is taken.
func TestAMessageAnswersAStep(t *testing.T) {
	ask := tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true, Effect: tool.Idempotent},
		func(context.Context, in) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{Reason: tool.ReasonInput, Mode: tool.ModeMessage,
				Prompt: "Which?"}), nil
		}))
	w := build(t, workflow.New("asks").Step("a", ask, nil, nil).Output(workflow.From("a", "")))
	r := newRig(t, w.Agent())
	r.begin(w, nil)
	if got := r.say(llm.UserText("the blue one")); got.text != "the blue one" {
		t.Errorf("%+v, %v: %s", got.end, got.err, got.text)
	}
	r.refuses("once it has ended")
	r.sound()
}
