package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// Another process takes the session between a run's look at it and its first
// commit: the message is refused, not dropped.
func TestMessageThatComesSecond(t *testing.T) {
	h := new(hooked)
	inModel, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r := newRig(t, agent.Config{Model: streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		once.Do(func() { close(inModel); <-goOn })
		return fakellm.Echo().Generate(ctx, req)
	})}, &rigOptions{wrap: h.shared})
	other := r.another()
	ended := make(chan *seen, 1)
	h.apply = func(kvstore.Batch) {
		h.apply = nil
		go func() {
			ended <- watch(t, other.Run(t.Context(), user, chat, llm.UserText("theirs"), nil))
		}()
		<-inModel
	}
	s := r.say("mine")
	close(goOn)
	(<-ended).finished(event.FinishStop)
	if !errors.Is(s.err, session.ErrBusy) || slices.Contains(r.texts(), "mine") {
		t.Errorf("it ended as %q, %v; the session has %q", s.end.Finish, s.err, r.texts())
	}
}

// Another process begins the session between a run's look at it and its first
// commit, and is done, too: for another user, or with another agent. Nothing is
// said in another user's session, nor told of it.
func TestSessionThatSomebodyElseBegan(t *testing.T) {
	for name, test := range map[string]struct {
		user, agent string
		want        error
	}{
		"another user":             {"eve", "ops", session.ErrWrongUser},
		"another agent":            {user, "sales", session.ErrBusy},
		"another user's and agent": {"eve", "sales", session.ErrWrongUser},
	} {
		t.Run(name, func(t *testing.T) {
			h, n := new(hooked), counter{}
			sales, err := agent.New(agent.Config{
				Name: "sales", Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
				Model: messages(calls("deploy", `{"text":"secret"}`)),
			})
			must(t, err)
			c := jobs(&n, 1)
			c.Name = "ops"
			r := newRig(t, c, &rigOptions{
				wrap: h.shared, runner: &runner.Options{Agents: []*agent.Agent{sales}},
			})
			h.apply = func(kvstore.Batch) {
				h.apply = nil
				o := &runner.RunOptions{Agent: test.agent, MessageID: "m-1"}
				watch(t, r.Run(t.Context(), test.user, chat,
					llm.UserText("theirs"), o)).finished(event.FinishPaused)
			}
			s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("mine"), nil))
			if !errors.Is(s.err, test.want) || slices.Contains(r.texts(), "mine") {
				t.Errorf("it ended as %q, %v; the session has %q", s.end.Finish, s.err, r.texts())
			}
			if test.user != user && (len(s.end.Pending) != 0 ||
				strings.Contains(printed(s.events), "secret")) {
				t.Errorf("told is %v", s.events)
			}
		})
	}
}

// settling is a rig whose session has an accepted answer, and a run that
// settles it first. It is in the body, until it may go on.
func settling(t *testing.T, o *rigOptions) (r *rig, ended func() *seen, goOn func()) {
	entered, may := make(chan struct{}), make(chan struct{})
	var once sync.Once
	which := tool.NewQuestion[textOut, string, int]("which")
	confirm := tool.Must(tool.Resumable(tool.Spec{Name: "confirm", Description: "c"},
		func(_ context.Context, _ textIn) (tool.Result[textOut], error) {
			return which.Ask("How many?", "state"), nil
		},
		tool.On(which, func(context.Context, textIn, tool.Reply[string, int]) (tool.Result[textOut], error) {
			once.Do(func() { close(entered); <-may })
			return tool.Done(textOut{"x"}), nil
		})))
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{confirm},
		Model: messages(calls("confirm", `{"text":"j"}`), says("Done."), says("Done.")),
	}, o)
	p := r.say("Go.").finished(event.FinishPaused).pause("confirm")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", []byte(`1`)))
	must(t, err)
	ended = r.begin("mine")
	<-entered
	return r, ended, func() { close(may) }
}

// What was accepted is settled before a message is taken. Meanwhile the session
// is deleted, or another process takes it over.
func TestMessageThatComesTooLate(t *testing.T) {
	t.Run("deleted", func(t *testing.T) {
		r, ended, goOn := settling(t, nil)
		must(t, r.Delete(t.Context(), chat, "bob"))
		goOn()
		if s := ended(); !errors.Is(s.err, session.ErrDeleted) {
			t.Errorf("it ended as %q, %v", s.end.Finish, s.err)
		}
	})
	t.Run("taken over", func(t *testing.T) {
		c := newClock()
		r, ended, goOn := settling(t, &rigOptions{wrap: hidden,
			session: &session.Options{Now: c.now, MaxSkew: time.Millisecond}})
		c.pass(time.Minute) // the lease ran out: as after a long stop of the process
		watch(t, r.another().Continue(t.Context(), chat, user))
		goOn()
		if s := ended(); !errors.Is(s.err, session.ErrFenced) ||
			slices.Contains(r.texts(), "mine") {
			t.Errorf("it ended as %q, %v; the session has %q", s.end.Finish, s.err, r.texts())
		}
	})
}

// An answer came before its pause, which takes a message, and was refused. The
// user then says the same.
func TestMessageThatEqualsARefusedAnswer(t *testing.T) {
	var r *rig
	ask := tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true},
		func(ctx context.Context, _ textIn) (tool.Result[string], error) {
			_, err := r.Resume(context.Background(), chat,
				runner.Complete(tool.CallFrom(ctx).ID, "ci", []byte(`"yes"`)))
			if err != nil {
				t.Error(err)
			}
			return tool.Pending[string](tool.Await{Reason: tool.ReasonInput,
				Mode: tool.ModeMessage, Prompt: "Sure?"}), nil
		}))
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{ask},
		Model: fakellm.New(fakellm.Calls("ask", `{"text":"a"}`), fakellm.Says("Thanks.")),
	}, nil)
	p := r.say("Ask me.").finished(event.FinishPaused).pause("ask")
	r.say("yes").finished(event.FinishStop)
	if res := r.result(p.Call); string(res.Output) != `"yes"` {
		t.Errorf("the result is %s", res.Output)
	}
}

// The user's message and a cancellation come at the same time: both count.
func TestMessageOutrunByACancellation(t *testing.T) {
	var n counter
	h := &hooked{}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: fakellm.New(fakellm.Calls("job", `{"text":"k"}`), fakellm.Says("Well.")),
	}, &rigOptions{memory: true, wrap: h.shared})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v")))
	must(t, err)
	h.apply = func(b kvstore.Batch) {
		for _, put := range b.Puts {
			if h.apply != nil && bytes.Contains(put.Value, []byte("And now?")) {
				h.apply = nil
				_, err := r.Cancel(context.Background(), chat, p.Call, "bob", "no")
				must(t, err)
			}
		}
	}
	r.say("And now?").finished(event.FinishStop)
	if got := r.result(p.Call); !got.Error {
		t.Errorf("the call ended with %s", got.Output)
	}
	if got := r.transcript().History; len(got) != 5 || got[3].Text() != "And now?" {
		t.Errorf("the history is %v", got)
	}
	r.acceptable()
}

// A message that is refused leaves an interrupted session interrupted, although
// what was accepted before is settled for it.
func TestRefusedMessageLiftsNothing(t *testing.T) {
	for lease, wrap := range engineKinds {
		for _, was := range []session.Halt{{Finish: event.FinishInterrupted},
			{Finish: event.FinishCancelled, Actor: "bob", Why: "enough"}} {
			t.Run(fmt.Sprint(was.Finish, " ", lease), func(t *testing.T) {
				var n counter
				r := newRig(t, jobs(&n, 2), &rigOptions{wrap: wrap})
				p := r.say("Go.").finished(event.FinishPaused).end.Pending
				_, err := r.Resume(t.Context(), chat, runner.Complete(p[0].ID, "ci", text("v")))
				must(t, err)
				must(t, r.store.Update(t.Context(), chat, func(tx *session.Tx) error {
					tx.Stop(was.Finish, was.Why)
					tx.Halt.Actor = was.Actor
					return nil
				}))
				if err := r.say("And?").err; err == nil {
					t.Fatal("it is taken")
				}
				if got := r.transcript(); got.Finish != was.Finish || got.Why != was.Why ||
					len(got.Pending) != 1 {
					t.Errorf("it is %q, and %d calls wait", got.Finish, len(got.Pending))
				}
				if got := must2(r.store.Load(t.Context(), chat)).Halt; got == nil ||
					got.Actor != was.Actor {
					t.Errorf("it was ended by %q, and is kept as %+v", was.Actor, got)
				}
			})
		}
	}
}

// An answer that comes while a refused message is given up lifts the
// interruption, as it does before and after.
func TestAnswerBesideARefusedMessage(t *testing.T) {
	var n counter
	h := new(hooked)
	r := newRig(t, jobs(&n, 3), &rigOptions{wrap: h.shared})
	p := r.say("Go.").finished(event.FinishPaused).end.Pending
	_, err := r.Resume(t.Context(), chat, runner.Complete(p[0].ID, "ci", text("v")))
	must(t, err)
	must(t, r.store.Update(t.Context(), chat, func(tx *session.Tx) error {
		tx.Stop(event.FinishInterrupted, "")
		return nil
	}))
	h.apply = func(b kvstore.Batch) {
		if slices.ContainsFunc(b.Puts, func(put kvstore.Put) bool {
			return bytes.Contains(put.Value, []byte(`"halt":{`))
		}) {
			h.apply = nil
			_, err := r.Resume(t.Context(), chat, runner.Complete(p[1].ID, "ci", text("w")))
			must(t, err)
		}
	}
	if err := r.say("And?").err; !errors.Is(err, session.ErrPending) || h.apply != nil {
		t.Fatalf("the message is taken, or the session was not halted again: %v", err)
	}
	st, err := r.store.Load(t.Context(), chat)
	must(t, err)
	if step := session.Next(st, r.store.Now()); !step.Working() {
		t.Errorf("an answer is accepted, and what comes next is %q", step.Kind)
	}
}

// A message can't be stored. An interruption that it would have lifted stays,
// also where a result was shown meanwhile, which is noted.
func TestMessageThatIsNotStoredLiftsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, entered, let := heldUp("slow", "late")
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{slow, instant("weather", tool.ReadOnly, &n),
				instant("pay", tool.Once, &n)}, Concurrency: 2,
			Model: messages(calls("slow", `{"text":"x"}`, "weather", `{"text":"Oslo"}`,
				"pay", `{"text":"5"}`), says("Done.")),
		}, nil)
		for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
			must(t, err)
			if _, ok := ev.(event.Result); ok {
				<-entered // no body is entered once the caller has left
				break
			}
		}
		close(let)
		r.idle()
		r.faults.Add(faultkv.FailAt(r.faults.Applies() + 1)) // the claim of what is left to pay
		s := r.say("And?")
		shows(t, s, "slow done")
		if !errors.Is(s.err, faultkv.ErrFault) || r.transcript().Finish != event.FinishInterrupted {
			t.Errorf("it ended with %v, and the session is left as %q",
				s.err, r.transcript().Finish)
		}
		shows(t, r.carryOn().finished(event.FinishStop), "pay done")
	})
}

// What a crash cut off is settled before the user's next message, by a result
// that is stored: it reads the same each time.
func TestMessageAfterACrash(t *testing.T) {
	entered := 0
	r := crash(t, tool.Spec{Name: "pay"}, func(tool.Call) tool.Result[textOut] {
		entered++
		return tool.Done(textOut{"paid"})
	})
	r.say("Have you paid?").finished(event.FinishStop)
	roles := func() (s string) {
		for _, m := range r.transcript().History {
			s += string(m.Role) + " "
		}
		return s
	}
	if got := roles(); got != "user assistant tool user assistant " {
		t.Errorf("the transcript is %s", got)
	}
	var read []string
	for range 2 {
		b, err := r.transcript().History[2].AppendJSON(nil)
		must(t, err)
		read = append(read, string(b))
		r.restart()
	}
	if read[0] != read[1] || !strings.Contains(read[0], "unknown") {
		t.Errorf("the result is read as %s, and then as %s", read[0], read[1])
	}
	if entered != 1 {
		t.Errorf("the body was entered %d times", entered)
	}
	r.acceptable()
}

// A run of a message that another process brings at the same time takes it
// once.
func TestOneMessageThroughTwoProcesses(t *testing.T) {
	asked := 0
	script := messages(says("Hello."), says("Hello again."))
	r, second := overtaken(t, modelFunc(func(req llm.Request) []llm.Event {
		asked++
		return script(req)
	}))
	o := &runner.RunOptions{MessageID: "m1"}
	r.before(func() {
		watch(t, r.Run(t.Context(), user, chat, llm.UserText("Hi."), o)).finished(event.FinishStop)
	})
	watch(t, second.Run(t.Context(), user, chat, llm.UserText("Hi."), o)).finished(event.FinishStop)
	if got := r.transcript().History; len(got) != 2 || asked != 1 {
		t.Errorf("the history is %v, and the model was asked %d times", got, asked)
	}
}
