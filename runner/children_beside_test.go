package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// beside is a run with two nested agents: a works in a body until let, after
// three model calls, and b asks a person.
type beside struct {
	*rig
	b     *fakellm.Model
	let   func()
	ended func() *seen
	asked tool.Pause // of b
	a     tool.Pause // of the root
}

// workBeside begins such a run. Once it is answered, b works without end.
func workBeside(t *testing.T, limits agent.Limits) *beside {
	t.Helper()
	note := does(tool.Spec{Name: "note", Effect: tool.ReadOnly},
		func(context.Context, string) (tool.Result[textOut], error) {
			return tool.Done(textOut{"noted"}), nil
		})
	free := make(chan struct{})
	block := does(tool.Spec{Name: "block", Effect: tool.ReadOnly},
		func(context.Context, string) (tool.Result[textOut], error) {
			<-free
			return tool.Done(textOut{"over"}), nil
		})
	noted := fakellm.Calls("note", `{"text":"x"}`)
	a := nestedTool(t, "a", fakellm.New(noted, noted, fakellm.Calls("block", `{"text":"x"}`),
		fakellm.Says("x")), note, block)
	model := fakellm.New(fakellm.Calls("ask", `{}`), noted, noted, noted, fakellm.Says("x"))
	b := nestedTool(t, "b", model, roomTool(), note)
	r := newRig(t, agent.Config{Tools: []tool.Tool{a, b}, Limits: limits, Model: fakellm.New(
		fakellm.Calls("a", `{"what":"x"}`).And("b", `{"what":"y"}`), fakellm.Says("Well."))},
		&rigOptions{memory: true, runner: &runner.Options{CancelGrace: time.Hour}})
	w := &beside{rig: r, b: model, let: func() { close(free) }, ended: r.begin("Go.")}
	synctest.Wait()
	for _, p := range r.transcript().Pending {
		switch p.Tool {
		case "ask":
			w.asked = p
		case "a":
			w.a = p
		}
	}
	return w
}

// What is answered below is carried on by the run that follows, though another
// nested agent works for long, and the one that answered listens to nothing.
func TestAnAnswerBelowWaitsForNoSibling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workBeside(t, agent.Limits{})
		_, err := w.Resume(t.Context(), w.asked.Session,
			runner.Complete(w.asked.ID, "ada", []byte(`"7"`)))
		must(t, err)
		time.Sleep(time.Second)
		if n := len(w.b.Requests()); n != 5 {
			t.Errorf("its model was asked %d times, though it was answered", n)
		}
		w.let()
		w.ended().finished(event.FinishStop)
		must(t, w.Close())
		w.sound()
	})
}

// What a nested agent has used whose call was cancelled counts for the one beside
// it before it has come to its end.
func TestACancelledSiblingCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workBeside(t, agent.Limits{Turns: 6})
		_, err := w.Cancel(t.Context(), chat, w.a.Call, user, "no")
		must(t, err)
		res, err := w.Resume(t.Context(), w.asked.Session,
			runner.Complete(w.asked.ID, "ada", []byte(`"7"`)))
		must(t, err)
		for range res.Events(t.Context()) {
		}
		// One of the caller, three of the one that was cancelled.
		if n := len(w.b.Requests()); n != 2 {
			t.Errorf("the other's model was asked %d times, and 2 were left", n)
		}
		w.let()
		w.ended()
		must(t, w.Close())
		w.sound()
	})
}
