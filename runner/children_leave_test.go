package runner_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// heldUpChild is a config whose model calls an agent that works until it is let.
func heldUpChild(t *testing.T) (c agent.Config, entered, let chan struct{}) {
	t.Helper()
	entered, let = make(chan struct{}), make(chan struct{})
	helper := nestedTool(t, "helper", fakellm.New(fakellm.From(func(llm.Request) fakellm.Turn {
		return fakellm.Says("Done it.").Hook(func(ctx context.Context, n int) error {
			if n > 0 {
				return nil
			}
			close(entered)
			select {
			case <-let:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	})))
	return agent.Config{Name: "ops", Tools: []tool.Tool{helper}, Model: fakellm.New(
		fakellm.Calls("helper", `{"what":"x"}`), fakellm.Says("I see."))}, entered, let
}

// A caller whose context ends while children work, or whose runner is closed
// then, is told that the run was interrupted, and not that it failed or waits.
// The children of one that has left go on; those of a closed runner go on under
// the next one.
func TestLeavingWhileChildrenWork(t *testing.T) {
	for name, closes := range map[string]bool{"context": false, "close": true} {
		t.Run(name, func(t *testing.T) {
			c, entered, let := heldUpChild(t)
			r := newRig(t, c, &rigOptions{memory: true})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			ended := make(chan *seen, 1)
			go func() { ended <- watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil)) }()
			<-entered
			if closes {
				must(t, r.Close())
			} else {
				leave()
			}
			s := <-ended
			if s.end.Finish != event.FinishInterrupted || s.err == nil ||
				!closes && !errors.Is(s.err, context.Canceled) ||
				closes && !errors.Is(s.err, runner.ErrClosed) {
				t.Fatalf("the run ended as %q, with %v", s.end.Finish, s.err)
			}
			if closes {
				c, _, let = heldUpChild(t)
				r.config = c
				r.restart()
			}
			close(let)
			if !closes {
				waitFor(t, func() bool {
					st, err := r.store.Load(t.Context(), chat)
					return err == nil && st.Call(st.Calls[0].ID).Status == session.Answered &&
						!r.store.HeldHere(chat)
				})
			}
			r.carryOn().finished(event.FinishStop)
			if got := r.outputs(); len(got) != 1 || got[0] != `"Done it."` {
				t.Errorf("outputs are %q", got)
			}
			must(t, r.Close())
			r.sound()
		})
	}
}

// After a restart, a worker of one session carries its children on as well.
func TestAWorkerOfOneSessionCarriesItsChildrenOn(t *testing.T) {
	c, entered, _ := heldUpChild(t)
	r := newRig(t, c, &rigOptions{memory: true})
	ended := r.begin("Go.")
	<-entered
	must(t, r.Close())
	ended()
	var let chan struct{}
	r.config, _, let = heldUpChild(t)
	close(let)
	r.restart()
	must(t, r.Work(t.Context(), &runner.WorkOptions{Session: chat, UntilOver: true}))
	if got := r.outputs(); len(got) != 1 || got[0] != `"Done it."` {
		t.Errorf("outputs are %q", got)
	}
	must(t, r.Close())
	r.sound()
}

// A session of an older store whose id is that of a child, and which is none,
// lives as any other.
func TestASessionOfAnOlderStoreMayHaveAChildsID(t *testing.T) {
	const old = "child:of-old"
	r := newRig(t, agent.Config{Tools: []tool.Tool{asksWhat("ask")}, Model: fakellm.New(
		fakellm.Calls("ask", `{"what":"Which?"}`), fakellm.Says("Thanks."), fakellm.Says("Bye."))},
		&rigOptions{memory: true, session: nil})
	err := begun(t, r, old)
	must(t, err)
	ran := watch(t, r.Continue(t.Context(), old, user)).finished(event.FinishPaused)
	answerBelow(t, r.Runner, ran.pause("ask"), "This.").finished(event.FinishStop)
	s := watch(t, r.Run(t.Context(), user, old, llm.UserText("Bye."), nil)).finished(event.FinishStop)
	if s.end.Session != old {
		t.Errorf("%+v", s.end)
	}
	for _, ev := range s.events {
		if n, ok := ev.(event.Nested); ok {
			t.Errorf("it is shown as a child's: %+v", n)
		}
	}
	must(t, r.Close())
	r.sound()
}

// begun writes the head of a session as an older program would have.
func begun(t *testing.T, r *rig, id string) error {
	t.Helper()
	ended := watch(t, r.Run(t.Context(), user, id, llm.UserText("Go."), nil))
	if ended.err == nil || !strings.Contains(ended.err.Error(), "children") {
		t.Errorf("a caller may begin it now, with %v", ended.err)
	}
	d, err := r.store.Acquire(t.Context(), "plain", &session.New{User: user, Agent: "ops"})
	must(t, err)
	m, err := session.NewEntry(llm.UserText("Go."))
	must(t, err)
	must(t, d.GiveUp(t.Context(), func(tx *session.Tx) error { return tx.Say(m, "", "", true) }))
	return rename(t, r.engine, "plain", id)
}

// rename gives all records of a session that has no calls another id.
func rename(t *testing.T, kv kvstore.Store, from, to string) error {
	t.Helper()
	page, err := kv.Scan(t.Context(), kvstore.Range{Limit: 100})
	must(t, err)
	var b kvstore.Batch
	for _, e := range page.Entries {
		parts, err := kvstore.Parts(e.Key)
		must(t, err)
		if i := slices.Index(parts, from); i > 0 {
			parts[i] = to
			value := bytes.ReplaceAll(e.Value, []byte(`"`+from+`"`), []byte(`"`+to+`"`))
			b.Deletes = append(b.Deletes, e.Key)
			b.Puts = append(b.Puts, kvstore.Put{Key: kvstore.Key(parts...), Value: value})
		}
	}
	_, err = kv.Apply(t.Context(), b)
	return err
}

// What a tool of a child can't call off is tried for days. Nothing waits for
// that: a Run ends as paused once the rest of the tree waits.
func TestWhatACallOwesOutsideHoldsNoRun(t *testing.T) {
	o := newCallsOff(func(int) error { return errors.New("no answer") })
	turn := fakellm.Calls("build", `{"text":"x"}`).And("ask", `{}`)
	helper := nestedTool(t, "helper", fakellm.New(turn), build(o, tool.Idempotent), roomTool())
	r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
		fakellm.Calls("helper", `{"what":"Build."}`))}, nil)
	r.say("Go.")
	child := session.ChildID(session.PauseID(r.onlyCall(), 1))
	st, err := r.store.Load(t.Context(), child)
	must(t, err)
	_, err = r.Cancel(t.Context(), child, st.Calls[0].ID, "ada", "not now")
	must(t, err)
	<-o.came // it has failed, or is about to
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if s := watch(t, r.Continue(ctx, chat, "ada")); s.err != nil ||
		s.end.Finish != event.FinishPaused {
		t.Errorf("it ends %q, with %v", s.end.Finish, s.err)
	}
}
