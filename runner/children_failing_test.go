package runner_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

type sky struct {
	Degrees int `json:"degrees"`
}

// However a nested agent fails, that is its call's error: the caller's model
// reads why, and its run goes on.
func TestANestedAgentThatFailsIsItsCallsError(t *testing.T) {
	busy := &llm.Error{Kind: llm.ErrOverloaded, Err: errors.New("too many")}
	for name, c := range map[string]struct {
		model llm.Model
		want  string
	}{
		"model fails":  {fakellm.New(fakellm.Fails(errors.New("no such model"))), "no such model"},
		"retries over": {fakellm.New(fakellm.Fails(busy).Forever()), "too many"},
		"refuses":      {fakellm.New(fakellm.Says("I won't.").Stop(llm.StopRefusal)), "declined: I won't."},
		"cut off":      {fakellm.New(fakellm.Says(`{"deg`).Stop(llm.StopLength)), "cut off"},
		"no JSON":      {fakellm.New(fakellm.Says("Warm.")), "not JSON"},
		"misfit":       {fakellm.New(fakellm.Says(`{"degrees":"warm"}`)), "does not fit"},
		"says nothing": {fakellm.New(fakellm.Says("")), "other"},
	} {
		t.Run(name, func(t *testing.T) {
			helper, err := agent.New(agent.Config{Name: "helper", Model: c.model,
				Retry: agent.Retry{Failures: 1, First: time.Millisecond, Most: time.Millisecond}})
			must(t, err)
			nested, err := agenttool.New[task, sky](helper, nil)
			must(t, err)
			r := newRig(t, agent.Config{Tools: []tool.Tool{nested}, Model: fakellm.New(
				fakellm.Calls("helper", `{"what":"Look."}`), fakellm.Says("A pity."))}, nil)
			s := r.say("Go.").finished(event.FinishStop)
			results := of[event.Result](s)
			if len(results) != 1 || results[0].Status != event.Failed ||
				!results[0].Result.Error || !strings.Contains(string(results[0].Result.Output), c.want) {
				t.Errorf("the model reads %+v; its output is %s", results, r.outputs())
			}
			must(t, r.Close())
			r.sound()
		})
	}
}

// A deploy takes a nested agent away while it waits, and while it works. A run
// of its caller ends as paused, and lists what waits, at once; a worker finds
// nothing to spin on. The call may be cancelled, and with the agent back the
// work goes on, and is done once.
func TestANestedAgentThatIsNoLongerThere(t *testing.T) {
	for name, c := range map[string]struct{ waits, cancel bool }{
		"works": {}, "waits": {waits: true},
		"works, cancelled": {cancel: true}, "waits, cancelled": {waits: true, cancel: true},
	} {
		t.Run(name, func(t *testing.T) {
			entered := make(chan struct{}, 1)
			first := fakellm.From(func(llm.Request) fakellm.Turn {
				return fakellm.Says("Never.").Hook(func(ctx context.Context, n int) error {
					if n > 0 {
						return nil
					}
					entered <- struct{}{}
					<-ctx.Done()
					return context.Cause(ctx)
				})
			})
			if c.waits {
				first = fakellm.Calls("ask", `{}`)
			}
			with := func(turns ...fakellm.Turn) agent.Config {
				return agent.Config{Name: "ops", Model: fakellm.New(
					fakellm.Calls("helper", `{"what":"Book."}`), fakellm.Says("Well.")),
					Tools: []tool.Tool{nestedTool(t, "helper", fakellm.New(turns...), roomTool())}}
			}
			r := newRig(t, with(first), &rigOptions{memory: true,
				runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}})
			ended := r.begin("Go.")
			if !c.waits {
				<-entered
				must(t, r.Close())
			}
			ended()

			gone := with()
			gone.Tools = nil
			r.config = gone
			r.restart()
			s := r.carryOn().finished(event.FinishPaused)
			var listed []tool.Reason
			for _, p := range s.end.Pending {
				listed = append(listed, p.Await.Reason)
			}
			if want := 1 + map[bool]int{true: 1}[c.waits]; len(listed) != want ||
				listed[0] != tool.ReasonAgent {
				t.Errorf("these wait: %v", listed)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			reads := r.faults.Applies()
			_ = r.Work(ctx, &runner.WorkOptions{Poll: 10 * time.Millisecond})
			cancel()
			if n := r.faults.Applies() - reads; n > 0 {
				t.Errorf("a worker has written %d times", n)
			}
			if c.cancel {
				_, err := r.Cancel(t.Context(), chat, r.onlyCall(), "eve", "no use")
				must(t, err)
				r.carryOn().finished(event.FinishStop)
			}

			r.config = with(fakellm.Calls("ask", `{}`), fakellm.Says("Room 7."))
			r.restart()
			if !c.cancel {
				s = r.carryOn().finished(event.FinishPaused)
				for _, p := range s.end.Pending {
					if p.Await.Reason == tool.ReasonInput {
						answerBelow(t, r.Runner, p, "7").finished(event.FinishStop)
					}
				}
				if got := r.outputs(); len(got) != 1 || got[0] != `"Room 7."` {
					t.Errorf("outputs are %q", got)
				}
			}
			r.settled()
			if n := r.sessions(); n != 2 {
				t.Errorf("there are %d sessions", n)
			}
			must(t, r.Close())
			for st, err := range r.store.List(t.Context(), public.Filter{Children: true}) {
				if must(t, err); st.Open() > 0 || len(st.Outbox) > 0 || len(st.Run.Leaving) > 0 {
					t.Errorf("%s has %d open calls, and owes %v", st.ID, st.Open(), st.Outbox)
				}
			}
			r.sound()
		})
	}
}

// damage overwrites the head of a session, and returns what puts it right.
func (r *rig) damage(id string) (mend func()) { return r.overwrite(id, `{"v":1,"broken`) }

func (r *rig) overwrite(id, head string) (mend func()) {
	r.t.Helper()
	key := kvstore.Key("h", id)
	was, err := r.engine.Get(r.t.Context(), key)
	must(r.t, err)
	put := func(v string) {
		_, err := r.engine.Apply(context.Background(),
			kvstore.Batch{Puts: []kvstore.Put{{Key: key, Value: []byte(v)}}})
		must(r.t, err)
	}
	put(head)
	return func() { put(string(was.Value)) }
}

// twoThatAsk runs a session until two children of it each ask something.
func twoThatAsk(t *testing.T) (r *rig, a, b tool.Pause) {
	t.Helper()
	helper := nestedTool(t, "helper", repeats("ask"), asksWhat("ask"))
	r = newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
		fakellm.Calls("helper", `{"what":"A?"}`).And("helper", `{"what":"B?"}`),
		fakellm.Says("Well."))}, &rigOptions{memory: true,
		runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}})
	asked := pausesBelow(t, r.say("Go.").finished(event.FinishPaused))
	return r, asked["A?"], asked["B?"]
}

// One of two children can't be read. Its caller is told so by a typed error,
// and the other child's work goes on and counts. The call of the damaged one may
// be cancelled, and then the run ends. A deletion takes along what can be read.
func TestOneChildThatCanNotBeRead(t *testing.T) {
	for name, deletes := range map[string]bool{"cancelled": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			r, bad, good := twoThatAsk(t)
			mend := r.damage(bad.Session)
			r.restart()
			if s := r.carryOn(); !errors.Is(s.err, session.ErrCorrupt) {
				t.Errorf("a run over a damaged child ends %+v, with %v", s.end, s.err)
			}
			if deletes {
				must(t, r.Delete(t.Context(), chat, user))
				waitFor(t, func() bool {
					st, err := r.store.Load(t.Context(), good.Session)
					return err == nil && !st.Deleted.IsZero()
				})
				mend()
				must(t, r.Close())
				r.restart()
				r.settled()
				st, err := r.store.Load(t.Context(), bad.Session)
				if must(t, err); st.Deleted.IsZero() {
					t.Error("the child that was damaged is left behind")
				}
				must(t, r.Close())
				r.sound()
				return
			}
			if s := answerBelow(t, r.Runner, good, "bee"); s.err != nil &&
				!errors.Is(s.err, session.ErrCorrupt) {
				t.Errorf("the other child can't be answered: %v", s.err)
			}
			st, err := r.store.Load(t.Context(), chat)
			if must(t, err); st.Call(good.Path[0].Call).Status != session.Settled {
				t.Errorf("the other child's call is %s", st.Call(good.Path[0].Call).Status)
			}
			_, err = r.Cancel(t.Context(), chat, bad.Path[0].Call, "eve", "damaged")
			must(t, err)
			r.carryOn().finished(event.FinishStop)
			if got := r.outputs(); len(got) != 2 || !strings.Contains(got[1], "bee") {
				t.Errorf("outputs are %q", got)
			}
			mend()
			must(t, r.Close())
			r.restart()
			r.settled()
			must(t, r.Close())
			r.sound()
		})
	}
}

// What a session owes to a child that can't be read is tried again, later and
// later. What it owes to another child is carried out at once meanwhile.
func TestAFailingErrandKeepsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, bad, good := twoThatAsk(t)
		mend := r.damage(bad.Session)
		_, err := r.Cancel(t.Context(), chat, bad.Path[0].Call, "eve", "damaged")
		must(t, err)
		time.Sleep(3 * time.Minute)
		_, err = r.Cancel(t.Context(), chat, good.Path[0].Call, "eve", "no")
		must(t, err)
		synctest.Wait()
		st, err := r.store.Load(t.Context(), good.Session)
		if must(t, err); st.Halt == nil {
			t.Error("the other child was not told at once")
		}
		mend()
		must(t, r.Close())
	})
}

// heldReads is an engine that keeps reads of one key waiting.
type heldReads struct {
	kvstore.Store
	key atomic.Pointer[[]byte]
	let chan struct{}
}

func (h *heldReads) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if held := h.key.Load(); held != nil && bytes.Equal(*held, key) {
		<-h.let
	}
	return h.Store.Get(ctx, key)
}

// What one tree has on its way, and can't deliver just now, holds no Run of
// another tree.
func TestWhatAnotherTreeOwesHoldsNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &heldReads{let: make(chan struct{})}
		asks, calls := fakellm.Calls("ask", `{"what":"A?"}`), fakellm.Calls("helper", `{"what":"Ask."}`)
		helper := nestedTool(t, "helper", fakellm.New(asks, asks), asksWhat("ask"))
		r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(calls, calls)},
			&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
				engine.Store = hidden(kv)
				return engine
			}})
		first := pausesBelow(t, r.say("Go.").finished(event.FinishPaused))["A?"]
		key := kvstore.Key("h", first.Session)
		engine.key.Store(&key)
		_, err := r.Cancel(t.Context(), chat, first.Path[0].Call, "eve", "no")
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if s := watch(t, r.Run(ctx, user, "chat-2", llm.UserText("Go."), nil)); s.err != nil ||
			s.end.Finish != event.FinishPaused {
			t.Errorf("it ends %q, with %v", s.end.Finish, s.err)
		}
		close(engine.let)
		must(t, r.Close())
	})
}
