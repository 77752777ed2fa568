package runner_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// stubborn is a tool whose body ignores its context until release is closed.
func stubborn(entered chan<- string, release <-chan struct{}) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "slow", Description: "s"},
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			entered <- in.Text
			<-release
			return tool.Done(textOut{"in the end"}), nil
		}))
}

func TestLeavingTheLoop(t *testing.T) {
	for _, how := range []string{"break", "cancel"} {
		synctest.Test(t, func(t *testing.T) {
			entered, release := make(chan string, 9), make(chan struct{})
			r := newRig(t, agent.Config{
				Concurrency: 1,
				Tools:       []tool.Tool{stubborn(entered, release)},
				Model:       messages(calls("slow", `{"text":"a"}`, "slow", `{"text":"b"}`), says("Done.")),
			}, &rigOptions{memory: true, runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			start := time.Now()
			go func() {
				<-entered
				if how == "cancel" {
					cancel()
				} else {
					must(t, r.Progress(ctx, chat, openCall(r), user, tool.Progress{Message: "half"})) // something to break at
				}
			}()
			var last event.Event
			for ev, err := range r.Run(ctx, user, chat, llm.UserText("Go."), nil) {
				if last = ev; err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				if _, ok := ev.(event.Progress); ok && how == "break" {
					break
				}
			}
			if took := time.Since(start); took > 0 {
				t.Errorf("%s: Run returned after %v", how, took)
			}
			if end, _ := last.(event.End); how == "cancel" && end.Finish != event.FinishInterrupted {
				t.Errorf("it ended with %v", last)
			}
			// The body goes on, under the lease, and its result is recorded.
			if err := watch(t, r.Continue(context.Background(), chat, user)).err; !errors.Is(err, session.ErrBusy) {
				t.Errorf("%s: while the body runs, Continue gets %v", how, err)
			}
			close(release)
			synctest.Wait()
			working, stop := context.WithCancel(context.Background())
			worked := make(chan error)
			go func() { worked <- r.Work(working, nil) }()
			time.Sleep(time.Hour)
			stop()
			<-worked
			if len(entered) > 0 || r.transcript().Finish != event.FinishInterrupted {
				t.Errorf("%s: a worker carried on a session that was left", how)
			}
			watch(t, r.Continue(context.Background(), chat, user)).finished(event.FinishStop)
			for _, p := range r.transcript().History[2].Parts {
				if res := p.(llm.ToolResult); res.Error || string(res.Output) != string(text("in the end")) {
					t.Errorf("%s: the result is %s", how, res.Output)
				}
			}
			r.acceptable()
		})
	}
}

// A run that ends because its caller leaves, or the runner is closed, has not failed: its last event says how the session stands.
func TestLastEventOfARunThatWasLeft(t *testing.T) {
	for name, c := range map[string]struct {
		detached, waits, closed bool
		want                    event.Finish
	}{
		"":                    {want: event.FinishInterrupted},
		"detached":            {detached: true, want: event.FinishInterrupted},
		"closed":              {closed: true, want: event.FinishInterrupted},
		"a call waits":        {waits: true, want: event.FinishPaused},
		"detached, one waits": {detached: true, waits: true, want: event.FinishPaused},
		"closed, one waits":   {closed: true, waits: true, want: event.FinishPaused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				entered := make(chan struct{})
				slow := does(tool.Spec{Name: "slow"}, func(ctx context.Context, _ string) (tool.Result[textOut], error) {
					close(entered)
					<-ctx.Done()
					return nil, ctx.Err()
				})
				asked := calls("slow", `{"text":"a"}`)
				if c.waits {
					asked = append(asked, calls("deploy", `{"text":"job"}`)...)
				}
				r := newRig(t, agent.Config{Tools: []tool.Tool{slow, waiting("deploy", tool.Once, &n)}, Model: messages(asked, says("Done."))},
					&rigOptions{memory: true})
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				ended := make(chan *seen)
				go func() {
					ended <- watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), &runner.RunOptions{Detached: c.detached}))
				}()
				<-entered
				synctest.Wait()
				if c.closed {
					r.Close()
				} else {
					cancel()
				}
				s := <-ended
				// A body that ends at once leaves nothing to do but wait; one that is still ending is part of what was interrupted.
				if got := s.end.Finish; got != c.want && (!c.waits || got != event.FinishInterrupted) || s.err == nil {
					t.Errorf("it ended as %q, with %v", got, s.err)
				}
				if waits := len(s.end.Pending) > 0; waits != c.waits {
					t.Errorf("%d calls wait", len(s.end.Pending))
				}
			})
		})
	}
}

// openCall is the first call of the open turn that is not settled.
func openCall(r *rig) string {
	st, err := r.store.Load(context.Background(), chat)
	must(r.t, err)
	for _, c := range st.Calls {
		if c.Status != session.Settled {
			return c.ID
		}
	}
	return ""
}

func TestDetachedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{instant("look", tool.ReadOnly, &n)},
			Model: messages(calls("look", `{"text":"a"}`), says("Done.")),
		}, &rigOptions{memory: true})
		for ev := range r.Run(context.Background(), user, chat, llm.UserText("Go."), &runner.RunOptions{Detached: true}) {
			if _, ok := ev.(event.Call); ok {
				break
			}
		}
		working, stop := context.WithCancel(context.Background())
		worked := make(chan error)
		go func() { worked <- r.Work(working, nil) }()
		time.Sleep(10 * time.Second)
		stop()
		<-worked
		if got := r.transcript(); got.Finish != event.FinishStop || len(got.History) != 4 {
			t.Errorf("after a worker had time, it is %q with %d messages", got.Finish, len(got.History))
		}
	})
}

func TestFatalError(t *testing.T) {
	broken := errors.New("the license has expired")
	var n counter
	running := make(chan struct{})
	tools := []tool.Tool{
		tool.Must(tool.Func(tool.Spec{Name: "fatal", Description: "f"}, func(context.Context, struct{}) (tool.Result[string], error) {
			<-running
			return nil, tool.Fatal(broken)
		})),
		tool.Must(tool.Func(tool.Spec{Name: "sibling", Description: "s"}, func(ctx context.Context, _ struct{}) (tool.Result[string], error) {
			close(running)
			<-ctx.Done()
			return nil, ctx.Err()
		})),
		waiting("job", tool.Idempotent, &n), instant("look", tool.Once, &n),
	}
	r := newRig(t, agent.Config{
		Concurrency: 3, Tools: tools,
		Model: messages(calls("job", `{"text":"j"}`, "fatal", `{}`, "sibling", `{}`, "look", `{"text":"a"}`, "look", `{"text":"b"}`), says("Done.")),
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
	if got := r.transcript(); got.Finish != event.FinishFailed || !strings.Contains(got.Why, broken.Error()) {
		t.Errorf("the session is shown as %q: %s", got.Finish, got.Why)
	}
	r.acceptable()
	r.restart()
	r.carryOn().finished(event.FinishStop)
	r.acceptable()
}

func TestDrivenElsewhere(t *testing.T) {
	entered, release := make(chan string, 9), make(chan struct{})
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{stubborn(entered, release), waiting("job", tool.Idempotent, &n)},
		Model: messages(calls("job", `{"text":"j"}`, "slow", `{"text":"a"}`), says("Done.")),
	}, nil)
	first := make(chan *seen)
	paused := make(chan tool.Pause, 1)
	go func() {
		s := &seen{t: t}
		for ev, err := range r.Run(context.Background(), user, chat, llm.UserText("Go."), nil) {
			if s.err = err; err != nil {
				break
			}
			switch ev := ev.(type) {
			case event.Pause:
				paused <- ev.Pause
			case event.End:
				s.end = ev
			}
			s.events = append(s.events, ev)
		}
		first <- s
	}()
	<-entered
	p := <-paused
	for _, rn := range []*runner.Runner{r.Runner, r.another()} {
		run := watch(t, rn.Run(t.Context(), user, chat, llm.UserText("And?"), nil))
		var busy *session.BusyError
		if !errors.As(run.err, &busy) || busy.Session != chat {
			t.Errorf("Run on a driven session: %v", run.err)
		}
		res, err := rn.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v")))
		must(t, err)
		watch(t, res.Events(t.Context())).finished(event.FinishElsewhere)
	}
	close(release)
	(<-first).finished(event.FinishStop)
	if got := r.transcript().History; len(got) != 4 {
		t.Errorf("%d messages are stored", len(got))
	}
	r.acceptable()
}

func TestRunWithCallsPending(t *testing.T) {
	var n counter
	config := agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Idempotent, &n), asking("ask", &n)},
		Model: messages(calls("job", `{"text":"j"}`, "ask", `{"text":"q"}`), says("Noted."), says("Again.")),
	}
	t.Run("it is refused, with a list", func(t *testing.T) {
		r := newRig(t, config, nil)
		p := r.say("Go.").finished(event.FinishPaused)
		before := r.transcript()
		for _, o := range []*runner.RunOptions{nil, {Supersede: true}} { // a machine's call is not denied for a message
			run := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Well?"), o))
			var pending *session.PendingError
			if !errors.As(run.err, &pending) || len(pending.Pending) != 2 || pending.Pending[0].ID != p.pause("job").ID {
				t.Errorf("%+v: %v", o, run.err)
			}
		}
		if after := r.transcript(); printed(after) != printed(before) {
			t.Errorf("a refused message left a trace: %v", after)
		}
		// What was accepted is settled first; then the message is appended, and the model called once.
		for _, tool := range []string{"job", "ask"} {
			_, err := r.Resume(t.Context(), chat, runner.Complete(p.pause(tool).ID, "ci", text("v")))
			must(t, err)
		}
		r.restart()
		r.say("Well?").finished(event.FinishStop)
		history := r.transcript().History
		if len(history) != 5 || history[3].Text() != "Well?" || history[4].Text() != "Noted." {
			t.Errorf("the history is %v", history)
		}
		r.acceptable()
	})
	t.Run("it supersedes what waits for a person", func(t *testing.T) {
		r := newRig(t, config, nil)
		p := r.say("Go.").finished(event.FinishPaused)
		_, err := r.Resume(t.Context(), chat, runner.Complete(p.pause("job").ID, "ci", text("v")))
		must(t, err)
		watch(t, r.Run(t.Context(), user, chat, llm.UserText("Never mind."), &runner.RunOptions{Supersede: true})).finished(event.FinishStop)
		denied := r.result(p.pause("ask").Call)
		if !denied.Error || !strings.Contains(string(denied.Output), "Denied") {
			t.Errorf("the question settled with %s", denied.Output)
		}
		if _, err := r.Resume(t.Context(), chat, runner.Complete(p.pause("ask").ID, user, text("late"))); !errors.Is(err, session.ErrSettled) {
			t.Errorf("a late answer gets %v", err)
		}
		r.acceptable()
	})
}

// asking is a tool that asks a person; the answer is its output.
func asking(name string, n *counter) tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: name, Description: "Asks.", MayPause: true},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			n.add(name)
			return tool.NeedInput[textOut](in.Text), nil
		}))
}

func TestLimits(t *testing.T) {
	var n counter
	endless := modelFunc(func(llm.Request) []llm.Event {
		return []llm.Event{
			llm.PartDone{Part: calls("look", `{"text":"a"}`)[0]}, llm.PartDone{Part: calls("look", `{"text":"b"}`)[0]},
			llm.Finish{Reason: llm.StopToolCalls, Usage: llm.Usage{Input: 10, Output: 5}},
		}
	})
	for want, test := range map[event.Finish]struct {
		limits  agent.Limits
		entered int // in the first run, and again in the next
	}{
		event.FinishMaxTurns:  {agent.Limits{Turns: 3}, 6},
		event.FinishMaxCalls:  {agent.Limits{ToolCalls: 3}, 2},
		event.FinishMaxTokens: {agent.Limits{Tokens: 29}, 2},
	} {
		n = counter{}
		r := newRig(t, agent.Config{Limits: test.limits, Tools: []tool.Tool{instant("look", tool.ReadOnly, &n)}, Model: endless}, nil)
		r.say("Go.").finished(want)
		if n.get("look") != test.entered {
			t.Errorf("%s: bodies were entered %d times, not %d", want, n.get("look"), test.entered)
		}
		r.acceptable()
		r.restart()
		r.say("Go on.").finished(want) // a new message has fresh limits
		r.carryOn().finished(want)     // and so has Continue
		if want == event.FinishMaxTurns && n.get("look") != 3*test.entered {
			t.Errorf("%s: bodies were entered %d times over three runs", want, n.get("look"))
		}
		r.acceptable()
	}
}

func TestDeadlinesSurviveRestarts(t *testing.T) {
	var n counter
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	sleep := tool.Must(tool.Func(tool.Spec{Name: "sleep", Description: "s", Effect: tool.Idempotent, MayPause: true},
		func(ctx context.Context, _ struct{}) (tool.Result[textOut], error) {
			if n.add("sleep") == 1 {
				return tool.Pending[textOut](tool.Await{Reason: tool.ReasonTimer, Timeout: time.Hour}), nil
			}
			if tool.CallFrom(ctx).Answer == nil {
				return nil, errors.New("no answer")
			}
			return tool.Done(textOut{"rested"}), nil
		}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{sleep, waiting("job", tool.Idempotent, &n)},
		Model: messages(calls("sleep", `{}`, "job", `{"text":"j"}`), says("Done.")),
	}, &rigOptions{session: &session.Options{Now: func() time.Time { return now }}})
	run := r.say("Go.").finished(event.FinishPaused)
	deadline := run.pause("sleep").Deadline
	for range 5 {
		now = now.Add(11 * time.Minute)
		r.restart()
		r.carryOn().finished(event.FinishPaused)
		if got := r.transcript().Pending; len(got) != 2 || !got[0].Deadline.Equal(deadline) {
			t.Fatalf("after %v, what waits is %v", now, got)
		}
	}
	r.restart()
	now = now.Add(5 * time.Minute) // it is over, and so is the job's
	ctx, cancel := context.WithCancel(t.Context())
	err := r.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
		if _, ok := ev.(event.End); ok {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := string(r.result(run.pause("sleep").Call).Output); got != string(text("rested")) {
		t.Errorf("the timer's call settled with %s", got)
	}
	if got := r.result(run.pause("job").Call); !got.Error || !strings.Contains(string(got.Output), "Expired") {
		t.Errorf("the job's call settled with %s", got.Output)
	}
	if n.get("sleep") != 2 || n.get("job") != 1 {
		t.Errorf("bodies were entered %v", n.n)
	}
	r.acceptable()
}
