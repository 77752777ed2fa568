package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// whileGoing is a tool of which handles are kept. Those of target "good" wait for
// ever. Others end once goOn is closed: "bad" fails, and others are built.
func whileGoing(t *testing.T, goOn <-chan struct{}) tool.Tool {
	return underPolicy(t, "build", tool.Once, tool.HandlePolicy{AtEnd: tool.KeepAtEnd},
		func(_ context.Context, in target) (tool.Result[string], error) {
			if in.Target == "good" {
				return tool.Pending[string](tool.Await{}), nil
			}
			<-goOn
			if in.Target == "bad" {
				return nil, errors.New("the disk is full")
			}
			return tool.Done("built " + in.Target), nil
		})
}

// anew has a program begin another handle under a name.
func (r *rig) anew(name string) runner.Spawned {
	r.t.Helper()
	s, err := r.Spawn(r.t.Context(), chat, runner.Spawning{Handle: name, Tool: "build",
		ID: "anew", Arguments: json.RawMessage(`{"target":"good"}`), Actor: user})
	must(r.t, err)
	return s
}

// The end of a handle is told once, although its name was given anew before
// that: by a program, or by the model while the end came.
func TestAnEndIsToldAfterItsNameWasGivenAnew(t *testing.T) {
	spawn := func(target string) fakellm.Turn {
		return fakellm.Calls("build", `{"action":"spawn","id":"a","target":"`+target+`"}`)
	}
	for name, byModel := range map[string]bool{"by a program": false, "by the model": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goOn := make(chan struct{})
				end := func() { close(goOn); synctest.Wait() }
				turns := []fakellm.Turn{spawn("bad")}
				if byModel {
					turns = append(turns, fakellm.From(func(llm.Request) fakellm.Turn {
						end()
						return spawn("good")
					}))
				}
				model := fakellm.New(append(turns,
					fakellm.Says("Begun."), fakellm.Says("I see."), fakellm.Says("Well."))...)
				r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{whileGoing(t, goOn)}},
					&rigOptions{memory: true})
				r.say("Go.").finished(event.FinishStop)
				if !byModel {
					end()
					r.anew("a")
				}
				r.say("And?").finished(event.FinishStop)
				r.say("And now?").finished(event.FinishStop)
				all := told(model)
				if len(all) != 1 || !strings.Contains(all[0], "the disk is full") {
					t.Errorf("the model was told %q", all)
				}
				must(t, r.Close())
				r.sound()
			})
		})
	}
}

// The end that an await has counted is told by a notice if the await comes to no
// result, also of a handle whose name was given anew since.
func TestAnEndIsToldThoughItsAwaitWasCancelled(t *testing.T) {
	for name, again := range map[string]bool{"": false, "its name was given anew": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goOn := make(chan struct{})
				model := fakellm.New(
					fakellm.Calls("build", `{"action":"spawn","id":"a","target":"bad"}`).
						And("build", `{"action":"spawn","id":"b","target":"good"}`).
						And("await", `{"all":["a","b"]}`), fakellm.Says("Well."), fakellm.Says("Hm."))
				r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{whileGoing(t, goOn)}},
					&rigOptions{memory: true})
				ended := r.begin("Go.")
				synctest.Wait()
				close(goOn)
				synctest.Wait()
				if again {
					r.anew("a")
				}
				must(t, r.CancelSession(t.Context(), chat, user, "stop"))
				ended()
				r.say("And?").finished(event.FinishStop)
				r.say("And now?").finished(event.FinishStop)
				if all := told(model); strings.Count(strings.Join(all, "\n"), "the disk is full") != 1 {
					t.Errorf("the model was told %q", all)
				}
				must(t, r.Close())
				r.sound()
			})
		})
	}
}

// An await replies of the handles that it has waited for, whatever has their
// names by then.
func TestAnAwaitRepliesOfItsOwnHandles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		model := fakellm.New(
			fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`).
				And("build", `{"action":"spawn","id":"b","target":"good"}`).
				And("await", `{"all":["a","b"],"timeout_secs":60}`), fakellm.Says("Well."))
		r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{whileGoing(t, goOn)}},
			&rigOptions{memory: true})
		ended := r.begin("Go.")
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		r.anew("a")
		ended()
		time.Sleep(2 * time.Minute)
		r.carryOn().finished(event.FinishStop)
		if got := r.outputs(); len(got) != 3 || !strings.Contains(got[2], "built x") {
			t.Errorf("the results are %q", got)
		}
		if all := told(model); len(all) > 0 {
			t.Errorf("the model was also told %q", all)
		}
		must(t, r.Close())
		r.sound()
	})
}

// An action that is entered again after a crash acts on the handle that it had
// acted on, and on no other one that has its name since.
func TestAnActionAgainActsOnItsHandle(t *testing.T) {
	var r *rig
	var killed atomic.Bool
	late := interceptor.Layer{Name: "late", Actions: true,
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
				exec, err := next(ctx, c)
				if strings.Contains(string(c.Arguments), "abort") && !killed.Swap(true) {
					waitFor(t, func() bool { // the handle has come to its end
						h, err := r.store.Handle(ctx, chat, "a")
						must(t, err)
						st, err := r.store.Load(ctx, h.Child)
						must(t, err)
						return st.Finish != ""
					})
					r.faults.Kill()
				}
				return exec, err
			}
		}}
	model := fakellm.New(fakellm.Calls("build", `{"action":"spawn","id":"a","target":"good"}`),
		fakellm.Calls("build", `{"action":"abort","id":"a"}`), fakellm.Says("Done."))
	r = newRig(t, agent.Config{Model: model, Tools: []tool.Tool{whileGoing(t, nil)},
		Interceptors: interceptor.Chain{late}}, &rigOptions{memory: true})
	if s := r.say("Go."); s.err == nil {
		t.Fatal("it was not killed")
	}
	r.restart()
	old, err := r.store.Handle(t.Context(), chat, "a")
	must(t, err)
	_, err = r.store.Deliver(t.Context(), old.Child)
	must(t, err)
	other := r.anew("a")
	r.carryOn().finished(event.FinishStop)
	if st, err := r.store.Load(t.Context(), other.Session); err != nil || st.Finish != "" {
		t.Errorf("the other handle has ended: %s, %v", st.Finish, err)
	}
	if got := r.outputs(); len(got) != 2 || !strings.Contains(got[1], `"stopped"`) {
		t.Errorf("the results are %q", got)
	}
	must(t, r.Close())
	r.sound()
}
