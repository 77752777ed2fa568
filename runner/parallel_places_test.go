package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/property"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// tally counts the bodies that run, by tool.
type tally struct {
	mu   sync.Mutex
	now  map[string]int
	most map[string]int // at once; "" is of all tools
	// beside has the tools of whose bodies one ran beside another, as "a b"
	beside map[string]bool
}

// tool returns a tool whose bodies take so long, and are counted.
func (y *tally) tool(s tool.Spec, takes time.Duration) tool.Tool {
	return does(s, func(_ context.Context, text string) (tool.Result[textOut], error) {
		y.add(s.Name, 1)
		time.Sleep(takes)
		y.add(s.Name, -1)
		return tool.Done(textOut{text}), nil
	})
}

func (y *tally) add(name string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.now == nil {
		y.now, y.most, y.beside = map[string]int{}, map[string]int{}, map[string]bool{}
	}
	if n > 0 {
		for other, running := range y.now {
			if running > 0 && other != "" {
				y.beside[other+" "+name], y.beside[name+" "+other] = true, true
			}
		}
	}
	y.now[name] += n
	y.now[""] += n
	y.most[name], y.most[""] = max(y.most[name], y.now[name]), max(y.most[""], y.now[""])
}

// TestTenToolsAtFourAtOnce: they take the time of three, and no more.
func TestTenToolsAtFourAtOnce(t *testing.T) {
	for name, e := range map[string]tool.Effect{"once": tool.Once, "read-only": tool.ReadOnly} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var y tally
				r := newRig(t, agent.Config{Concurrency: 4,
					Tools: []tool.Tool{y.tool(tool.Spec{Name: "act", Effect: e}, 100*time.Millisecond)},
					Model: fakellm.New(asks("act", strings.Split("abcdefghij", "")...), fakellm.Says("Well."))},
					&rigOptions{memory: true})
				began := time.Now()
				r.say("Go.").finished(event.FinishStop)
				if took := time.Since(began); took > 330*time.Millisecond || y.most[""] != 4 {
					t.Errorf("it took %v, %d at once", took, y.most[""])
				}
			})
		})
	}
}

// TestConcurrencyOfARun: it counts in place of the agent's, until the run is
// over, and whichever drive has it.
func TestConcurrencyOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var y tally
		wait := does(tool.Spec{Name: "wait", MayPause: true},
			func(context.Context, string) (tool.Result[textOut], error) {
				return tool.Pending[textOut](tool.Await{}), nil
			})
		turn := asks("act", "a", "b", "c")
		r := newRig(t, agent.Config{Concurrency: 2,
			Tools: []tool.Tool{y.tool(tool.Spec{Name: "act"}, time.Second), wait},
			Model: fakellm.New(fakellm.Calls("wait", `{"text":"a"}`), turn, fakellm.Says("Well."),
				turn, fakellm.Says("Well."))},
			&rigOptions{memory: true})
		run := watch(t, r.Run(t.Context(), user, chat, llm.UserText("Go."),
			&runner.RunOptions{Concurrency: 3})).finished(event.FinishPaused)
		_, err := r.Resume(t.Context(), chat, runner.Complete(run.end.Pending[0].ID, "ci", text("b")))
		must(t, err)
		r.restart()
		r.carryOn().finished(event.FinishStop)
		if y.most["act"] != 3 {
			t.Errorf("%d ran at once, not three", y.most["act"])
		}
		y.most["act"] = 0
		r.say("Again.").finished(event.FinishStop)
		if y.most["act"] != 2 {
			t.Errorf("%d ran at once in the next run, not two", y.most["act"])
		}
	})
}

// TestExclusiveTools: nothing of the turn runs beside one, and the calls keep
// their order around it. One that waits for its answer keeps none from running.
func TestExclusiveTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var y tally
		alone := tool.Scheduling{Exclusive: true}
		asking := does(tool.Spec{Name: "ask", MayPause: true, Scheduling: alone},
			func(context.Context, string) (tool.Result[textOut], error) {
				return tool.NeedInput[textOut]("Well?"), nil
			})
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{y.tool(tool.Spec{Name: "act"}, time.Second), asking,
				y.tool(tool.Spec{Name: "alone", Scheduling: alone}, time.Second)},
			Model: fakellm.New(asks("act", "a", "b").And("alone", `{"text":"c"}`).And("ask", `{"text":"d"}`).
				And("act", `{"text":"e"}`).And("act", `{"text":"f"}`).And("alone", `{"text":"g"}`).
				And("alone", `{"text":"h"}`)),
		}, &rigOptions{memory: true})
		began := time.Now()
		run := r.say("Go.").finished(event.FinishPaused)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if y.beside["alone act"] || y.most["alone"] != 1 || y.most["act"] != 2 {
			t.Errorf("at once: %v, beside each other: %v", y.most, y.beside)
		}
		order := ""
		for _, s := range of[event.Started](run) {
			order += fmt.Sprint(s.Index)
		}
		order = strings.NewReplacer("10", "01", "54", "45").Replace(order) // begun together
		if order != "01234567" {
			t.Errorf("they begin in the order %s", order)
		}
	})
}

// TestSharedLimits: tools share a limit in all sessions; what finds no place is
// overtaken by what needs none, and none is forgotten.
func TestSharedLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var y tally
		db := tool.Scheduling{Limit: "db"}
		turn := asks("read", "a", "b").And("write", `{"text":"c"}`).And("free", `{"text":"d"}`)
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{y.tool(tool.Spec{Name: "read", Scheduling: db}, time.Second),
				y.tool(tool.Spec{Name: "write", Scheduling: db}, time.Second),
				y.tool(tool.Spec{Name: "free"}, time.Second)},
			Model: fakellm.New(turn, fakellm.Says("Well.")),
		}, &rigOptions{memory: true, runner: &runner.Options{SharedLimits: map[string]int{"db": 2}}})
		began := time.Now()
		var all sync.WaitGroup
		for _, session := range []string{"chat-1", "chat-2", "chat-3"} {
			all.Go(func() {
				watch(t, r.Run(t.Context(), user, session, llm.UserText("Go."), nil)).finished(event.FinishStop)
			})
		}
		all.Wait()
		if took := time.Since(began); took != 5*time.Second { // nine of a second, two at once
			t.Errorf("it took %v", took)
		}
		if most := max(y.most["read"], y.most["write"]); most != 2 || y.most["free"] != 3 {
			t.Errorf("at once: %v", y.most)
		}
	})
}

// TestPlacesAtASharedLimit: however a body ends, its place is free again, and a
// call that waits for one is cancelled like any, and holds up neither a caller
// who leaves nor the runner's end.
func TestPlacesAtASharedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b blocker
		db := tool.Scheduling{Limit: "db"}
		acts := map[string]func() (tool.Result[textOut], error){
			"error": func() (tool.Result[textOut], error) { return nil, errors.New("no") },
			"panic": func() (tool.Result[textOut], error) { panic("no") },
			"wait":  func() (tool.Result[textOut], error) { return tool.Pending[textOut](tool.Await{}), nil },
		}
		act := does(tool.Spec{Name: "act", MayPause: true, Scheduling: db},
			func(_ context.Context, s string) (tool.Result[textOut], error) { return acts[s]() })
		block := b.tool(tool.Spec{Name: "block", Scheduling: db},
			func(_ context.Context, s string) (tool.Result[textOut], error) { return tool.Done(textOut{s}), nil })
		r := newRig(t, agent.Config{Tools: []tool.Tool{act, block},
			Model: fakellm.New(asks("act", "error", "panic", "wait").And("act", "{}").And("block", `{"text":"a"}`).
				And("block", `{"text":"b"}`))},
			&rigOptions{memory: true, runner: &runner.Options{SharedLimits: map[string]int{"db": 1}}})
		ended := r.begin("Go.")
		synctest.Wait()
		if got := b.now(); len(got) != 1 || got[0] != "a" {
			t.Fatalf("%q were entered", got)
		}
		ctx, leave := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Second); leave() }()
		began := time.Now()
		for range r.Run(ctx, user, "chat-2", llm.UserText("Go."), nil) {
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("a caller left, and was held up for %v", took-time.Second)
		}
		_, err := r.Cancel(t.Context(), chat, r.transcript().Calls[5].Call, "bob", "")
		must(t, err)
		synctest.Wait()
		if d := r.transcript().Calls[5]; d.Settled != event.Cancelled {
			t.Errorf("a call that waits for a place was cancelled, and is %s", d.Status)
		}
		close(b.gate("a"))
		ended().finished(event.FinishPaused)
		must(t, r.Close())
	})
}

// TestSlowCallersAndSharedLimits: a caller who is slow over an event keeps no
// place of a body that has returned.
func TestSlowCallersAndSharedLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var y tally
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{y.tool(tool.Spec{Name: "read", Scheduling: tool.Scheduling{Limit: "db"}},
				time.Second)},
			Model: fakellm.New(asks("read", "a"), fakellm.Says("Well.")),
		}, &rigOptions{memory: true, runner: &runner.Options{SharedLimits: map[string]int{"db": 1}}})
		var slow sync.WaitGroup
		slow.Go(func() {
			for ev := range r.Run(t.Context(), user, "slow", llm.UserText("Go."), nil) {
				if _, ok := ev.(event.Started); ok {
					time.Sleep(time.Hour)
				}
			}
		})
		time.Sleep(time.Second / 2)
		began := time.Now()
		r.say("Go.").finished(event.FinishStop)
		if took := time.Since(began); took != 3*time.Second/2 {
			t.Errorf("another session's call took %v", took)
		}
		slow.Wait()
	})
}

func TestLimitsThatAreNotThere(t *testing.T) {
	for want, o := range map[string]*runner.Options{
		`the tool "act" of agent "ops" shares the limit "db", and there is none`: {},
		`SharedLimits["db"] is 0`: {SharedLimits: map[string]int{"db": 0}},
	} {
		r := newRig(t, agent.Config{Model: fakellm.New()}, nil)
		a, err := agent.New(agent.Config{Name: "ops", Model: fakellm.New(), Tools: []tool.Tool{
			does(tool.Spec{Name: "act", Scheduling: tool.Scheduling{Limit: "db"}}, nil)}})
		must(t, err)
		if _, err := runner.New(a, r.public, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not an error with %s", err, want)
		}
	}
}

// TestConcurrencyLeavesNoTraceWhateverRuns: the history has the same bytes, for
// one at once and for eight, whatever tools there are and how long they take.
func TestConcurrencyLeavesNoTraceWhateverRuns(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		type call struct {
			Tool  string
			Takes int
		}
		turns := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) call {
			return call{rapid.SampledFrom([]string{"read", "write", "alone", "shared", "fail", "nosuch"}).
				Draw(t, "tool"), rapid.IntRange(0, 20).Draw(t, "takes")}
		}), 1, 8), 1, 3).Draw(rt, "turns")
		history := func(concurrency int) (text string) {
			synctest.Test(t, func(t *testing.T) {
				act := func(s tool.Spec) tool.Tool {
					return does(s, func(_ context.Context, text string) (tool.Result[textOut], error) {
						takes, err := time.ParseDuration(text)
						if time.Sleep(takes); err != nil || s.Name == "fail" {
							return nil, errors.New("no")
						}
						return tool.Done(textOut{text}), nil
					})
				}
				var script []fakellm.Turn
				for _, turn := range turns {
					var asked fakellm.Turn
					for _, c := range turn {
						asked = asked.And(c.Tool, string(lasting(c.Takes)))
					}
					script = append(script, asked)
				}
				ids := 0
				r := newRig(t, agent.Config{
					Model: fakellm.New(append(script, fakellm.Says("Well."))...),
					Tools: []tool.Tool{act(tool.Spec{Name: "read", Effect: tool.ReadOnly}),
						act(tool.Spec{Name: "write"}), act(tool.Spec{Name: "fail"}),
						act(tool.Spec{Name: "alone", Scheduling: tool.Scheduling{Exclusive: true}}),
						act(tool.Spec{Name: "shared", Scheduling: tool.Scheduling{Limit: "one"}})},
				}, &rigOptions{memory: true, session: deterministic(&ids),
					runner: &runner.Options{SharedLimits: map[string]int{"one": 1}}})
				watch(t, r.Run(t.Context(), user, chat, llm.UserText("Go."),
					&runner.RunOptions{Concurrency: concurrency})).finished(event.FinishStop)
				b, err := json.Marshal(r.transcript().History)
				must(t, err)
				text = string(b)
			})
			return text
		}
		if one, eight := history(1), history(8); one != eight {
			rt.Fatalf("one at once:\n%s\neight:\n%s", one, eight)
		}
	})
}

// lasting is the argument of a tool that takes so many milliseconds.
func lasting(ms int) json.RawMessage { return text(fmt.Sprintf("%dms", ms)) }
