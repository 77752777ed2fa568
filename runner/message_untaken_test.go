package runner_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
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

// texts lists the texts of a session's messages.
func (r *rig) texts() (texts []string) {
	for _, m := range r.transcript().History {
		texts = append(texts, m.Text())
	}
	return texts
}

// Another process takes the session between a run's look at it and its first commit: the message is refused, not dropped.
func TestMessageThatComesSecond(t *testing.T) {
	h := new(hooked)
	inModel, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r := newRig(t, agent.Config{Model: streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		once.Do(func() { close(inModel); <-goOn })
		return fakellm.Echo().Generate(ctx, req)
	})}, &rigOptions{wrap: h.wrap})
	other := r.another()
	ended := make(chan *seen, 1)
	h.before = func(kvstore.Batch) {
		h.before = nil
		go func() { ended <- watch(t, other.Run(t.Context(), user, chat, llm.UserText("theirs"), nil)) }()
		<-inModel
	}
	s := r.say("mine")
	close(goOn)
	(<-ended).finished(event.FinishStop)
	if !errors.Is(s.err, session.ErrBusy) || slices.Contains(r.texts(), "mine") {
		t.Errorf("it ended as %q, %v; the session has %q", s.end.Finish, s.err, r.texts())
	}
}

// Another process begins the session between a run's look at it and its first commit, and is done, too: for another user, or with another
// agent. Nothing is said in a session of somebody else's, nor told of it.
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
				Name: "sales", Tools: []tool.Tool{waiting("deploy", tool.Once, &n)}, Model: messages(calls("deploy", `{"text":"secret"}`)),
			})
			must(t, err)
			c := jobs(&n, 1)
			c.Name = "ops"
			r := newRig(t, c, &rigOptions{wrap: h.wrap, runner: &runner.Options{Agents: []*agent.Agent{sales}}})
			h.before = func(kvstore.Batch) {
				h.before = nil
				o := &runner.RunOptions{Agent: test.agent, MessageID: "m-1"}
				watch(t, r.Run(t.Context(), test.user, chat, llm.UserText("theirs"), o)).finished(event.FinishPaused)
			}
			s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("mine"), nil))
			if !errors.Is(s.err, test.want) || slices.Contains(r.texts(), "mine") {
				t.Errorf("it ended as %q, %v; the session has %q", s.end.Finish, s.err, r.texts())
			}
			if test.user != user && (len(s.end.Pending) != 0 || strings.Contains(printed(s.events), "secret")) {
				t.Errorf("told is %v", s.events)
			}
		})
	}
}

// settling is a rig whose session has an accepted answer, and a run that settles it first. It is in the body, until it may go on.
func settling(t *testing.T, o *rigOptions) (r *rig, ended func() *seen, goOn func()) {
	entered, may := make(chan struct{}), make(chan struct{})
	var once sync.Once
	confirm := tool.Must(tool.Resumable(tool.Spec{Name: "confirm", Description: "c"},
		func(_ context.Context, _ textIn, ask tool.Ask[textOut, string]) (tool.Result[textOut], error) {
			return ask("How many?", "state"), nil
		},
		func(context.Context, textIn, tool.Reply[textOut, string, int]) (tool.Result[textOut], error) {
			once.Do(func() { close(entered); <-may })
			return tool.Done(textOut{"x"}), nil
		}))
	r = newRig(t, agent.Config{Tools: []tool.Tool{confirm}, Model: messages(calls("confirm", `{"text":"j"}`), says("Done."), says("Done."))}, o)
	p := r.say("Go.").finished(event.FinishPaused).pause("confirm")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", []byte(`1`)))
	must(t, err)
	ended = r.begin("mine")
	<-entered
	return r, ended, func() { close(may) }
}

// What was accepted is settled before a message is taken. Meanwhile the session is deleted, or another process takes it over.
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
		r, ended, goOn := settling(t, &rigOptions{wrap: hidden, session: &session.Options{Now: c.now, MaxSkew: time.Millisecond}})
		c.pass(time.Minute) // the lease ran out: as after a long stop of the process
		watch(t, r.another().Continue(t.Context(), chat, user))
		goOn()
		if s := ended(); !errors.Is(s.err, session.ErrFenced) || slices.Contains(r.texts(), "mine") {
			t.Errorf("it ended as %q, %v; the session has %q", s.end.Finish, s.err, r.texts())
		}
	})
}

// A call that a message supersedes is shown as denied once that can't be otherwise any more.
func TestSupersededIsShownOnceStored(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{instant("refund", tool.Once, &n)}, Interceptors: approval(),
		Model: fakellm.New(fakellm.Calls("refund", `{"text":"10"}`), fakellm.Says("I see.")),
	}, nil)
	p := r.say("Refund it.").finished(event.FinishPaused).pause("refund")
	denied := false
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("No, wait."), &runner.RunOptions{Supersede: true}) {
		must(t, err)
		if res, ok := ev.(event.Result); ok && res.Status == event.Denied {
			denied = true
			if _, err := r.Resume(t.Context(), chat, runner.Approve(p.ID, "eve", "")); !errors.Is(err, session.ErrSettled) {
				t.Errorf("an approval after that is told %v", err)
			}
		}
	}
	if n.get("refund") != 0 || !denied {
		t.Errorf("it was shown as denied: %v; it ran %d times", denied, n.get("refund"))
	}
	r.acceptable()
}

// An answer came before its pause, which takes a message, and was refused. The user then says the same.
func TestMessageThatEqualsARefusedAnswer(t *testing.T) {
	var r *rig
	ask := tool.Must(tool.Func(tool.Spec{Name: "ask", MayPause: true}, func(ctx context.Context, _ textIn) (tool.Result[string], error) {
		_, err := r.Resume(context.Background(), chat, runner.Complete(tool.CallFrom(ctx).ID, "ci", []byte(`"yes"`)))
		if err != nil {
			t.Error(err)
		}
		return tool.Pending[string](tool.Await{Reason: tool.ReasonInput, Mode: tool.ModeMessage, Prompt: "Sure?"}), nil
	}))
	r = newRig(t, agent.Config{Tools: []tool.Tool{ask}, Model: fakellm.New(fakellm.Calls("ask", `{"text":"a"}`), fakellm.Says("Thanks."))}, nil)
	p := r.say("Ask me.").finished(event.FinishPaused).pause("ask")
	r.say("yes").finished(event.FinishStop)
	if res := r.result(p.Call); string(res.Output) != `"yes"` {
		t.Errorf("the result is %s", res.Output)
	}
}

// A program makes ids of its own, which don't tell their age. A sweep spares a payload whose commit is on its way.
func TestSweepWithOwnIDs(t *testing.T) {
	h, ids := new(hooked), 0
	var n counter
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)}, Model: fakellm.New(fakellm.Calls("job", `{"text":"k"}`), fakellm.Says("Done."))},
		&rigOptions{wrap: h.wrap, session: deterministic(&ids)})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	h.before = func(b kvstore.Batch) {
		for _, put := range b.Puts { // the head's commit: its payload lies there already
			if strings.HasPrefix(string(put.Key), "h\x00") {
				h.before = nil
				_, err := r.store.Sweep(context.Background(), nil)
				must(t, err)
				return
			}
		}
	}
	answer := text(strings.Repeat("x", 200<<10))
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", answer))
	must(t, err)
	r.carryOn().finished(event.FinishStop)
	if res := r.result(p.Call); string(res.Output) != string(answer) {
		t.Errorf("the result has %d bytes", len(res.Output))
	}
}

// An answer may be null, also in a head to which a later version has added something.
func TestNullAnswerAndALaterField(t *testing.T) {
	job := tool.Must(tool.Func(tool.Spec{Name: "job", MayPause: true},
		func(context.Context, textIn) (tool.Result[any], error) { return tool.Pending[any](tool.Await{}), nil }))
	r := newRig(t, agent.Config{Tools: []tool.Tool{job}, Model: fakellm.New(fakellm.Calls("job", `{"text":"k"}`), fakellm.Says("Done."))}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", []byte(`null`)))
	must(t, err)
	key := kvstore.Key("h", chat)
	e, err := r.kv.Get(t.Context(), key)
	must(t, err)
	value := append(e.Value[:len(e.Value)-1:len(e.Value)-1], `,"new_field":1}`...)
	_, err = r.kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: key, Value: value}}})
	must(t, err)
	r.carryOn().finished(event.FinishStop)
}

// An early answer outlived its body, and is to be the output; a layer that asks first denies it. Its receipt says so.
func TestEarlyAnswerThatAGateDenies(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Idempotent, &n)}, Interceptors: approval(),
		Model: fakellm.New(fakellm.Calls("job", `{"text":"10"}`), fakellm.Says("I see.")),
	}, nil)
	for ev := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		if _, ok := ev.(event.Call); ok {
			break
		}
	}
	call := r.onlyCall()
	_, err := r.Resume(t.Context(), chat, runner.Complete(call, "ci", text("v")))
	must(t, err)
	p := r.carryOn().finished(event.FinishPaused).pause("job")
	r.answer(runner.Deny(p.ID, "eve", "no")).finished(event.FinishStop)
	if rc := r.receipt(call, 1); rc.Fate != session.Superseded {
		t.Errorf("the answer's receipt says %q", rc.Fate)
	}
}

// A message that supersedes more than one commit denies keeps its lease in between: somebody who approves one of the rest, and another
// process that would carry that on, don't have it refused half done.
func TestSupersededInSeveralCommits(t *testing.T) {
	var n counter
	turn := fakellm.Turn{}
	for range session.SupersedeAtOnce + 2 {
		turn = turn.And("refund", `{"text":"a"}`)
	}
	h := new(hooked)
	r := newRig(t, gated(&n, fakellm.New(turn, fakellm.Says("As you like.")), "clerk"), &rigOptions{wrap: h.wrap})
	other := r.another()
	r.say("Go.").finished(event.FinishPaused)
	h.before = func(kvstore.Batch) {
		p := must2(r.Show(t.Context(), chat, user)).Pending
		if len(p) > 2 {
			return // the first are not denied yet
		}
		h.before = nil
		_, err := other.Resume(t.Context(), chat, runner.Approve(p[0].ID, "bob", ""))
		must(t, err)
		if err := watch(t, other.Continue(t.Context(), chat, user)).err; !errors.Is(err, session.ErrBusy) {
			t.Errorf("another process carries it on: %v", err)
		}
	}
	s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Stop."), &runner.RunOptions{Supersede: true})).finished(event.FinishStop)
	if n.get("refund") != 1 || !slices.Contains(r.texts(), "Stop.") || h.before != nil {
		t.Errorf("refund was entered %d times; it ended as %s, and the session has %q", n.get("refund"), s.end.Finish, r.texts())
	}
	r.acceptable()
}

// manyGated is a rig where more refunds wait than one commit denies, and so two do.
func manyGated(t *testing.T, wrap func(kvstore.Store) kvstore.Store) *rig {
	var n counter
	turn := fakellm.Turn{}
	for range session.SupersedeAtOnce + 2 {
		turn = turn.And("refund", `{"text":"a"}`)
	}
	r := newRig(t, gated(&n, fakellm.New(turn, fakellm.Says("As you like.")), "clerk"), &rigOptions{wrap: wrap})
	r.say("Go.").finished(event.FinishPaused)
	return r
}

// A message that supersedes can't be stored. What was to be denied with it waits on, the model is not asked, and what was denied before
// it is shown by the next drive.
func TestSupersedingMessageThatIsNotStored(t *testing.T) {
	for name, wrap := range map[string]func(kvstore.Store) kvstore.Store{"exclusive": nil, "shared": hidden} {
		t.Run(name, func(t *testing.T) {
			r := manyGated(t, wrap)
			r.faults.Before(func(c faultkv.Call) {
				if len(must2(r.Show(t.Context(), chat, user)).Pending) == 2 { // the others are denied
					r.faults.Before(nil)
					r.faults.Add(faultkv.FailAt(c.Number))
				}
			})
			s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Stop."), &runner.RunOptions{Supersede: true}))
			if !errors.Is(s.err, faultkv.ErrFault) || len(s.end.Pending) != 2 || len(r.transcript().Pending) != 2 {
				t.Errorf("it ended with %v; %d calls wait, and %d as it said", s.err, len(r.transcript().Pending), len(s.end.Pending))
			}
			shows(t, s)
			shows(t, r.carryOn().finished(event.FinishPaused), slices.Repeat([]string{"refund denied"}, session.SupersedeAtOnce)...)
		})
	}
}

// Somebody ends the run while a message supersedes its calls: what was denied is shown all the same, and the message with the results.
func TestRunThatIsEndedWhileItIsSuperseded(t *testing.T) {
	r := manyGated(t, nil)
	r.faults.Before(func(faultkv.Call) {
		r.faults.Before(nil)
		must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
	})
	s := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Stop."), &runner.RunOptions{Supersede: true})).finished(event.FinishStop)
	shows(t, s, slices.Repeat([]string{"refund denied"}, session.SupersedeAtOnce+2)...)
	if m := of[event.Message](s); len(m) != 2 || m[0].Message.Role != llm.RoleTool {
		t.Errorf("the messages shown are %v", m)
	}
	r.acceptable()
}
