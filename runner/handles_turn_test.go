package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// asksTwice is a tool that asks its model two questions, one after the other.
func asksTwice(t *testing.T) tool.Tool {
	t.Helper()
	own := rawTool{tool.Spec{Name: "build", MayPause: true, Effect: tool.Idempotent,
		Input: json.RawMessage(`{"type":"object","properties":{"target":{"type":"string"}}}`)},
		func(_ context.Context, c tool.Call) (tool.Execution, error) {
			if c.Answer != nil && c.Pauses == 2 {
				return tool.Execution{Output: json.RawMessage(`"both"`)}, nil
			}
			return tool.Execution{Await: &tool.Await{Reason: tool.ReasonAssistant,
				Prompt: "And?", Mode: tool.ModeReenter}}, nil
		}}
	made, err := handle.Stateful(own, &handle.Options{Asks: true})
	must(t, err)
	return made
}

// The calls of a turn act on one handle in their order, however many may run.
func TestActionsOfATurnAreInOrder(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a"}`).
			And("build", `{"action":"abort","id":"a"}`).
			And("build", `{"action":"fetch","id":"a"}`).
			And("build", `{"action":"apply","id":"a","input":"1"}`),
		fakellm.Says("Done."))
	for range 5 {
		r := newRig(t, agent.Config{Concurrency: 8, Tools: []tool.Tool{asksTwice(t)}, Model: model},
			&rigOptions{memory: true})
		r.say("Go.").finished(event.FinishStop)
		got := r.outputs()
		if !strings.Contains(got[0], "running") || !strings.Contains(got[1], `"stopped"`) ||
			!strings.Contains(got[2], `"stopped"`) || !strings.Contains(got[3], "has stopped") {
			t.Errorf("%q", got)
		}
		r.told(0)
	}
}

// One input answers one question: given again, after the next one is asked or
// the handle has stopped, it is a duplicate.
func TestAnInputCountsOnce(t *testing.T) {
	r := newRig(t, agent.Config{Tools: []tool.Tool{asksTwice(t)}, Model: messages(says("Hi."))}, nil)
	r.say("Hello.").finished(event.FinishStop)
	s := r.spawned("a", "build", `{}`)
	asked := func() {
		t.Helper()
		watch(t, r.Follow(t.Context(), s.Session, user, nil)).finished(event.FinishPaused)
	}
	apply := func(delivery string) session.Receipt {
		t.Helper()
		rc, err := r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user,
			Value: json.RawMessage(`"go on"`), Delivery: delivery})
		must(t, err)
		return rc
	}
	asked()
	if rc := apply("1"); rc.Duplicate {
		t.Errorf("first: %+v", rc)
	}
	for {
		asked()
		c, err := r.Call(t.Context(), s.Session, s.Call, user)
		must(t, err)
		if c.Pauses == 2 && c.Status == session.Pending {
			break
		}
	}
	if rc := apply("1"); !rc.Duplicate {
		t.Errorf("again, at the next question: %+v", rc)
	}
	if h, err := r.Fetch(t.Context(), chat, "a", user); err != nil || h.State != tool.HandleWaiting {
		t.Errorf("%+v, %v", h, err)
	}
	apply("2")
	if h := r.awaited("a"); string(h.Output) != `"both"` {
		t.Errorf("%+v", h)
	}
	if rc := apply("2"); !rc.Duplicate {
		t.Errorf("again, once it has stopped: %+v", rc)
	}
	r.told(0)
}

// What is sent again to a handle that has stopped is not given to another one,
// which has its name since, where it says which one it is for.
func TestAnInputForAHandleThatHadTheName(t *testing.T) {
	r := newRig(t, agent.Config{Tools: []tool.Tool{asksTwice(t)}, Model: messages(says("Hi."))}, nil)
	r.say("Hello.").finished(event.FinishStop)
	first := r.spawned("a", "build", `{}`)
	apply := func(delivery, session string) (session.Receipt, error) {
		return r.Apply(t.Context(), chat, runner.Input{Handle: "a", Actor: user, Session: session,
			Value: json.RawMessage(`"go on"`), Delivery: delivery})
	}
	asked := func(s runner.Spawned, pause int) {
		t.Helper()
		for {
			watch(t, r.Follow(t.Context(), s.Session, user, nil)).finished(event.FinishPaused)
			c, err := r.Call(t.Context(), s.Session, s.Call, user)
			must(t, err)
			if c.Pauses == pause && c.Status == session.Pending {
				return
			}
			if c.Pauses > pause || c.Status == session.Settled {
				t.Fatalf("it has asked %d questions, and is %s", c.Pauses, c.Status)
			}
		}
	}
	for n := 1; n <= 2; n++ {
		asked(first, n)
		_, err := apply(fmt.Sprint(n), first.Session)
		must(t, err)
	}
	r.awaited("a")
	second, err := r.Spawn(t.Context(), chat, runner.Spawning{Handle: "a", Tool: "build", ID: "2",
		Actor: user})
	must(t, err)
	asked(second, 1)
	for _, delivery := range []string{"1", "2"} {
		if rc, err := apply(delivery, first.Session); err != nil || !rc.Duplicate {
			t.Errorf("what came before comes to %+v, %v", rc, err)
		}
	}
	if rc, err := apply("3", first.Session); !errors.Is(err, runner.ErrHandleStopped) {
		t.Errorf("what is new comes to %+v, %v", rc, err)
	}
	for _, other := range []string{chat, "none", session.ChildPrefix + "none"} {
		if rc, err := apply("1", other); !errors.Is(err, session.ErrUnknownHandle) {
			t.Errorf("by the session %q it comes to %+v, %v", other, rc, err)
		}
	}
	asked(second, 1)
	rc, err := apply("2", second.Session)
	if err != nil || rc.Duplicate {
		t.Errorf("at the second handle it comes to %+v, %v", rc, err)
	}
	asked(second, 2)
	must(t, r.Abort(t.Context(), chat, "a", user, ""))
	r.awaited("a")
	r.told(0)
}

// Layers see the call that runs, once, with the tool's own arguments. What acts
// on its handle only they see that ask for it.
func TestLayersAroundHandles(t *testing.T) {
	var mu sync.Mutex
	seen := map[string][]string{}
	layer := func(name string, actions bool) interceptor.Layer {
		l := toolLayer(name, func(ctx context.Context, c tool.Call,
			next interceptor.ToolHandler) (tool.Execution, error) {
			if c.Tool == "build" && c.Answer == nil {
				mu.Lock()
				seen[name] = append(seen[name], string(c.Arguments))
				mu.Unlock()
			}
			return next(ctx, c)
		})
		l.Actions = actions
		return l
	}
	const spawn, fetch = `{"action":"spawn","id":"a","target":"x"}`, `{"action":"fetch","id":"a"}`
	model := fakellm.New(fakellm.Calls("build", spawn), fakellm.Calls("await", `{"all":["a"]}`),
		fakellm.Calls("build", fetch), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t)}, Model: model,
		Interceptors: interceptor.Chain{layer("all", true), layer("own", false)}}, nil)
	r.say("Go.").finished(event.FinishStop)
	r.told(0)
	const own = `{"target":"x"}`
	if got := strings.Join(seen["own"], " "); got != own {
		t.Errorf("a layer sees %s", got)
	}
	if got := strings.Join(seen["all"], " "); got != spawn+" "+own+" "+fetch {
		t.Errorf("one that asks for actions sees %s", got)
	}
}

// What is begun needs approval, and to begin it doesn't wait for that. Neither
// the model's input nor a program's is an approval.
func TestApprovalIsAroundWhatIsBegun(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
		fakellm.Calls("build", `{"action":"apply","id":"a","input":"yes"}`),
		fakellm.Calls("await", `{"all":["a"]}`), fakellm.Says("Done."))
	own := tool.Must(tool.Func(tool.Spec{Name: "build"},
		func(_ context.Context, in target) (tool.Result[string], error) {
			return tool.Done("built " + in.Target), nil
		}))
	made, err := handle.Stateful(own, &handle.Options{Asks: true})
	must(t, err)
	var r *rig
	// The model goes on once what it has begun waits.
	late := interceptor.Layer{Name: "late", Model: func(next interceptor.ModelHandler) interceptor.ModelHandler {
		return func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
			if len(req.Messages) == 3 {
				r.asking("a")
			}
			return next(ctx, req)
		}
	}}
	r = newRig(t, agent.Config{Tools: []tool.Tool{made}, Model: model,
		Interceptors: append(approval(), late)}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("build")
	got := r.outputs()
	if !strings.Contains(got[0], "running") || !strings.Contains(got[1], "a person's approval") {
		t.Errorf("%q", got)
	}
	if p.Await.Gate == "" || string(p.Arguments) != `{"target":"x"}` {
		t.Fatalf("%+v", p)
	}
	in := runner.Input{Handle: "a", Actor: user, Value: json.RawMessage(`"yes"`), Delivery: "1"}
	if rc, err := r.Apply(t.Context(), chat, in); err == nil {
		t.Errorf("an input has approved: %+v", rc)
	}
	_, err = r.Resume(t.Context(), p.Session, runner.Approve(p.ID, user, ""))
	must(t, err)
	r.carryOn().finished(event.FinishStop)
	if got := r.outputs(); !strings.Contains(got[2], "built x") {
		t.Errorf("%q", got)
	}
	r.told(0)
}

// A handle that waits for a person's approval keeps no message from the model.
func TestAMessageGoesPastAWaitingHandle(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`).
			And("await", `{"all":["a"]}`),
		fakellm.Calls("await", `{"all":["a"],"timeout_secs":0}`).
			And("build", `{"action":"abort","id":"a"}`), fakellm.Says("Aborted."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{builds(t)}, Model: model,
		Interceptors: approval()}, nil)
	r.say("Go.").finished(event.FinishPaused)
	r.say("Stop it.").finished(event.FinishStop)
	if got := r.outputs(); len(got) != 4 || !strings.Contains(got[1], `"interrupted":true`) ||
		!strings.Contains(got[3], "aborted") {
		t.Errorf("%q", got)
	}
	r.told(0)
}

// asking waits until a handle waits for an answer.
func (r *rig) asking(name string) {
	for {
		h, err := r.store.Handle(r.t.Context(), chat, name)
		must(r.t, err)
		changed, stop := r.store.WatchAll(h.Child)
		now, err := r.Fetch(r.t.Context(), chat, name, user)
		must(r.t, err)
		if now.State != tool.HandleWaiting {
			<-changed
		}
		stop()
		if now.State == tool.HandleWaiting {
			return
		}
	}
}

// A handle goes on when the caller of the run leaves.
func TestAHandleGoesOnWithoutItsCaller(t *testing.T) {
	held, entered, let := heldUp("hold", "held")
	made, err := handle.Stateful(held, nil)
	must(t, err)
	model := fakellm.New(fakellm.Calls("hold", `{"action":"spawn","id":"a","text":"x"}`),
		fakellm.Calls("await", `{"all":["a"]}`), fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{made}, Model: model}, nil)
	ctx, leave := context.WithCancel(t.Context())
	for ev, err := range r.Run(ctx, user, chat, llm.UserText("Go."), nil) {
		if err != nil {
			break
		}
		if _, paused := ev.(event.Pause); paused {
			<-entered
			break
		}
	}
	leave()
	if h, err := r.Fetch(t.Context(), chat, "a", user); err != nil || h.State != tool.HandleRunning {
		t.Fatalf("%+v, %v", h, err)
	}
	close(let)
	if h := r.awaited("a"); h.Status != "done" {
		t.Errorf("%+v", h)
	}
	r.carryOn().finished(event.FinishStop)
	r.told(0)
}

// Several calls, and programs, may await one handle.
func TestSeveralAwaitOneHandle(t *testing.T) {
	model := fakellm.New(
		fakellm.Calls("job", `{"action":"spawn","id":"a","target":"x"}`).
			And("job", `{"action":"spawn","id":"b","target":"x"}`),
		fakellm.Calls("await", `{"all":["a"]}`).And("await", `{"any":["a","b"]}`).
			And("await", `{"all":["a","b"]}`),
		fakellm.Says("Done."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{waits(t, "job")}, Model: model}, nil)
	r.say("Go.").finished(event.FinishPaused)
	must(t, r.Abort(t.Context(), chat, "a", user, ""))
	changed, stop := r.store.WatchAll(chat)
	defer stop()
	for r.transcript().Handles != 1 {
		<-changed
	}
	r.carryOn().finished(event.FinishPaused)
	settled := 0
	for _, c := range r.transcript().Calls {
		if c.Status == session.Settled {
			settled++
		}
	}
	if settled != 2 {
		t.Errorf("%d awaits are over with the first end", settled)
	}
	must(t, r.Abort(t.Context(), chat, "b", user, ""))
	for r.transcript().Handles != 0 {
		<-changed
	}
	r.carryOn().finished(event.FinishStop)
	for i, pending := range []bool{false, true, false} {
		if got := r.outputs()[2+i]; strings.Contains(got, `"pending":[]`) == pending {
			t.Errorf("await %d comes to %s", i, got)
		}
	}
	r.told(0)
}
