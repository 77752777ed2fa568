package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// machine is one of several that share an engine: with a runner, and a clock of
// its own.
type machine struct {
	*runner.Runner
	store  *session.Store
	faults *faultkv.Injector
	skew   atomic.Int64 // of its clock
}

func newMachine(t *testing.T, engine kvstore.Store, c agent.Config, skew time.Duration) *machine {
	t.Helper()
	m := &machine{faults: faultkv.New(engine)}
	m.skew.Store(int64(skew))
	face := public.NewStore(m.faults.Store, &session.Options{Now: func() time.Time {
		return time.Now().Add(time.Duration(m.skew.Load()))
	}})
	c.Name = "ops"
	ag, err := agent.New(c)
	must(t, err)
	m.store = hold.Of(face)
	m.Runner, err = runner.New(ag, face, &runner.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// work has a worker of the machine look after all sessions, until the test has
// ended or stop is called.
func (m *machine) work(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Work(ctx, nil) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// The clocks of two machines differ by up to the greatest skew that is stated,
// or are behind by any amount. The worker of the one steals no drive of the
// other that lives. It follows one that has died after a lease and a tenth,
// counted from when it could have seen its last commit, and not before that
// lease is over.
func TestSkewedClocks(t *testing.T) {
	t.Parallel()
	skews := []time.Duration{0, 31 * time.Second, -31 * time.Second, 14 * time.Minute,
		-14 * time.Minute, -25 * time.Hour}
	for i := range testlength.EachNth(5, 2*len(skews)) {
		skew, idle := skews[i/2], i%2 == 0
		t.Run(skew.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				died := make(chan struct{})
				var killed *machine
				act := does(tool.Spec{Name: "act"},
					func(ctx context.Context, _ string) (tool.Result[textOut], error) {
						n.add("act")
						time.Sleep(20 * time.Minute)
						killed.faults.Kill()
						close(died)
						return tool.Done(textOut{"done"}), nil
					})
				config := agent.Config{Tools: []tool.Tool{act},
					Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`),
						fakellm.Says("Done."))}
				engine := hidden(kvstore.NewMemory())
				a, b := newMachine(t, engine, config, 0), newMachine(t, engine, config, skew)
				killed = a
				go func() {
					watch(t, a.Run(context.Background(), user, chat, llm.UserText("Go."),
						&runner.RunOptions{Detached: true}))
				}()
				synctest.Wait()
				b.work(t)
				for range 100 { // by hand, too, or only looking
					time.Sleep(10 * time.Second)
					if idle {
						continue
					}
					var busy *session.BusyError
					if err := watch(t,
						b.Continue(t.Context(), chat, user)).err; !errors.As(err, &busy) {
						t.Fatalf("another driver gets %v", err)
					}
					if left := busy.Until.Sub(b.store.Now()); left <= 0 ||
						left > session.DefaultLease*11/10 {
						t.Fatalf("it is told to wait for %v", left)
					}
					shown, err := b.Show(t.Context(), chat, user)
					must(t, err)
					if !shown.Driven {
						t.Fatal("it is shown as not driven")
					}
				}
				<-died
				at := time.Now()
				must(t,
					b.Work(t.Context(), &runner.WorkOptions{Session: chat, UntilOver: true}))
				took := time.Since(at)
				// The last commit was up to a third of a lease before; the
				// worker looks each third of one.
				if took < session.DefaultLease*2/3 || took > session.DefaultLease*16/10 {
					t.Errorf("it is carried on after %v", took)
				}
				if n.get("act") != 1 {
					t.Errorf("the body was entered %d times", n.get("act"))
				}
			})
		})
	}
}

// A lease that ended longer ago than clocks differ needs no wait.
func TestLeaseThatEndedLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := hidden(kvstore.NewMemory())
		var a *machine
		model := streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
			if a.faults.Applies() < 3 {
				a.faults.Kill()
			}
			return fakellm.Echo().Generate(ctx, req)
		})
		a = newMachine(t, engine, agent.Config{Model: model}, 0)
		watch(t, a.Run(t.Context(), user, chat, llm.UserText("Go."),
			&runner.RunOptions{Detached: true}))
		time.Sleep(session.DefaultLease + session.DefaultMaxSkew - time.Second)
		b := newMachine(t, engine, agent.Config{Model: fakellm.Echo()}, 0)
		if err := watch(t,
			b.Continue(t.Context(), chat, user)).err; !errors.Is(err, session.ErrBusy) {
			t.Errorf("while clocks may differ by so much, another drive gets %v", err)
		}
		time.Sleep(2 * time.Second)
		watch(t, b.Continue(t.Context(), chat, user)).finished(event.FinishStop)
	})
}

// The clock of a worker is set, by an hour, after a drive died or a model
// failed: back, and nothing is an hour late; or forward, and what is due by
// that is done at once.
func TestClockThatIsSet(t *testing.T) {
	for name, set := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		for what, shared := range map[string]bool{"a drive died": true,
			"a model failed, shared": true, "a model failed, exclusive": false} {
			t.Run(what+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var engine kvstore.Store = kvstore.NewMemory()
					if shared {
						engine = hidden(engine)
					}
					var m *machine
					var mu sync.Mutex // guards asked
					var asked []time.Time
					times := func() []time.Time {
						mu.Lock()
						defer mu.Unlock()
						return slices.Clone(asked)
					}
					model := streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
						mu.Lock()
						asked = append(asked, time.Now())
						again := len(asked) > 1
						mu.Unlock()
						if again {
							return fakellm.Echo().Generate(ctx, req)
						}
						if what == "a drive died" {
							m.faults.Kill()
						}
						return func(yield func(llm.Event, error) bool) {
							yield(nil, &llm.Error{Kind: llm.ErrOverloaded})
						}
					})
					config := agent.Config{Model: model,
						Retry: agent.Retry{First: 5 * time.Minute, Most: 5 * time.Minute}}
					m = newMachine(t, engine, config, 0)
					for ev := range m.Run(t.Context(), user, chat, llm.UserText("Go."),
						&runner.RunOptions{Detached: true}) {
						if _, ok := ev.(event.Retry); ok {
							break
						}
					}
					other := newMachine(t, engine, config, 0)
					other.work(t)
					time.Sleep(12 * time.Second) // it has looked at the store
					other.skew.Store(int64(set))
					was := time.Now()
					for range 600 {
						time.Sleep(time.Second)
						if len(times()) > 1 {
							break
						}
					}
					if len(times()) < 2 {
						t.Fatal("it is not carried on")
					}
					took, longest := times()[1].Sub(was), 5*time.Minute
					switch {
					case set > 0:
						longest = 2 * time.Second
					case what == "a drive died":
						longest = session.DefaultLease * 15 / 10
					}
					if took > longest {
						t.Errorf("it is carried on after %v, not %v", took, longest)
					}
					if set < 0 && took < 20*time.Second {
						t.Errorf("it is carried on after %v, long before its time", took)
					}
					synctest.Wait()
					shown, err := other.Show(t.Context(), chat, user)
					must(t, err)
					if shown.Finish != event.FinishStop {
						t.Errorf("it is %q", shown.Finish)
					}
				})
			})
		}
	}
}

// A drive waits before it asks its model again, and the clock goes back
// meanwhile: it keeps its lease, and asks in time.
func TestClockGoesBackWhileTheModelIsWaitedFor(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var skew atomic.Int64
				var asked []time.Time
				model := streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
					if asked = append(asked, time.Now()); len(asked) > 1 {
						time.Sleep(5 * session.DefaultLease)
						return fakellm.Echo().Generate(ctx, req)
					}
					return func(yield func(llm.Event, error) bool) {
						yield(nil, &llm.Error{Kind: llm.ErrOverloaded})
					}
				})
				r := newRig(t, agent.Config{
					Model: model, Retry: agent.Retry{First: 2 * time.Minute, Most: 2 * time.Minute},
				}, &rigOptions{memory: true, wrap: wrap,
					session: &session.Options{Now: func() time.Time {
						return time.Now().Add(time.Duration(skew.Load()))
					}}})
				ended := r.begin("Go.")
				time.Sleep(10 * time.Second)
				skew.Store(int64(-time.Hour))
				other := r.another()
				for range 16 {
					time.Sleep(10 * time.Second)
					err := watch(t, other.Continue(t.Context(), chat, user)).err
					if !errors.Is(err, session.ErrBusy) {
						t.Fatalf("another driver gets %v", err)
					}
				}
				ended().finished(event.FinishStop)
				if len(asked) != 2 || asked[1].Sub(asked[0]) > 2*time.Minute {
					t.Errorf("the model was asked at %v", asked)
				}
			})
		})
	}
}

// What a version before there were lengths of leases has left: a head that is
// held, and stands in the index at its lease's end. It is waited out by the
// store's own lease.
func TestLeaseWithoutALength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := hidden(kvstore.NewMemory())
		var a *machine
		model := streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
			if a != nil {
				a.faults.Kill()
				a = nil
			}
			return fakellm.Echo().Generate(ctx, req)
		})
		config := agent.Config{Model: model}
		a = newMachine(t, engine, config, 0)
		watch(t, a.Run(t.Context(), user, chat, llm.UserText("Go."),
			&runner.RunOptions{Detached: true}))
		head, err := engine.Get(t.Context(), kvstore.Key("h", chat))
		must(t, err)
		value := string(head.Value)
		for _, field := range []string{`"lease":30000,`, `"beat":1,`, `"watched":true,`} {
			if !strings.Contains(value, field) {
				t.Fatalf("there is no %s in %s", field, value)
			}
			value = strings.Replace(value, field, "", 1)
		}
		end := time.Now().Add(session.DefaultLease).UTC()
		value = strings.Replace(value, `"commits"`,
			`"wake":"`+end.Format(time.RFC3339Nano)+`","commits"`, 1)
		_, err = engine.Apply(t.Context(), kvstore.Batch{
			Puts: []kvstore.Put{{Key: kvstore.Key("h", chat), Value: []byte(value)},
				{Key: kvstore.Key("w", "ops", fmt.Sprintf("%014d", end.UnixMilli()), chat)}},
			Deletes: [][]byte{kvstore.Key("v", "ops", chat)},
		})
		must(t, err)
		b := newMachine(t, engine, config, 0)
		at := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		_ = b.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, err error) {
			if _, ok := ev.(event.End); ok {
				cancel()
			}
		}})
		if took := time.Since(at); took < 2*session.DefaultLease || took > 3*session.DefaultLease {
			t.Errorf("it was carried on after %v", took)
		}
		shown, err := b.Show(t.Context(), chat, user)
		must(t, err)
		if shown.Finish != event.FinishStop {
			t.Errorf("it is %q", shown.Finish)
		}
		for problem, err := range b.store.Check(t.Context()) {
			must(t, err)
			t.Error(problem)
		}
	})
}

// A clock of 1970, as a machine's that can't keep the time, keeps no answer
// from being due before its pause's deadline.
func TestDueIn1970(t *testing.T) {
	at := &clock{at: time.Unix(3600, 0)}
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
		Model: messages(calls("deploy", `{"text":"job"}`), says("Done.")),
	}, &rigOptions{session: &session.Options{Now: at.now}})
	p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
	must2(r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("green"))))
	due, _, _, err := r.store.Due(t.Context(), "ops", nil)
	must(t, err)
	if len(due) != 1 {
		t.Errorf("due are %v, though an answer was accepted", due)
	}
}
