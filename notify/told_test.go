package notify_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/notify"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// modelFunc is a function as a model.
type modelFunc func(context.Context, llm.Request) iter.Seq2[llm.Event, error]

func (f modelFunc) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return f(ctx, r)
}

// tells returns a runner over a store that tells the outside, and what sends for
// a moment and returns what was told so far.
func tells(t *testing.T, c agent.Config, kinds ...notify.Kind) (*runner.Runner, func() []string) {
	t.Helper()
	store := session.NewStore(kvstore.NewMemory(),
		&session.Options{Notify: &session.Notify{Kinds: kinds}})
	c.Name = "ops"
	ag, err := agent.New(c)
	must(t, err)
	rn, err := runner.New(ag, store, &runner.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { rn.Close() })
	var to outside
	return rn, func() []string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = notify.Work(ctx, store, &to, nil)
		return to.lines()
	}
}

// Each end of a run is told once, and nothing else is taken for one.
func TestEndsOfRunsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails, hangs := true, false
		says := fakellm.New(fakellm.When(nil, fakellm.Says("Done.")))
		rn, told := tells(t, agent.Config{Model: modelFunc(
			func(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
				if hangs {
					<-ctx.Done()
				}
				if fails {
					return func(yield func(llm.Event, error) bool) { yield(nil, errors.New("no model")) }
				}
				return says.Generate(ctx, r)
			})})
		run := func() {
			_, _ = last(rn.Run(t.Context(), "ada", chat, llm.UserText("Go."), nil))
		}
		run()
		is(t, told(), "1 failed failed")
		_, _ = last(rn.Continue(t.Context(), chat, "ada"))
		is(t, told()[1:], "2 failed failed")
		hangs = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = last(rn.Run(ctx, "ada", chat, llm.UserText("Go."), nil)) // its caller leaves
		is(t, told()[2:])
		fails, hangs = false, false
		finish, err := last(rn.Continue(t.Context(), chat, "ada"))
		if finish != event.FinishStop || err != nil {
			t.Fatal(finish, err)
		}
		is(t, told()[2:], "3 finished stop")
		must(t, rn.CancelSession(t.Context(), chat, "ada", "too late"))
		run()
		is(t, told()[3:], "4 finished stop")
	})
}

// A run that is cancelled while it waits, and a limit.
func TestCancelledRunsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := tool.Must(tool.Func(tool.Spec{Name: "ask", Description: "Ask.", MayPause: true},
			func(context.Context, struct{}) (tool.Result[string], error) {
				return tool.NeedInput[string]("Which?"), nil
			}))
		rn, told := tells(t, agent.Config{Tools: []tool.Tool{ask}, Limits: agent.Limits{Turns: 1},
			Model: fakellm.New(fakellm.When(nil, fakellm.Calls("ask", `{}`), fakellm.Says("So.")))},
			notify.NeedsPerson, notify.Failed)
		_, err := last(rn.Run(t.Context(), "ada", chat, llm.UserText("Go."), nil))
		must(t, err)
		must(t, rn.CancelSession(t.Context(), chat, "ada", "no more"))
		_, _ = last(rn.Continue(t.Context(), chat, "ada"))
		is(t, told(), "1 needs_person 1 ", "2 failed cancelled")
		finish, err := last(rn.Run(t.Context(), "ada", chat, llm.UserText("Again."), nil))
		if finish != event.FinishPaused || err != nil {
			t.Fatal(finish, err)
		}
		for p := range rn.Pending(t.Context(), session.PauseFilter{}, "ada") {
			_, err := rn.Resume(t.Context(), chat, runner.Fail(p.ID, "ada", "no", false))
			must(t, err)
		}
		_, err = last(rn.Continue(t.Context(), chat, "ada"))
		must(t, err)
		is(t, told()[2:], "3 needs_person 1 ", "4 failed failed", "5 failed max_turns")
	})
}

type task struct {
	What string `json:"what"`
}

// What a session below another asks a person is told, and names the topmost;
// that its run has ended isn't.
func TestSessionsBelowOthersTellWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := tool.Must(tool.Func(tool.Spec{Name: "ask", Description: "Ask.", MayPause: true},
			func(context.Context, struct{}) (tool.Result[string], error) {
				return tool.NeedInput[string]("Which?"), nil
			}))
		clerk, err := agent.New(agent.Config{Name: "clerk", Tools: []tool.Tool{ask},
			Model: fakellm.New(fakellm.Calls("ask", `{}`), fakellm.Says("So."))})
		must(t, err)
		below, err := agenttool.New[task, string](clerk, nil)
		must(t, err)
		store := session.NewStore(kvstore.NewMemory(), &session.Options{Notify: &session.Notify{
			Kinds: []notify.Kind{notify.NeedsPerson, notify.Finished, notify.Failed}}})
		ag, err := agent.New(agent.Config{Name: "ops", Tools: []tool.Tool{below},
			Model: fakellm.New(fakellm.Calls("clerk", `{"what":"it"}`), fakellm.Says("Done."))})
		must(t, err)
		rn, err := runner.New(ag, store, nil)
		must(t, err)
		t.Cleanup(func() { rn.Close() })
		_, err = last(rn.Run(t.Context(), "ada", chat, llm.UserText("Go."), nil))
		must(t, err)
		for p := range rn.Pending(t.Context(), session.PauseFilter{People: true}, "ada") {
			_, err := rn.Resume(t.Context(), p.Session, runner.Complete(p.ID, "ada", []byte(`"a"`)))
			must(t, err)
		}
		_, err = last(rn.Continue(t.Context(), chat, "ada"))
		must(t, err)
		var to outside
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = notify.Work(ctx, store, &to, nil)
		by := map[notify.Kind][]notify.Notification{}
		for _, n := range to.all {
			by[n.Kind] = append(by[n.Kind], n)
		}
		asked, finished := by[notify.NeedsPerson], by[notify.Finished]
		if len(to.all) != 2 || len(asked) != 1 || len(finished) != 1 || asked[0].Root != chat ||
			asked[0].Session == chat || asked[0].Agent != "clerk" || finished[0].Session != chat ||
			finished[0].Root != "" {
			t.Errorf("told is %+v", to.all)
		}
	})
}
