package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A program's await ends with its handles, with its context, or with the
// runner; of any, one is enough.
func TestAwaitFromGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, agent.Config{Tools: []tool.Tool{waits(t, "job")},
			Model: messages(says("Hi."))}, &rigOptions{memory: true})
		r.say("Hello.").finished(event.FinishStop)
		for _, name := range []string{"a", "b", "c"} {
			r.spawned(name, "job", `{"target":"x"}`)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		stopped := func(w tool.HandleWait) <-chan string {
			out := make(chan string, 1)
			go func() {
				all, err := r.Await(ctx, chat, w, user)
				words := ""
				for _, h := range all {
					words += h.Name + " " + string(h.State) + " "
				}
				if err != nil {
					words += err.Error()
				}
				out <- words
			}()
			synctest.Wait()
			return out
		}
		any := stopped(tool.HandleWait{Any: []string{"c", "b"}})
		both := stopped(tool.HandleWait{All: []string{"a", "b"}, Any: []string{"b"}})
		never := stopped(tool.HandleWait{All: []string{"c"}})
		begun := time.Now()
		must(t, r.Abort(t.Context(), chat, "b", user, ""))
		if got := <-any; got != "c running b stopped " {
			t.Errorf("any: %s", got)
		}
		select {
		case got := <-both:
			t.Errorf("all: %s", got)
		default:
		}
		must(t, r.Abort(t.Context(), chat, "a", user, ""))
		if got := <-both; got != "a stopped b stopped " {
			t.Errorf("all: %s", got)
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("an end of this process was seen after %v", waited)
		}
		if got := <-never; got != "c running "+context.DeadlineExceeded.Error() {
			t.Errorf("ctx: %s", got)
		}
		if _, err := r.Await(t.Context(), chat, tool.HandleWait{}, user); err == nil {
			t.Error("nothing is awaited")
		}
		_, err := r.Await(t.Context(), chat, tool.HandleWait{Any: []string{"d"}}, user)
		if !errors.Is(err, tool.ErrUnknownHandle) {
			t.Errorf("no such handle: %v", err)
		}
		closed := make(chan error, 1)
		go func() {
			_, err := r.Await(t.Context(), chat, tool.HandleWait{All: []string{"c"}}, user)
			closed <- err
		}()
		synctest.Wait()
		must(t, r.Close())
		if err := <-closed; !errors.Is(err, runner.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
		r.sound()
	})
}

// To cancel a call that awaits is to interrupt it: it tells how its handles
// stand, and they go on.
func TestCancelInterruptsAnAwait(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("job", `{"action":"spawn","id":"a","target":"x"}`).
			And("await", `{"all":["a"]}`),
		fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{waits(t, "job")}, Model: model}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("await")
	if _, err := r.Cancel(t.Context(), chat, p.ID, user, ""); err != nil {
		t.Fatal(err)
	}
	rc, err := r.Cancel(t.Context(), chat, p.Call, user, "")
	if must(t, err); !rc.Duplicate {
		t.Errorf("again: %+v", rc)
	}
	r.carryOn().finished(event.FinishPaused) // the run waits for the handle now
	const want = `"interrupted":true`
	if got := r.outputs()[1]; !strings.Contains(got, want) || !strings.Contains(got, `"running"`) {
		t.Errorf("it comes to %s", got)
	}
	h, err := r.Fetch(t.Context(), chat, "a", user)
	if must(t, err); h.State != tool.HandleRunning {
		t.Errorf("%+v", h)
	}
	r.told(1)
}

// An await that is cancelled when its handles have stopped, and it is about to
// tell of them, tells.
func TestCancelComesAfterTheEnds(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("job", `{"action":"spawn","id":"a","target":"x"}`).
			And("job", `{"action":"spawn","id":"b","target":"x"}`),
		fakellm.Calls("await", `{"any":["a","b"]}`), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{waits(t, "job")}, Model: model}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("await")
	must(t, r.Abort(t.Context(), chat, "a", user, "too slow"))
	waitFor(t, func() bool { return r.transcript().Handles == 1 })
	if _, err := r.Cancel(t.Context(), chat, p.Call, user, ""); err != nil {
		t.Fatal(err)
	}
	r.carryOn()
	if got := r.outputs()[2]; !strings.Contains(got, "too slow") {
		t.Errorf("it comes to %s", got)
	}
	r.told(1)
}

// A call that waits again after it was interrupted is cancelled as any other.
func TestCancelEndsWhatWaitsAgain(t *testing.T) {
	stubborn := handleWaiter{name: "wait", on: "a"}
	model := fakellm.New(
		fakellm.Calls("job", `{"action":"spawn","id":"a","target":"x"}`),
		fakellm.Calls("wait", `{}`), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{waits(t, "job"), stubborn}, Model: model}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("wait")
	for range 2 {
		_, err := r.Cancel(t.Context(), chat, p.Call, user, "enough")
		must(t, err)
		r.carryOn()
	}
	if got := r.outputs(); len(got) != 2 || !strings.Contains(got[1], "enough") {
		t.Errorf("%q", got)
	}
	r.told(1)
}

// handleWaiter is a tool that waits for a handle, again and again.
type handleWaiter struct{ name, on string }

func (w handleWaiter) Spec() tool.Spec {
	return tool.Spec{Name: w.name, MayPause: true, Effect: tool.Idempotent}
}

func (w handleWaiter) Execute(context.Context, tool.Call) (tool.Execution, error) {
	return tool.Execution{Await: &tool.Await{Reason: tool.ReasonHandles,
		Handles: &tool.HandleWait{All: []string{w.on}}}}, nil
}

// An await names handles of its own session only. So it can't wait for itself,
// or for what it is below: from there, they have no names.
func TestAnAwaitSeesItsOwnSessionsHandles(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
		fakellm.Calls("await", `{"action":"spawn","id":"w","all":["a"]}`).
			And("await", `{"all":["w"]}`),
		fakellm.Says("Done."), fakellm.Says("I see.")) // if a's end comes right before that
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t)}, Model: model}, nil)
	r.say("Go.").finished(event.FinishStop)
	h := r.awaited("a")
	// Its child has no handles, nor does it know of its own name.
	for _, name := range []string{"a", "w"} {
		if _, err := r.Fetch(t.Context(), h.Session, name, user); !errors.Is(err, tool.ErrUnknownHandle) {
			t.Errorf("%s, from below: %v", name, err)
		}
	}
	got := r.outputs()
	if !strings.Contains(got[1], "action") || !strings.Contains(got[2], "Handle `w` not found") {
		t.Errorf("%q", got)
	}
	r.told(0)
}

// A message that can't be stored has interrupted nothing, and nothing of that is
// shown. The same message again interrupts the await. Also where the write is
// stored, and its acknowledgement lost, that counts once.
func TestAMessageThatCannotBeStoredInterruptsNothing(t *testing.T) {
	for name, fault := range map[string]func(int) faultkv.Fault{
		"fails": faultkv.FailAt, "is lost": faultkv.LoseAt,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, agent.Config{Tools: []tool.Tool{waits(t, "job")}, Model: fakellm.New(
				fakellm.Calls("job", `{"action":"spawn","id":"a","target":"x"}`).
					And("await", `{"all":["a"]}`),
				fakellm.Calls("job", `{"action":"abort","id":"a"}`),
				fakellm.Says("I see."))}, &rigOptions{memory: true})
			r.say("Go.").finished(event.FinishPaused)
			await := ""
			for _, c := range r.transcript().Calls {
				if c.Tool == "await" {
					await = c.Call
				}
			}
			r.faults.Add(fault(r.faults.Applies() + 1))
			s := r.tell("m-1", "Never mind.")
			texts := r.texts()
			if stored := texts[len(texts)-1] == "I see."; !stored {
				if name != "fails" || s.err == nil || len(of[event.Result](s)) > 0 {
					t.Errorf("the run ended with %v, and showed %v", s.err, s.events)
				}
				if c, err := r.Call(t.Context(), chat, await, user); err != nil ||
					c.Status != session.Pending {
					t.Errorf("the await is %+v, %v", c, err)
				}
				s = r.tell("m-1", "Never mind.")
			}
			s.finished(event.FinishStop)
			shown := 0
			for _, res := range of[event.Result](s) {
				if res.Result.Call == await {
					shown++
				}
			}
			if got := r.outputs(); shown != 1 || !strings.Contains(got[1], `"interrupted":true`) {
				t.Errorf("its result is shown %d times; results are %q", shown, got)
			}
			r.told(0)
		})
	}
}

// What an await has seen to stop it tells, also where that is no longer kept when
// the others stop.
func TestAnAwaitTellsWhatIsNoLongerKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newClock()
		b := underPolicy(t, "build", tool.Idempotent, tool.HandlePolicy{AtEnd: tool.KeepAtEnd},
			func(ctx context.Context, in target) (tool.Result[string], error) {
				return tool.Pending[string](tool.Await{}), nil
			})
		model := fakellm.New(fakellm.Says("Hello."), fakellm.Says("Hello."), fakellm.Says("Hello."))
		o := at(cl)
		o.memory = true
		r := newRig(t, agent.Config{Tools: []tool.Tool{b}, Model: model}, o)
		r.say("Hi.").finished(event.FinishStop)
		var calls []runner.Spawned
		for _, n := range []string{"a", "b"} {
			s, err := r.Spawn(t.Context(), chat, runner.Spawning{Handle: n, Tool: "build", ID: n,
				Arguments: json.RawMessage(`{"target":"x"}`), Actor: user})
			must(t, err)
			calls = append(calls, s)
		}
		type got struct {
			all []tool.Handle
			err error
		}
		c := make(chan got, 1)
		go func() {
			all, err := r.Await(context.Background(), chat, tool.HandleWait{All: []string{"a", "b"}}, user)
			c <- got{all, err}
		}()
		r.settled()
		answer := func(i int) {
			res, err := r.Resume(t.Context(), calls[i].Session, runner.Complete(calls[i].Call, user, json.RawMessage(`"built"`)))
			must(t, err)
			_ = watch(t, res.Events(t.Context()))
			r.settled()
		}
		answer(0)
		synctest.Wait() // the await has seen that
		r.say("Hi.").finished(event.FinishStop)
		cl.pass(8 * 24 * time.Hour)
		swept, err := r.store.Sweep(t.Context(), &session.Retention{Handles: 7 * 24 * time.Hour, Sessions: 365 * 24 * time.Hour})
		must(t, err)
		if swept.Handles != 1 {
			t.Fatalf("swept were %+v", swept)
		}
		answer(1)
		g := <-c
		must(t, g.err)
		if g.all[0].Status != "done" || string(g.all[0].Output) != `"built"` {
			t.Errorf("a came to done, and is told as %s: %s", g.all[0].Status, g.all[0].Output)
		}
		must(t, r.Close())
	})
}
