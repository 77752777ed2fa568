package runner_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// quietRunner logs nothing.
var quietRunner = &runner.Options{Logger: slog.New(slog.DiscardHandler)}

// within carries the tree on, and fails the test if that doesn't end by itself.
func (r *rig) within(bound time.Duration) *seen {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), bound)
	defer cancel()
	s := watch(r.t, r.Continue(ctx, chat, user))
	if ctx.Err() != nil {
		r.t.Fatalf("the run doesn't end in %v", bound)
	}
	return s
}

// A nested agent owes the end of its call to a session below it that can't be
// read. The agent itself goes on, what it asks is listed, and neither a run nor
// a worker waits for the session that it has left.
func TestWhatIsOwedToADamagedSessionHoldsNobody(t *testing.T) {
	for name, asks := range map[string]bool{"the agent asks": true, "the agent ends": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leaf := nestedTool(t, "leaf", fakellm.New(fakellm.Calls("ask", `{}`)), roomTool())
				next := fakellm.Says("It is room 7.")
				if asks {
					next = fakellm.Calls("ask", `{}`)
				}
				middle := nestedTool(t, "middle", fakellm.New(
					fakellm.Calls("leaf", `{"what":"Ask."}`), next), leaf, roomTool())
				r := newRig(t, agent.Config{Tools: []tool.Tool{middle}, Model: fakellm.New(
					fakellm.Calls("middle", `{"what":"Book."}`), fakellm.Says("Booked."))},
					&rigOptions{memory: true, runner: quietRunner})
				p := r.say("Go.").finished(event.FinishPaused).pause("ask")
				mend, above := r.damage(p.Session), p.Path[1]
				r.restart()
				_, err := r.Cancel(t.Context(), above.Session, above.Call, user, "no")
				must(t, err)
				if s := r.within(10 * time.Second); asks {
					s.finished(event.FinishPaused)
					if !slices.ContainsFunc(s.end.Pending, func(p tool.Pause) bool {
						return p.Session == above.Session && p.Tool == "ask"
					}) {
						t.Errorf("these wait: %+v", s.end.Pending)
					}
				} else {
					s.finished(event.FinishStop)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					must(t, r.Work(ctx, &runner.WorkOptions{Session: chat, UntilOver: true}))
				}
				mend()
				time.Sleep(2 * time.Minute) // what it owes was tried again meanwhile
				if st, err := r.store.Load(t.Context(), p.Session); err != nil || st.Open() > 0 {
					t.Errorf("the session is not told of its end: %v", err)
				}
				must(t, r.Close())
				r.sound()
			})
		})
	}
}

// A message of a child can't be read that its parent is to be told, or that its
// own model is to be shown. Neither holds a run for ever: the caller has a typed
// error.
func TestADamagedMessageBelowHoldsNoRun(t *testing.T) {
	for name, is := range map[string]func(child *core.State) bool{
		"the last words":   func(child *core.State) bool { return child.Tells() },
		"what it was told": func(child *core.State) bool { return child.Due },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, child := killedWhen(t, is)
				page, err := r.engine.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key("m", child.ID)})
				must(t, err)
				last := page.Entries[len(page.Entries)-1]
				put := func(value string) {
					_, err := r.engine.Apply(t.Context(), kvstore.Batch{
						Puts: []kvstore.Put{{Key: last.Key, Value: []byte(value)}}})
					must(t, err)
				}
				put("{")
				if s := r.within(10 * time.Second); !errors.Is(s.err, session.ErrCorrupt) {
					t.Errorf("it ends %+v, with %v", s.end, s.err)
				}
				put(string(last.Value))
				time.Sleep(2 * time.Minute)
				r.within(10 * time.Second).finished(event.FinishStop)
				must(t, r.Close())
				r.sound()
			})
		})
	}
}

// killedWhen returns a rig whose process died when its nested agent's session
// stood so.
func killedWhen(t *testing.T, is func(*core.State) bool) (*rig, *core.State) {
	t.Helper()
	for n := 1; n < 20; n++ {
		helper := nestedTool(t, "helper", fakellm.New(fakellm.Says("It is 42.")))
		r := newRig(t, agent.Config{Tools: []tool.Tool{helper}, Model: fakellm.New(
			fakellm.Calls("helper", `{"what":"Find it."}`), fakellm.Says("I know."))},
			&rigOptions{memory: true, runner: quietRunner})
		r.faults.Add(faultkv.LoseAt(n).AndDie())
		_ = r.tell("m-1", "Go.")
		r.restart()
		for st, err := range r.store.List(t.Context(), session.Filter{Children: true}) {
			if must(t, err); st.Parent != nil && is(st) {
				return r, st
			}
		}
		must(t, r.Close())
	}
	t.Fatal("a nested agent's session never stands so")
	return nil, nil
}
