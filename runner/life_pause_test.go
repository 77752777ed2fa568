package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestPauseIsStoredBeforeItIsTold(t *testing.T) {
	var n counter
	model := fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("Deployed."))
	t.Run("stored", func(t *testing.T) {
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Once, &n)}, Model: model,
		}, nil)
		elsewhere := r.another()
		told := 0
		for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Deploy."), nil) {
			must(t, err)
			var pauses []tool.Pause
			switch ev := ev.(type) {
			case event.Pause:
				pauses = []tool.Pause{ev.Pause}
			case event.End:
				pauses = ev.Pending
			}
			for _, p := range pauses {
				told++
				stored, err := elsewhere.Show(t.Context(), chat, user)
				if err != nil || len(stored.Pending) != 1 || stored.Pending[0].ID != p.ID {
					t.Errorf("pause %s is told of, and %v are stored, %v", p.ID,
						stored.Pending, err)
				}
			}
		}
		if told != 2 {
			t.Errorf("the pause was told of %d times, not by an event and at the end", told)
		}
	})
	t.Run("not stored", func(t *testing.T) {
		var r *rig
		r = newRig(t, agent.Config{Model: model, Tools: []tool.Tool{
			starting(tool.Idempotent, &n,
				func(context.Context, tool.Call) (tool.Result[textOut], error) {
					// the pause is the next to be written
					r.faults.Add(faultkv.FailAt(r.faults.Applies() + 1).AndDie())
					return tool.Pending[textOut](tool.Await{}), nil
				})}}, nil)
		s := r.say("Deploy.")
		if len(of[event.Pause](s)) != 0 || len(s.end.Pending) != 0 ||
			!errors.Is(s.err, faultkv.ErrFault) {
			t.Errorf("the pause is not stored, and the run shows %v, %v", s.events, s.err)
		}
	})
}

// A caller may answer a pause as soon as it hears of it: from within the loop
// over the events, for one.
func TestAnswerFromWithinThePauseEvent(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`),
			fakellm.Says("Deployed."), fakellm.Says("Hello.")),
	}, nil)
	var end event.End
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Deploy."), nil) {
		must(t, err)
		switch ev := ev.(type) {
		case event.Pause:
			_, err := r.Resume(t.Context(), chat, runner.Complete(ev.Pause.ID, "ci", text("v2")))
			must(t, err)
		case event.End:
			end = ev
		}
	}
	if end.Finish != event.FinishStop || n.get("deploy") != 1 {
		t.Errorf("the run ended as %s; the body was entered %d times", end.Finish, n.get("deploy"))
	}
	// The pause that is over is nowhere to be found, not after a crash either,
	// and is in no other's way.
	r.restart()
	for p, err := range r.Pending(t.Context(), session.PauseFilter{}, user) {
		t.Errorf("%s is still listed, %v", p.ID, err)
	}
	r.say("Hello.").finished(event.FinishStop)
	r.acceptable()
}

func TestWaysToEndAPause(t *testing.T) {
	for _, c := range []struct {
		name   string
		await  tool.Await
		end    func(r *rig, c *clock, p tool.Pause)
		status event.Status
		says   string
	}{
		{"a cancellation", tool.Await{}, func(r *rig, _ *clock, p tool.Pause) {
			_, err := r.Cancel(r.t.Context(), chat, p.Call, "ada", "wrong version")
			must(r.t, err)
		}, event.Cancelled, "wrong version. The work had begun"},
		{"a failure", tool.Await{}, func(r *rig, _ *clock, p tool.Pause) {
			_, err := r.Resume(r.t.Context(), chat, runner.Fail(p.ID, "ci", "no disk", false))
			must(r.t, err)
		}, event.Failed, "Failed: no disk."},
		{"the deadline", tool.Await{Timeout: time.Hour},
			func(_ *rig, c *clock, _ tool.Pause) { c.pass(time.Hour) },
			event.Expired, "none came. The work had begun"},
		{"the deadline of a question", tool.Await{Reason: tool.ReasonInput, Timeout: time.Minute},
			func(_ *rig, c *clock, _ tool.Pause) { c.pass(time.Hour) }, event.Expired,
			"none came. The work had begun"},
		{"a deadline that the body is told of",
			tool.Await{Timeout: time.Hour, OnTimeout: tool.ReenterOnTimeout},
			func(_ *rig, c *clock, _ tool.Pause) { c.pass(time.Hour) },
			event.Done, "waited, and got null"},
		{"the time itself", tool.Await{Reason: tool.ReasonTimer, Timeout: time.Hour},
			func(_ *rig, c *clock, _ tool.Pause) { c.pass(time.Hour) },
			event.Done, "waited, and got null"},
		{"the time itself, as output", tool.Await{Reason: tool.ReasonTimer,
			Mode: tool.ModeOutput, Timeout: time.Hour},
			func(_ *rig, c *clock, _ tool.Pause) { c.pass(time.Hour) }, event.Done, "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n counter
			at := newClock()
			act := func(_ context.Context, call tool.Call) (tool.Result[textOut], error) {
				if call.Answer != nil {
					return tool.Done(textOut{"waited, and got " + string(call.Answer.Payload)}), nil
				}
				return tool.Pending[textOut](c.await), nil
			}
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{starting(tool.Once, &n, act)},
				Model: fakellm.New(fakellm.Calls("deploy", `{"text":"a"}`), fakellm.Says("I see.")),
			}, &rigOptions{session: &session.Options{Now: at.now}})
			p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			if want := c.await.Timeout; want != 0 && !p.Deadline.Equal(at.now().Add(want)) {
				t.Errorf("its deadline is %s", p.Deadline)
			}
			r.restart()
			c.end(r, at, p)
			r.carryOn().finished(event.FinishStop)
			st, err := r.Call(t.Context(), chat, p.Call, user)
			must(t, err)
			if st.Settled != c.status || !strings.Contains(string(st.Output), c.says) {
				t.Errorf("it settled as %s with %s", st.Settled, st.Output)
			}
			if r.result(p.Call).Error != (c.status != event.Done) {
				t.Error("the model can't tell whether it went well")
			}
			r.acceptable()
		})
	}
}

func TestACallMayAskAgain(t *testing.T) {
	type choice struct {
		N int `json:"n"`
	}
	var n counter
	which := tool.NewQuestion[textOut, []string, choice]("which")
	book := tool.Must(tool.Resumable(tool.Spec{Name: "book"},
		func(_ context.Context, _ textIn) (tool.Result[textOut], error) {
			n.add("ask")
			return which.Ask("Which?", []string{"a", "b"}), nil
		},
		tool.On(which, func(_ context.Context, _ textIn, re tool.Reply[[]string, choice]) (tool.Result[textOut], error) {
			n.add("act")
			if re.Answer.N >= len(re.State) {
				return which.Ask("No such. Which?", re.State), nil
			}
			return tool.Done(textOut{re.State[re.Answer.N] + " for " + re.Actor}), nil
		})))
	// The layer asks at first, and once more before the tool is entered again.
	gate := func(name string, when func(tool.Call) bool) interceptor.Layer {
		return interceptor.Layer{Name: name,
			Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
				return func(ctx context.Context, call tool.Call) (tool.Execution, error) {
					if _, decided := call.Decided(name); !decided && when(call) {
						return tool.Execution{Await: &tool.Await{}}, nil
					}
					return next(ctx, call)
				}
			}}
	}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{book},
		Interceptors: interceptor.Chain{
			gate("before", func(tool.Call) bool { return true }),
			gate("after", func(c tool.Call) bool {
				return c.Answer != nil
			})},
		Model: fakellm.New(fakellm.Calls("book", `{"text":"x"}`), fakellm.Says("Booked.")),
	}, nil)
	p := r.say("Book.").finished(event.FinishPaused).pause("book")
	for i, step := range []struct {
		gate string
		in   func(pause string) runner.Resumption
	}{
		{"before", func(p string) runner.Resumption { return runner.Approve(p, "eve", "") }},
		{"", func(p string) runner.Resumption {
			return runner.Complete(p, "ada", []byte(`{"n":5}`))
		}},
		{"after", func(p string) runner.Resumption { return runner.Approve(p, "eve", "") }},
		{"", func(p string) runner.Resumption {
			return runner.Complete(p, "ada", []byte(`{"n":1}`))
		}},
	} {
		if want := session.PauseID(p.Call, i+1); p.ID != want || p.Number != i+1 ||
			p.Await.Gate != step.gate {
			t.Fatalf("%s waits, number %d, for %q; not %s for %q", p.ID, p.Number, p.Await.Gate,
				want, step.gate)
		}
		r.restart()
		s := r.answer(step.in(p.ID))
		if i == 3 {
			s.finished(event.FinishStop)
			break
		}
		p = s.finished(event.FinishPaused).pause("book")
	}
	if got := string(r.result(p.Call).Output); got != string(text("b for ada")) ||
		n.get("ask") != 1 || n.get("act") != 2 {
		t.Errorf("the result is %s; the functions ran %d times and %d times", got,
			n.get("ask"), n.get("act"))
	}
	r.acceptable()
}

// Whether a call pauses depends on what its body returned, and not on what its
// tool declares.
func TestPauseFollowsWhatTheBodyReturned(t *testing.T) {
	var unset tool.Result[textOut]
	pending := tool.Pending[textOut](tool.Await{})
	for _, c := range []struct {
		name   string
		result tool.Result[textOut]
		err    error
		status event.Status // empty: it pauses
		says   string
	}{
		{"done", tool.Done(textOut{"at once"}), nil, event.Done, "at once"},
		{"pending", pending, nil, "", ""},
		{"a question", tool.NeedInput[textOut]("Which?"), nil, "", ""},
		{"an error", nil, errors.New("no such service"), event.Failed, "no such service"},
		{"pending and an error", pending, errors.New("no such service"),
			event.Failed, "no such service"},
		{"done and an error", tool.Done(textOut{"at once"}), errors.New("no such service"),
			event.Failed, "no such service"},
		{"nothing", nil, nil, event.Failed, "neither a result nor an error"},
		{"a result that is not set", unset, nil, event.Failed, "neither a result nor an error"},
		{
			"a pause that makes no sense", tool.Pending[textOut](tool.Await{
				Reason: tool.ReasonAgent, Mode: tool.ModeReenter,
			}), nil, event.Failed, "agent",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n counter
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{starting(tool.Once, &n,
					func(context.Context, tool.Call) (tool.Result[textOut], error) {
						return c.result, c.err
					})},
				Model: fakellm.New(fakellm.Calls("deploy", `{"text":"a"}`).Times(2),
					fakellm.Says("I see.")),
			}, nil)
			s := r.say("Deploy.")
			if c.status == "" {
				s.finished(event.FinishPaused).pause("deploy")
				return
			}
			// the model tried twice in one run
			results := of[event.Result](s.finished(event.FinishStop))
			if len(results) != 2 || results[0].Status != c.status ||
				!strings.Contains(string(results[0].Result.Output), c.says) {
				t.Errorf("it settled as %v", results)
			}
			r.acceptable()
		})
	}
}

func TestEqualQuestionsGetTheirOwnAnswers(t *testing.T) {
	ask := tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true},
		func(_ context.Context, in textIn) (tool.Result[string], error) {
			return tool.NeedInput[string](in.Text), nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{ask},
		Model: fakellm.New(fakellm.Calls("ask", `{"text":"a"}`).And("ask", `{"text":"b"}`).And("ask", `{"text":"a"}`).IDs("x", "x", "x"),
			fakellm.Says("Thanks.")),
	}, nil)
	pauses := r.say("Ask.").finished(event.FinishPaused).end.Pending
	if len(pauses) != 3 || pauses[0].ID == pauses[1].ID || pauses[1].ID == pauses[2].ID ||
		pauses[0].ID == pauses[2].ID {
		t.Fatalf("%v wait", pauses)
	}
	for _, i := range []int{2, 0, 1} {
		answer, _ := json.Marshal(fmt.Sprintf("answer %d", i))
		want := event.FinishPaused
		if i == 1 {
			want = event.FinishStop
		}
		r.answer(runner.Complete(pauses[i].ID, "ada", answer)).finished(want)
	}
	for i, p := range pauses {
		if got, want := string(r.result(p.Call).Output),
			fmt.Sprintf(`"answer %d"`, i); got != want {
			t.Errorf("question %d got %s", i, got)
		}
	}
	r.acceptable()
}

// A pause that makes no sense is a mistake in the tool, or in the layer. The
// model can do nothing about it, and the log tells.
func TestMistakesInPausesAreLogged(t *testing.T) {
	asks := func(spec tool.Spec, a tool.Await) tool.Tool {
		return does(spec, func(context.Context, string) (tool.Result[textOut], error) {
			return tool.Pending[textOut](a), nil
		})
	}
	layer := interceptor.Layer{Name: "gate", Tools: []string{"gated"},
		Tool: func(interceptor.ToolHandler) interceptor.ToolHandler {
			return func(context.Context, tool.Call) (tool.Execution, error) {
				return tool.Execution{
					Await: &tool.Await{Reason: tool.ReasonApproval, Mode: tool.ModeOutput},
				}, nil
			}
		}}
	var n counter
	for name, tl := range map[string]tool.Tool{
		"a tool may not pause": asks(tool.Spec{Name: "still"}, tool.Await{}),
		`goes with reason \"input\"`: asks(tool.Spec{Name: "asks", MayPause: true},
			tool.Await{Mode: tool.ModeMessage}),
		"makes the user's words the output": asks(tool.Spec{Name: "asks", MayPause: true},
			tool.Await{Reason: tool.ReasonInput, Mode: tool.ModeMessage}),
		"a layer's pause always re-enters": instant("gated", tool.ReadOnly, &n),
	} {
		t.Run(name, func(t *testing.T) {
			var log journal
			config := agent.Config{Tools: []tool.Tool{tl},
				Model: messages(calls(tl.Spec().Name, `{"text":"x"}`), says("Well."))}
			if tl.Spec().Name == "gated" {
				config.Interceptors = interceptor.Chain{layer}
			}
			r := newRig(t, config, &rigOptions{
				runner: &runner.Options{
					Logger: log.logger(),
				},
			})
			r.say("Go.").finished(event.FinishStop)
			if s := log.String(); !strings.Contains(s, name) ||
				!strings.Contains(s, "level=ERROR") {
				t.Errorf("the log says %q", s)
			}
		})
	}
}

// A tool pauses, and its Spec doesn't allow that. The model can do nothing
// about it, so the log tells.
func TestToolThatMayNotPauseIsLogged(t *testing.T) {
	var log journal
	job := tool.Must(tool.Func(tool.Spec{Name: "job"},
		func(context.Context, struct{}) (tool.Result[textOut], error) {
			return tool.NeedInput[textOut]("Well?"), nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{job}, Model: messages(calls("job", `{}`), says("Done.")),
	},
		&rigOptions{
			runner: &runner.Options{
				Logger: log.logger(),
			},
		})
	r.say("Go.").finished(event.FinishStop)
	if !strings.Contains(log.String(), "level=ERROR") ||
		!strings.Contains(log.String(), "MayPause") {
		t.Errorf("the log says %s", &log)
	}
}
