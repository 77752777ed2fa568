package runner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestModelWaitsForAllResults(t *testing.T) {
	var n counter
	ask := tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true},
		func(_ context.Context, in textIn) (tool.Result[string], error) {
			n.add("ask")
			return tool.NeedInput[string](in.Text), nil
		}))
	model := fakellm.New(
		fakellm.Calls("deploy", `{"text":"a"}`).And("ask", `{"text":"b"}`).And("touch",
			`{"text":"c"}`), fakellm.Says("Done."))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n), ask, instant("touch", tool.Once, &n)},
		Model: model,
	}, nil)
	s := r.say("Go.").finished(event.FinishPaused)
	deploy, question := s.pause("deploy"), s.pause("ask")

	r.answer(runner.Complete(deploy.ID,
		"ci", text("deployed"))).finished(event.FinishPaused).pause("ask")
	if len(model.Requests()) != 1 {
		t.Fatalf("the model was called %d times, with a question open", len(model.Requests()))
	}
	if st, err := r.Call(t.Context(), chat, deploy.Call, user); err != nil ||
		st.Settled != event.Done || string(st.Output) != string(text("deployed")) {
		t.Errorf("the answered call is %s with %s, %v", st.Status, st.Output, err)
	}
	r.restart()
	r.answer(runner.Complete(question.ID, "ada", []byte(`"blue"`))).finished(event.FinishStop)
	if diff := cmp.Diff([]string{
		`{"text":"deployed"}`, `"blue"`, `{"text":"c"}`,
	}, r.outputs()); diff != "" {
		t.Errorf("the results (-want +got):\n%s", diff)
	}
	if n.get("deploy") != 1 || n.get("ask") != 1 || n.get("touch") != 1 ||
		len(model.Requests()) != 2 {
		t.Errorf("the bodies were entered %v; the model was called %d times",
			n.n, len(model.Requests()))
	}
	r.acceptable()
}

func TestOneAnswerRestartsNoSibling(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var n counter
			render := tool.Must(tool.Func(tool.Spec{Name: "render", Effect: effect, MayPause: true},
				func(_ context.Context, in textIn) (tool.Result[textOut], error) {
					n.add(in.Text)
					return tool.Pending[textOut](tool.Await{}), nil
				}))
			turn := fakellm.Turn{}
			for i := range 6 {
				turn = turn.And("render", fmt.Sprintf(`{"text":"%d"}`, i))
			}
			r := newRig(t, agent.Config{Tools: []tool.Tool{render},
				Model: fakellm.New(turn, fakellm.Says("Done."))}, nil)
			pauses := r.say("Render.").finished(event.FinishPaused).end.Pending
			for i, p := range pauses {
				want := event.FinishPaused
				if i == len(pauses)-1 {
					want = event.FinishStop
				}
				r.answer(runner.Complete(p.ID, "farm", text(fmt.Sprint(i)))).finished(want)
				r.restart()
			}
			for i := range 6 {
				if got := n.get(fmt.Sprint(i)); got != 1 {
					t.Errorf("call %d was started %d times", i, got)
				}
			}
			r.acceptable()
		})
	}
}

func TestFinishedSiblingsSurviveAPause(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{instant("delete", tool.Once, &n), instant("list", tool.ReadOnly, &n)},
		Interceptors: approval(),
		Model: fakellm.New(fakellm.Calls("delete", `{"text":"a"}`).And("list",
			`{"text":"b"}`), fakellm.Says("Done.")),
	}, nil)
	listed := func() bool {
		st, err := r.store.Load(t.Context(), chat)
		must(t, err)
		return st.Calls[1].Settled == event.Done
	}
	var gate tool.Pause
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Clean up."), nil) {
		must(t, err)
		if end, ok := ev.(event.End); ok {
			if gate = end.Pending[0]; !listed() {
				t.Error("the run ended, and the result of the sibling is not stored")
			}
		}
	}
	r.restart()
	if st, err := r.Call(t.Context(), chat,
		r.transcript().History[1].ToolCalls()[1].ID, user); err != nil ||
		string(st.Output) != `{"text":"b"}` {
		t.Errorf("after a restart the sibling has %s, %v", st.Output, err)
	}
	r.answer(runner.Approve(gate.ID, "eve", "")).finished(event.FinishStop)
	if diff := cmp.Diff([]string{`{"text":"a"}`, `{"text":"b"}`}, r.outputs()); diff != "" {
		t.Errorf("the results (-want +got):\n%s", diff)
	}
	if n.get("list") != 1 || n.get("delete") != 1 {
		t.Errorf("the bodies were entered %v", n.n)
	}
	r.acceptable()
}

// A crash between two calls: the one that has its result keeps it, and the one
// that wasn't begun is begun. They are told apart by id, also where their names
// are equal.
func TestCallsNotBegunBeforeACrash(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var n counter
			var r *rig
			act := tool.Must(tool.Func(tool.Spec{Name: "act", Effect: effect},
				func(_ context.Context, in textIn) (tool.Result[textOut], error) {
					if n.add(in.Text); in.Text == "a" {
						// Its result is the next to be written; what comes
						// after that is lost.
						r.faults.Add(faultkv.FailAt(r.faults.Applies() + 2).AndDie())
					}
					return tool.Done(textOut(in)), nil
				}))
			r = newRig(t, agent.Config{
				Tools: []tool.Tool{act, instant("other", effect, &n)}, Concurrency: 1,
				Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`).And("act",
					`{"text":"b"}`).And("other", `{"text":"c"}`), fakellm.Says("Done.")),
			}, nil)
			if s := r.say("Go."); !errors.Is(s.err, faultkv.ErrFault) {
				t.Fatalf("the run ended with %v", s.err)
			}
			before := n.get("b")
			r.restart()
			st, err := r.store.Load(t.Context(), chat)
			must(t, err)
			if st.Calls[0].Settled != event.Done || st.Calls[1].Status != session.Requested ||
				st.Calls[2].Status != session.Requested {
				t.Fatalf("the calls are %s, %s and %s", st.Calls[0].Status,
					st.Calls[1].Status, st.Calls[2].Status)
			}
			r.carryOn().finished(event.FinishStop)
			if diff := cmp.Diff([]string{
				`{"text":"a"}`, `{"text":"b"}`, `{"text":"c"}`,
			}, r.outputs()); diff != "" {
				t.Errorf("the results (-want +got):\n%s", diff)
			}
			if n.get("a") != 1 || n.get("b")-before != 1 || n.get("other") != 1 || before != 0 &&
				effect == tool.Once {
				t.Errorf("the bodies were entered %v", n.n)
			}
			r.acceptable()
		})
	}
}
