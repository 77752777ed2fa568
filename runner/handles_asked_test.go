package runner_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// asksModel is a tool that asks the model which compiler to take.
func asksModel(t *testing.T) tool.Tool {
	return stateful(t, "build", tool.Idempotent,
		func(ctx context.Context, in target) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{Reason: tool.ReasonAssistant,
				Prompt: "Which compiler?"}), nil
		})
}

// A call of a turn that asks the model is answered by a request beside the
// conversation: without tools, with the closed turns as data, to the agent's
// Inquirer. Its answer is stored and is not in the history.
func TestAQuestionForTheModelIsAskedApart(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"fetch","id":"none"}`).And("raw", `{}`),
		fakellm.Calls("build", `{"target":"x"}`), fakellm.Says("Built."))
	raw := rawTool{tool.Spec{Name: "raw"}, func(context.Context, tool.Call) (tool.Execution, error) {
		return tool.Execution{Output: []byte(`"\u003cb\u003e"`)}, nil
	}}
	cheap := fakellm.New(
		fakellm.When(fakellm.UserSays("does not fit"), fakellm.Says(`{"answer":"gcc"}`)),
		fakellm.When(fakellm.UserSays("Which compiler?"), fakellm.Says(`{"answer":17}`)))
	r := newRig(t, agent.Config{Tools: []tool.Tool{asksModel(t), raw}, Model: model,
		Inquirer: cheap, Instructions: "Be quick."}, nil)
	r.say("Go \"now\".").finished(event.FinishStop)
	if got := r.outputs(); len(got) != 3 || got[2] != `"gcc"` {
		t.Errorf("%q", got)
	}
	if n := len(model.Requests()); n != 3 {
		t.Errorf("the agent's model was asked %d times", n)
	}
	all := cheap.Requests()
	if len(all) != 2 {
		t.Fatalf("%d requests", len(all))
	}
	asked := all[0]
	if len(asked.Tools) != 0 || len(asked.ResponseFormat.Schema) == 0 || len(asked.Messages) != 1 ||
		!strings.HasPrefix(asked.System, "Be quick.") {
		t.Errorf("the model is asked %+v", asked)
	}
	text := asked.Messages[0].Text()
	for _, part := range []string{`{"role":"user","text":"Go \"now\"."}`, `"action\":\"fetch`,
		`"output":"`, "not found", "<b>", "Which compiler?"} {
		if !strings.Contains(text, part) {
			t.Errorf("it is asked without %s: %s", part, text)
		}
	}
	if again := all[1].Messages; len(again) != 3 ||
		!strings.Contains(again[2].Text(), "does not fit") {
		t.Errorf("it is asked again: %+v", again)
	}
	if n := r.transcript().Messages; n != 6 {
		t.Errorf("the history has %d messages", n)
	}
	must(t, r.Close())
	r.sound()
}

// An answer that never fits, and a model that can't be asked, are the call's
// error.
func TestAQuestionThatIsNotAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		says fakellm.Turn
		want string
	}{
		"no JSON":   {fakellm.Says("gcc"), "no answer of it fits"},
		"no member": {fakellm.Says(`{"gcc":1}`), "the member answer"},
		"two":       {fakellm.Says(`{"answer":"gcc","answer":"clang"}`), "answer"},
		"more":      {fakellm.Says(`{"answer":"gcc","why":1}`), "alone"},
		"misfits":   {fakellm.Says(`{"answer":17}`), "string"},
		"fails":     {fakellm.Fails(errors.New("no route")), "no route"},
	} {
		t.Run(name, func(t *testing.T) {
			cheap := fakellm.New(test.says, test.says, test.says)
			model := fakellm.New(fakellm.Calls("build", `{"target":"x"}`), fakellm.Says("I see."))
			r := newRig(t, agent.Config{Tools: []tool.Tool{asksModel(t)}, Model: model,
				Inquirer: cheap}, nil)
			r.say("Go.").finished(event.FinishStop)
			if got := r.outputs(); len(got) != 1 || !strings.Contains(got[0], test.want) {
				t.Errorf("%q", got)
			}
			if n := len(cheap.Requests()); n != 3 {
				t.Errorf("the model was asked %d times", n)
			}
			must(t, r.Close())
			r.sound()
		})
	}
}

// Killed at any write, the model is asked a question once, or once more if its
// answer was not stored.
func TestAQuestionForTheModelKilledAtEveryWrite(t *testing.T) {
	for _, fault := range []func(int) faultkv.Fault{faultkv.FailAt, faultkv.LoseAt} {
		for n, struck := 1, true; struck; n++ {
			t.Run(fault(n).String(), func(t *testing.T) {
				cheap := fakellm.New(
					fakellm.When(fakellm.UserSays("Which compiler?"), fakellm.Says(`{"answer":"gcc"}`)))
				model := fakellm.New(fakellm.Calls("build", `{"target":"x"}`), fakellm.Says("Built."))
				r := newRig(t, agent.Config{Tools: []tool.Tool{asksModel(t)}, Model: model,
					Inquirer: cheap}, &rigOptions{memory: true})
				r.faults.Add(fault(n).AndDie())
				r.tell("m-1", "Go.")
				struck = r.faults.Struck() > 0
				before := len(cheap.Requests())
				r.restart()
				answered := false
				st, err := r.store.Load(t.Context(), chat)
				if err == nil {
					answered = before > 0
					for i := range st.Calls {
						answered = answered && !st.Calls[i].AsksModel()
					}
				}
				r.tell("m-1", "Go.")
				watch(t, r.Continue(t.Context(), chat, user)).finished(event.FinishStop)
				want := 1
				if before > 0 && !answered {
					want = 2
				}
				if asked := len(cheap.Requests()); asked != want {
					t.Errorf("the model was asked %d times, and its answer was stored: %t", asked, answered)
				}
				if got := r.outputs(); len(got) != 1 || got[0] != `"gcc"` {
					t.Errorf("%q", got)
				}
				must(t, r.Close())
				r.sound()
			})
		}
	}
}

// A runner that closes, or a worker that stops, while the model is asked about a
// handle decides nothing: the model is asked another time.
func TestAnInquiryThatIsCutOff(t *testing.T) {
	asked := make(chan struct{}, 2)
	slow := func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			asked <- struct{}{}
			<-ctx.Done()
			yield(nil, context.Cause(ctx))
		}
	}
	r := newRig(t, agent.Config{Tools: []tool.Tool{waitsOutside(t, tool.HandlePolicy{})},
		Model: fakellm.New(begin("a"), fakellm.Says("Begun.")), Inquirer: streams(slow)},
		&rigOptions{memory: true})
	ended := r.begin("Go.")
	<-asked
	must(t, r.Close())
	ended()
	r.restart()
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan error)
	go func() { worked <- r.Work(ctx, nil) }()
	<-asked
	stop()
	<-worked
	must(t, r.Close())
	st, err := r.store.Load(t.Context(), chat)
	must(t, err)
	if st.Linger == nil || st.Handles != 1 {
		t.Errorf("it is left with %+v", st)
	}
	r.sound()
}
