package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

var errLicense = errors.New("the license has expired")

// fatalAgent is an agent whose tool act does what its argument says: "wait" for
// an outside job, "obey" or "ignore" its context, "fail" the whole run once let
// is closed, anything else at once.
func fatalAgent(n *counter, let <-chan struct{}, concurrency int, acts ...string) agent.Config {
	act := does(tool.Spec{Name: "act", MayPause: true},
		func(ctx context.Context, what string) (tool.Result[textOut], error) {
			n.add(what)
			switch what {
			case "wait":
				return tool.Pending[textOut](tool.Await{}), nil
			case "obey":
				<-ctx.Done()
				return nil, ctx.Err()
			case "ignore":
				time.Sleep(time.Hour) // in a synctest bubble
			case "fail":
				<-let
				return nil, tool.Fatal(errLicense)
			}
			return tool.Done(textOut{what}), nil
		})
	return agent.Config{
		Model: fakellm.New(asks("act", acts...).And("refund", `{"text":"order 7"}`),
			fakellm.Says("I see.")), Concurrency: concurrency,
		Tools: []tool.Tool{act, instant("refund", tool.Once, n)},
		Interceptors: interceptor.Chain{
			interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}}),
		},
	}
}

// statuses are how the calls of the first turn have ended, in call order.
func statuses(t *testing.T, r *rig) (ends []event.Status) {
	t.Helper()
	for _, c := range r.transcript().History[1].ToolCalls() {
		s, err := r.Call(t.Context(), chat, c.ID, user)
		must(t, err)
		ends = append(ends, s.Settled)
	}
	return ends
}

// TestFatalErrorWithSiblings: those that run are stopped, those that wait or
// were not begun are cancelled, those that are done keep their results; the
// turn is closed, and Continue goes on.
func TestFatalErrorWithSiblings(t *testing.T) {
	const done, failed, cancelled, unknown = event.Done, event.Failed,
		event.Cancelled, event.Unknown
	for name, test := range map[string]struct {
		concurrency int
		acts        []string
		want        []event.Status // and of the refund that waits for approval
	}{
		"all wait": {8, []string{"wait", "fail", "wait"},
			[]event.Status{cancelled, failed, cancelled, cancelled}},
		"all are done": {
			8, []string{"a", "fail", "b"}, []event.Status{done, failed, done, cancelled},
		},
		"one obeys, one does not": {8, []string{"obey", "ignore", "fail"},
			[]event.Status{cancelled, unknown, failed, cancelled}},
		"some have not begun": {2, []string{"obey", "fail", "a", "wait"},
			[]event.Status{cancelled, failed, cancelled, cancelled, cancelled}},
		"one at a time": {
			1, []string{"a", "fail", "b"}, []event.Status{done, failed, cancelled, cancelled},
		},
		"two of them":              {8, []string{"fail", "fail"}, []event.Status{failed, failed, cancelled}},
		"the only one, and a gate": {8, []string{"fail"}, []event.Status{failed, cancelled}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				let := make(chan struct{})
				r := newRig(t, fatalAgent(&n, let, test.concurrency, test.acts...),
					&rigOptions{memory: true})
				ended := r.begin("Go.")
				synctest.Wait()
				close(let)
				run := ended()
				if !errors.Is(run.err, errLicense) || run.end.Finish != event.FinishFailed ||
					len(run.end.Pending) != 0 {
					t.Errorf("the run ended as %q with %v, and %v wait", run.end.Finish,
						run.err, run.end.Pending)
				}
				if got := statuses(t, r); !cmp.Equal(got, test.want) {
					t.Errorf("the calls ended as %q, not %q", got, test.want)
				}
				if got := len(of[event.Result](run)); got != len(test.want) {
					t.Errorf("%d results were shown", got)
				}
				r.acceptable()
				r.carryOn().finished(event.FinishStop)
				time.Sleep(2 * time.Hour) // what was left alone comes back
				r.acceptable()
			})
		})
	}
}

// TestFatalErrorOfALayer: counts like the tool's own.
func TestFatalErrorOfALayer(t *testing.T) {
	var n counter
	r := newRig(t, oneCall(instant("act", tool.Once, &n),
		toolLayer("strict",
			func(context.Context, tool.Call, interceptor.ToolHandler) (tool.Execution, error) {
				return tool.Execution{}, tool.Fatal(errLicense)
			})), nil)
	if run := r.say("Go."); !errors.Is(run.err, errLicense) ||
		run.end.Finish != event.FinishFailed || n.get("act") != 0 {
		t.Errorf("the run ended as %q with %v; the body was entered %d times", run.end.Finish,
			run.err, n.get("act"))
	}
	r.acceptable()
}

// TestFatalErrorAfterTheListenerLeft: it ends the run all the same; Continue
// finds the turn to close, and the run failed.
func TestFatalErrorAfterTheListenerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		let := make(chan struct{})
		r := newRig(t, fatalAgent(&n, let, 8, "fail", "wait"), &rigOptions{memory: true})
		for ev := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
			if _, ok := ev.(event.Pause); ok {
				break
			}
		}
		close(let)
		synctest.Wait()
		run := r.carryOn()
		if got := r.transcript(); run.end.Finish != event.FinishFailed ||
			got.Finish != event.FinishFailed || !strings.Contains(got.Why, errLicense.Error()) ||
			len(got.History) != 3 {
			t.Errorf("it was carried on to %q, and is shown as %q: %q, with %d messages",
				run.end.Finish, got.Finish, got.Why, len(got.History))
		}
		r.carryOn().finished(event.FinishStop)
		r.acceptable()
	})
}

func TestFatalError(t *testing.T) {
	broken := errors.New("the license has expired")
	var n counter
	running := make(chan struct{})
	tools := []tool.Tool{
		tool.Must(tool.Func(tool.Spec{Name: "fatal", Description: "f"},
			func(context.Context, struct{}) (tool.Result[string], error) {
				<-running
				return nil, tool.Fatal(broken)
			})),
		tool.Must(tool.Func(tool.Spec{Name: "sibling", Description: "s"},
			func(ctx context.Context, _ struct{}) (tool.Result[string], error) {
				close(running)
				<-ctx.Done()
				return nil, ctx.Err()
			})),
		waiting("job", tool.Idempotent, &n), instant("look", tool.Once, &n),
	}
	r := newRig(t, agent.Config{
		Concurrency: 3, Tools: tools,
		Model: messages(calls("job", `{"text":"j"}`, "fatal", `{}`, "sibling", `{}`, "look",
			`{"text":"a"}`, "look", `{"text":"b"}`), says("Done.")),
	}, nil)
	run := r.say("Go.")
	if !errors.Is(run.err, broken) || run.end.Finish != event.FinishFailed {
		t.Errorf("the run ended as %q with %v", run.end.Finish, run.err)
	}
	for i, p := range r.transcript().History[2].Parts {
		res := p.(llm.ToolResult)
		if done := res.Name == "look" && !res.Error; !res.Error && !done {
			t.Errorf("result %d of %s is %s", i, res.Name, res.Output)
		}
	}
	if got := r.transcript(); got.Finish != event.FinishFailed ||
		!strings.Contains(got.Why, broken.Error()) {
		t.Errorf("the session is shown as %q: %s", got.Finish, got.Why)
	}
	r.acceptable()
	r.restart()
	r.carryOn().finished(event.FinishStop)
	r.acceptable()
}
