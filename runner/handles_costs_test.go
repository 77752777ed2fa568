package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	"github.com/fermata-ai/fermata/tool"
)

// ledger is an engine that notes which heads each commit writes. Commits that
// write none, which a store makes once, don't count.
type ledger struct {
	kvstore.Exclusive
	mu      sync.Mutex // guards commits
	commits []string
}

func (l *ledger) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	rev, err := l.Exclusive.Apply(ctx, b)
	var heads []string
	for _, p := range b.Puts {
		switch {
		case !isHead(p.Key):
		case strings.Contains(string(p.Key), session.ChildPrefix):
			heads = append(heads, "handle")
		default:
			heads = append(heads, "session")
		}
	}
	if err == nil && len(heads) > 0 {
		slices.Sort(heads)
		l.mu.Lock()
		l.commits = append(l.commits, strings.Join(heads, "+"))
		l.mu.Unlock()
	}
	return rev, err
}

// take returns how many commits there were since it was last called, by the
// heads that they wrote, once all is at rest.
func (l *ledger) take() string {
	synctest.Wait()
	time.Sleep(time.Minute)
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[string]int{}
	for _, heads := range l.commits {
		n[heads]++
	}
	var all []string
	for _, heads := range slices.Sorted(maps.Keys(n)) {
		all = append(all, fmt.Sprintf("%d %s", n[heads], heads))
	}
	l.commits = nil
	return strings.Join(all, ", ")
}

// costing is a rig over a ledger. Its tool build takes a second, and its tool
// job waits for the outside; no run waits for handles of either.
func costing(t *testing.T, effect tool.Effect, model *fakellm.Model) (*rig, *ledger) {
	t.Helper()
	kept := tool.HandlePolicy{AtEnd: tool.KeepAtEnd}
	build := underPolicy(t, "build", effect, kept,
		func(_ context.Context, in target) (tool.Result[string], error) {
			time.Sleep(time.Second)
			return tool.Done("built " + in.Target), nil
		})
	job := underPolicy(t, "job", tool.Idempotent, kept,
		func(context.Context, target) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{}), nil
		})
	var l ledger
	r := newRig(t, agent.Config{Tools: []tool.Tool{build, job}, Model: model},
		&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
			l.Exclusive = kv.(kvstore.Exclusive)
			return &l
		}})
	return r, &l
}

// A handle costs three commits more than the same call in its turn, claim or
// not: it is made with the end of the call that begins it. Its result, the close
// of its turn and its end are one commit; then its session is told, and the
// handle that it was.
func TestWhatAHandleCosts(t *testing.T) {
	for _, test := range []struct {
		effect     tool.Effect
		call, want string
	}{
		// The message, the model's call, the claim, the result, the last message.
		{tool.Once, `{"target":"x"}`, "5 session"},
		// The claim, the end, and that the end was told are the handle's.
		{tool.Once, `{"action":"spawn","id":"a","target":"x"}`,
			"3 handle, 1 handle+session, 4 session"},
		{tool.Idempotent, `{"target":"x"}`, "4 session"},
		{tool.Idempotent, `{"action":"spawn","id":"a","target":"x"}`,
			"2 handle, 1 handle+session, 4 session"},
	} {
		t.Run(string(test.effect)+" "+test.call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, l := costing(t, test.effect,
					fakellm.New(fakellm.Calls("build", test.call), fakellm.Says("Done.")))
				r.say("Go.").finished(event.FinishStop)
				if got := l.take(); got != test.want {
					t.Errorf("it takes the commits %s\nand not %s", got, test.want)
				}
			})
		})
	}
}

// What is done to a handle costs the commit of the call that does it, and what
// it comes to for the handle.
func TestWhatActionsCost(t *testing.T) {
	const call = "4 session" // as of any call that needs no claim
	synctest.Test(t, func(t *testing.T) {
		says := fakellm.Says("Done.")
		r, l := costing(t, tool.Idempotent, fakellm.New(
			fakellm.Calls("job", `{"action":"spawn","id":"a","target":"x"}`), says,
			fakellm.Calls("job", `{"action":"fetch","id":"a"}`), says,
			fakellm.Calls("job", `{"action":"abort","id":"a"}`), says,
			fakellm.Calls("await", `{"all":["a"]}`), says))
		r.say("Go.").finished(event.FinishStop)
		l.take()
		for _, test := range []struct{ what, want string }{
			{"fetch", call},
			{"abort", "2 handle, 5 session"},
			{"await of one that has stopped", call},
		} {
			r.say("Go on.").finished(event.FinishStop)
			if got := l.take(); got != test.want {
				t.Errorf("%s takes the commits %s\nand not %s", test.what, got, test.want)
			}
		}
	})
}

// An await costs two commits, its pause and its result, and one for each 40
// handles that it waits for. A message that interrupts it costs what any message
// does: all that it ends is in the commit that stores the message.
func TestWhatAnAwaitCosts(t *testing.T) {
	for n, registers := range map[int]int{1: 1, 40: 1, 41: 2, 81: 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				names := make([]string, n)
				for i := range names {
					names[i] = fmt.Sprintf("h%d", i)
				}
				all, err := json.Marshal(map[string]any{"all": names})
				must(t, err)
				r, l := costing(t, tool.Idempotent, fakellm.New(fakellm.Says("Hi."),
					fakellm.Calls("await", string(all)), fakellm.Says("Hm."),
					fakellm.Calls("await", string(all)), fakellm.Says("All.")))
				r.say("Hello.").finished(event.FinishStop)
				for _, name := range names {
					r.spawned(name, "job", `{"target":"x"}`)
				}
				l.take()
				pauses := fmt.Sprintf("%d session", 3+registers)
				r.say("Wait.").finished(event.FinishPaused)
				if got := l.take(); got != pauses {
					t.Errorf("until it waits it takes the commits %s\nand not %s", got, pauses)
				}
				r.say("Never mind.").finished(event.FinishStop)
				if got, want := l.take(), "2 session"; got != want {
					t.Errorf("a message takes the commits %s\nand not %s", got, want)
				}
				r.say("Wait.").finished(event.FinishPaused)
				l.take()
				for _, name := range names {
					must(t, r.Abort(t.Context(), chat, name, user, ""))
				}
				l.take()
				r.carryOn().finished(event.FinishStop)
				if got, want := l.take(), "2 session"; got != want {
					t.Errorf("its result, and the last message, take %s\nand not %s", got, want)
				}
			})
		})
	}
}
