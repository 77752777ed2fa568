package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestDeletedSessionIsCalledOffWhereverItIsKilled: the deletion, and what
// follows from it, is cut at each write. The next process deletes once more, as
// its caller would, and the job is called off, with arguments that lie outside
// of the head.
func TestDeletedSessionIsCalledOffWhereverItIsKilled(t *testing.T) {
	for n, struck := 1, true; struck; n++ {
		struck = false
		for _, how := range []func(int) faultkv.Fault{faultkv.FailAt, faultkv.LoseAt} {
			synctest.Test(t, func(t *testing.T) {
				off := newCallsOff(nil)
				config := agent.Config{Name: "ops", Tools: []tool.Tool{build(off, tool.Once)},
					Model: messages(calls("build",
						fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("b", 3000))), says("Done."))}
				var inj *faultkv.Injector
				o := &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
					inj = faultkv.New(hidden(kv))
					return inj.Store
				}}
				r := newRig(t, config, o)
				r.say("Build.").finished(event.FinishPaused)
				inj.Add(how(inj.Applies() + n).AndDie())
				err := r.Delete(t.Context(), chat, "bob")
				synctest.Wait()
				struck = struck || inj.Dead()
				r.restart()
				if err != nil {
					must(t, r.Delete(t.Context(), chat, "bob"))
				}
				workFor(t, 2*time.Minute, r.Runner)
				all := off.seen()
				if len(all) == 0 || len(all) > 2 {
					t.Errorf("cut at write %d it was called off %d times", n, len(all))
				}
				for _, c := range all {
					if len(c.Call.Arguments) < 3000 || c.Cause != tool.CauseDeleted {
						t.Errorf("cut at write %d it is told %+v", n, c)
					}
				}
				if owed := r.owed(); len(owed) > 0 {
					t.Errorf("cut at write %d it is still owed: %+v", n, owed)
				}
				_, err = r.public.Sweep(t.Context(), nil)
				must(t, err)
				r.sound()
				if left := r.keys("p"); len(left) > 0 {
					t.Errorf("cut at write %d there are payloads left: %q", n, left)
				}
			})
		}
	}
}

// keys lists what the store has of a kind.
func (r *rig) keys(kind string) (all []string) {
	r.t.Helper()
	page, err := r.engine.Scan(r.t.Context(),
		kvstore.Range{Prefix: kvstore.Key(kind), Limit: kvstore.MaxPage})
	must(r.t, err)
	for _, e := range page.Entries {
		all = append(all, string(e.Key))
	}
	return all
}

// TestCallingOffByOneOfSeveralProcesses: each try is made by one of those that
// find it, however often they look.
func TestCallingOffByOneOfSeveralProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := newCallsOff(func(try int) error {
			if try < 4 {
				return errors.New("no answer")
			}
			return nil
		})
		r := newRig(t, agent.Config{Tools: []tool.Tool{build(off, tool.Once)},
			Model: messages(calls("build", `{"text":"a"}`), says("Done."))},
			&rigOptions{memory: true, wrap: hidden})
		p := r.say("Build.").finished(event.FinishPaused).pause("build")
		front, err := runner.New(nil, r.public, nil)
		must(t, err)
		defer front.Close()
		all := []*runner.Runner{r.Runner, r.another(), r.another()}
		ended := make(chan struct{})
		go func() { defer close(ended); workFor(t, time.Hour, all...) }()
		time.Sleep(time.Second)
		_, err = front.Cancel(t.Context(), chat, p.Call, "bob", "")
		must(t, err)
		<-ended
		seen := off.seen()
		for i, c := range seen {
			if c.Try != i+1 {
				t.Errorf("try %d comes as number %d", c.Try, i+1)
			}
		}
		if owed := r.owed(); len(seen) != 4 || len(owed) != 0 {
			t.Errorf("it was tried %d times, and is owed so: %+v", len(seen), owed)
		}
	})
}

// TestCancelledBeforeItsPauseIsStored: the body has begun its job, and asks for
// a pause when its call, or its run, has been cancelled.
func TestCancelledBeforeItsPauseIsStored(t *testing.T) {
	for _, run := range []bool{false, true} {
		t.Run(fmt.Sprint("with its run: ", run), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				off := newCallsOff(nil)
				entered := make(chan struct{})
				job := tool.Must(tool.Func(tool.Spec{Name: "build", MayPause: true,
					Cancel: tool.Cancel{Do: off.do}},
					func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
						close(entered)
						<-ctx.Done()
						return tool.Pending[textOut](tool.Await{Key: "job"}), nil
					}))
				r := newRig(t, agent.Config{Tools: []tool.Tool{job},
					Model: messages(calls("build", `{"text":"a"}`), says("Done."))},
					&rigOptions{memory: true})
				ended := r.begin("Build.")
				<-entered
				cause := tool.CauseCancelled
				if run {
					cause = tool.CauseRunEnded
					must(t, r.CancelSession(t.Context(), chat, "bob", ""))
				} else {
					_, err := r.Cancel(t.Context(), chat, r.onlyCall(), "bob", "")
					must(t, err)
				}
				ended()
				if owed := r.owed(); len(owed) > 0 {
					t.Errorf("it is still owed: %+v", owed)
				}
				if all := off.seen(); len(all) != 1 || all[0].Cause != cause ||
					all[0].Key != "job" || all[0].Number != 1 || all[0].Actor != "bob" ||
					string(all[0].Call.Arguments) != `{"text":"a"}` {
					t.Errorf("it was called off: %+v", all)
				}
			})
		})
	}
}

// TestLostCallIsCalledOff: an operator was asked, and the call is cancelled
// instead. The tool is told so, and what ran.
func TestLostCallIsCalledOff(t *testing.T) {
	off := newCallsOff(nil)
	var inj *faultkv.Injector
	var first atomic.Bool
	first.Store(true)
	fax := fakeTool{tool.Spec{Name: "fax", Description: "Send.", AskOperator: true,
		Cancel: tool.Cancel{Do: off.do}}, func(tool.Call) tool.Execution {
		if first.Swap(false) {
			inj.Kill()
		}
		return tool.Execution{Output: json.RawMessage(`1`)}
	}}
	r := newRig(t, agent.Config{Tools: []tool.Tool{fax},
		Model: messages(calls("fax", `{"text":"a"}`), says("Done."))},
		&rigOptions{wrap: func(kv kvstore.Store) kvstore.Store {
			inj = faultkv.New(kv)
			return inj.Store
		}})
	r.say("Go.")
	r.restart()
	p := r.carryOn().finished(event.FinishPaused).pause("fax")
	_, err := r.Cancel(t.Context(), chat, p.Call, "bob", "")
	must(t, err)
	<-off.came
	if all := off.seen(); len(all) != 1 || all[0].Reason != tool.ReasonUnknown ||
		all[0].Key != "" || string(all[0].Call.Arguments) != `{"text":"a"}` ||
		all[0].Call.IdempotencyKey() != p.Call+".0" {
		t.Errorf("it was called off: %+v", all)
	}
}
