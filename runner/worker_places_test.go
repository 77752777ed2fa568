package runner_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// gauge counts how many of something there are at once.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

func (g *gauge) enter() (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	g.most = max(g.most, g.now)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.now--
	}
}

// slowRig is a rig whose model asks for a tool by the first word of what its
// user says, and is done afterwards: "slow" takes three seconds, "gated" needs an
// approval and takes no time. To "just" it says at once that it is done, and to
// "slow 9" it asks nine times. Each call of the model goes on until what thinks returns.
func slowRig(t *testing.T, bodies, models *gauge, thinks func(llm.Request) <-chan time.Time,
	layers ...interceptor.Layer) *rig {
	slow := does(tool.Spec{Name: "slow"}, func(ctx context.Context, s string) (tool.Result[textOut], error) {
		defer bodies.enter()()
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
		return tool.Done(textOut{s}), ctx.Err()
	})
	gated := does(tool.Spec{Name: "gated"},
		func(_ context.Context, s string) (tool.Result[textOut], error) { return tool.Done(textOut{s}), nil })
	model := streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
		defer models.enter()()
		select {
		case <-thinks(req):
		case <-ctx.Done():
		}
		turn, turns := says("Done."), 0
		_, _ = fmt.Sscanf(req.Messages[0].Text(), "slow %d", &turns)
		if last := req.Messages[len(req.Messages)-1]; last.Role == llm.RoleUser {
			if name, _, _ := strings.Cut(last.Text(), " "); name != "just" {
				turn = calls(name, string(text(last.Text())))
			}
		} else if len(req.Messages) < 2*turns {
			turn = calls("slow", string(text("on")))
		}
		return modelFunc(func(llm.Request) []llm.Event {
			return []llm.Event{llm.PartDone{Part: turn[0]}, llm.Finish{Reason: llm.StopEnd}}
		}).Generate(ctx, req)
	})
	return newRig(t, agent.Config{Tools: []tool.Tool{slow, gated}, Model: model,
		Interceptors: append(interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"gated"}})}, layers...)}, &rigOptions{memory: true})
}

// fired is a time that has come. It is no timer: the race detector of Go 1.26
// breaks down when goroutines of one bubble find timers expired at the same
// moment (golang/go#78156).
var fired = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

func atOnce(llm.Request) <-chan time.Time { return fired }

// heldUpIn is for a model that is held up in one session, until the gate is closed.
func heldUpIn(text string, gate <-chan time.Time) func(llm.Request) <-chan time.Time {
	return func(req llm.Request) <-chan time.Time {
		if req.Messages[0].Text() == text {
			return gate
		}
		return fired
	}
}

// sends has a worker find something to do in a session of a user.
func (r *rig) sends(user, id, text string) {
	r.t.Helper()
	must2(r.Send(r.t.Context(), user, id, llm.UserText(text), nil))
}

// ends has a worker work, and notes when each run comes to its end, in order.
type ends struct {
	mu    sync.Mutex
	order []string
	at    map[string]time.Duration
}

func (e *ends) of(id string) (after time.Duration, ended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	after, ended = e.at[id]
	return after, ended
}

func (e *ends) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.order)
}

// serves begins a worker; stop ends it, and waits for it.
func (r *rig) serves(o runner.WorkOptions) (e *ends, stop func()) {
	e = &ends{at: map[string]time.Duration{}}
	begun := time.Now()
	o.SweepEvery = -1
	o.OnEvent = func(id string, ev event.Event, _ error) {
		if ev, ok := ev.(event.End); ok && ev.Finish == event.FinishStop {
			e.mu.Lock()
			defer e.mu.Unlock()
			if _, again := e.at[id]; !again {
				e.at[id] = time.Since(begun)
				e.order = append(e.order, id)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { defer close(over); _ = r.Work(ctx, &o) }()
	return e, func() { cancel(); <-over }
}

// An approval behind 200 tools that take three seconds each is carried on at
// once, though the worker has places for four sessions.
func TestASlowToolHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, places := testlength.Part(2, 200), 4
		var bodies, models gauge
		r := slowRig(t, &bodies, &models, atOnce)
		p := watch(t, r.Run(t.Context(), user, "gated", llm.UserText("gated g"), nil)).
			finished(event.FinishPaused).pause("gated")
		for i := range slow {
			r.sends(user, fmt.Sprint("slow-", i), "slow s")
		}
		e, stop := r.serves(runner.WorkOptions{Concurrency: places, Held: 3 * slow, Poll: time.Hour})
		synctest.Wait()
		must2(r.Resume(t.Context(), "gated", runner.Approve(p.ID, "bob", "")))
		synctest.Wait()
		if after, ended := e.of("gated"); !ended || after != 0 {
			t.Errorf("it has ended: %v, after %v", ended, after)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		stop()
		if got := e.all(); len(got) != slow+1 || bodies.most != slow {
			t.Errorf("%d runs have ended; %d tools ran at once", len(got), bodies.most)
		}
		must(t, r.Close())
		r.sound()
	})
}

// Models are called for as many sessions at once as there are places, and no
// more, however many sessions wait for tools.
func TestPlacesBoundModelCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, places = 40, 3
		var bodies, models gauge
		r := slowRig(t, &bodies, &models,
			func(llm.Request) <-chan time.Time { return time.After(time.Second) })
		for i := range many {
			r.sends(user, fmt.Sprint("s-", i), "slow s")
		}
		e, stop := r.serves(runner.WorkOptions{Concurrency: places})
		time.Sleep(time.Minute)
		stop()
		if got := e.all(); len(got) != many || models.most != places || bodies.most < 2*places {
			t.Errorf("%d runs have ended; %d models were called at once, and %d tools ran",
				len(got), models.most, bodies.most)
		}
		// Two model calls each, with three at once, take 27 s in all; the last
		// tools take three more. A place that lies idle would show.
		last, _ := e.of(e.all()[many-1])
		if most := time.Duration(2*many/places+5) * time.Second; last > most {
			t.Errorf("they took %v, and not %v at most", last, most)
		}
		must(t, r.Close())
		r.sound()
	})
}

// What a tool brings is stored at once, and a call that is answered meanwhile
// begins at once, though there is no place: only the model waits for one.
func TestOnlyTheModelWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies, models gauge
		long := make(chan time.Time)
		r := slowRig(t, &bodies, &models, heldUpIn("gated long", long))
		r.sends(user, chat, "slow s")
		e, stop := r.serves(runner.WorkOptions{Concurrency: 1})
		synctest.Wait()
		r.sends(user, "long", "gated long") // its model takes the place
		time.Sleep(3 * time.Second)
		synctest.Wait()
		st := must2(r.store.Load(t.Context(), chat))
		if st.Open() != 0 || !st.Held {
			t.Errorf("%d calls are open, and it is held: %v", st.Open(), st.Held)
		}
		if _, ended := e.of(chat); ended || models.now != 1 {
			t.Errorf("its run has ended: %v; %d models are called", ended, models.now)
		}
		close(long)
		synctest.Wait()
		if _, ended := e.of(chat); !ended {
			t.Error("its run goes on")
		}
		stop()
	})
}

// A drive that waits for its place can be cancelled, and ends with its worker.
func TestADriveThatWaitsForItsPlaceEnds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, r *rig, stop func()){
		"cancelled": func(t *testing.T, r *rig, _ func()) {
			must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
		},
		"with its worker": func(_ *testing.T, _ *rig, stop func()) { stop() },
		"with its runner": func(t *testing.T, r *rig, _ func()) { must(t, r.Close()) },
	} {
		for _, layered := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", in turn layers: ", layered), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var bodies, models gauge
					held := make(chan time.Time)
					turns := 0
					var layers []interceptor.Layer
					if layered {
						layers = around(func(ctx context.Context, turn interceptor.Turn,
							next interceptor.TurnHandler) turnEvents {
							if turn.Session == chat {
								turns++
							}
							return next(ctx, turn)
						})
					}
					r := slowRig(t, &bodies, &models, heldUpIn("gated long", held), layers...)
					r.sends(user, chat, "slow s")
					e, stop := r.serves(runner.WorkOptions{Concurrency: 1})
					synctest.Wait()
					r.sends(user, "long", "gated long")
					time.Sleep(3 * time.Second)
					synctest.Wait() // its tool has ended, and another session has the place
					begun := time.Now()
					end(t, r, stop)
					synctest.Wait()
					if took := time.Since(begun); took != 0 {
						t.Errorf("that took %v", took)
					}
					st := must2(r.store.Load(t.Context(), chat))
					if st.Held {
						t.Error("it is held")
					}
					if name == "cancelled" && st.Finish != event.FinishCancelled {
						t.Errorf("it has ended as %q", st.Finish)
					}
					if layered && turns != 1 {
						t.Errorf("%d turns were begun", turns)
					}
					close(held)
					if name == "cancelled" { // the place is none that it has
						r.sends(user, "next", "just next")
						synctest.Wait()
						if _, ended := e.of("next"); !ended {
							t.Error("the next session isn't carried on")
						}
					}
					stop()
					must(t, r.Close())
					r.sound()
				})
			})
		}
	}
}

// However slow tools are, a worker holds as many sessions as it is told, and no
// more.
func TestHeldSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, held = 20, 8
		var bodies, models gauge
		r := slowRig(t, &bodies, &models, atOnce)
		for i := range many {
			r.sends(fmt.Sprint("u-", i), fmt.Sprint("s-", i), "slow s")
		}
		e, stop := r.serves(runner.WorkOptions{Concurrency: 2, Held: held})
		time.Sleep(9 * time.Second)
		synctest.Wait()
		stop()
		if got := e.all(); len(got) != many || bodies.most != held {
			t.Errorf("%d runs have ended; %d tools ran at once", len(got), bodies.most)
		}
	})
}

// One user's tools never end. Another user's message is answered all the same.
func TestSlowToolsOfOneUserLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, held = 20, 8
		var bodies, models gauge
		r := slowRig(t, &bodies, &models, atOnce)
		for i := range many {
			r.sends("eve", fmt.Sprint("s-", i), "slow s")
		}
		e, stop := r.serves(runner.WorkOptions{Concurrency: 2, Held: held})
		synctest.Wait()
		r.sends("bob", "bobs", "Hi.")
		synctest.Wait()
		if got := e.all(); len(got) != 1 || bodies.most != held/2 {
			t.Errorf("%d runs have ended, beside %d tools", len(got), bodies.most)
		}
		stop()
	})
}
