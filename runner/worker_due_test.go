package runner_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// A session that can't be read, one of a newer version, one that is driven all
// the time, and one that always fails: the others are carried on, and the
// worker does not run hot over those.
func TestBadSessionsHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		kv := &counted{Exclusive: kvstore.NewMemory()}
		script := messages(calls("job", `{"text":"j"}`), says("Done."))
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{waiting("job", tool.Once, &n)},
			Model: modelFunc(func(req llm.Request) []llm.Event {
				if len(req.Messages) == 3 && strings.Contains(req.Messages[0].Text(), "fails") {
					panic("as always")
				}
				return script(req)
			}),
		}, &rigOptions{memory: true, wrap: func(kvstore.Store) kvstore.Store { return kv }})
		ids := []string{"bad-corrupt", "bad-newer", "bad-busy", "bad-fails"}
		const good = 50
		for i := range good {
			ids = append(ids, fmt.Sprint("good-", i))
		}
		for _, id := range ids {
			p := watch(t, r.Run(t.Context(), user, id,
				llm.UserText(id), nil)).finished(event.FinishPaused).pause("job")
			_, err := r.Resume(t.Context(), id, runner.Complete(p.ID, "ci", text("v")))
			must(t, err)
		}
		for id, edit := range map[string]func(string) string{
			"bad-corrupt": func(s string) string { return s[:len(s)-5] },
			"bad-newer": func(s string) string {
				return strings.Replace(s, `"v":1`, `"v":99`, 1)
			},
		} {
			key := kvstore.Key("h", id)
			e, err := kv.Get(t.Context(), key)
			must(t, err)
			_, err = kv.Apply(t.Context(),
				kvstore.Batch{
					Puts: []kvstore.Put{{Key: key, Value: []byte(edit(string(e.Value)))}},
				})
			must(t, err)
		}
		busy, err := r.store.Acquire(t.Context(), "bad-busy", nil)
		must(t, err)
		kv.heads.Clear()
		begun := time.Now()
		r.work(runner.WorkOptions{Concurrency: 2}, good)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("the others took %v", took)
		}
		// For an hour nothing else is to be done.
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_ = r.Work(ctx, &runner.WorkOptions{SweepEvery: -1})
		for _, id := range []string{"bad-corrupt", "bad-newer", "bad-fails"} {
			if got := kv.reads(id); got > 100 {
				t.Errorf("%s was read %d times in an hour", id, got)
			}
		}
		// The one that was busy is carried on soon after it is let go.
		busy.Release()
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_ = r.Work(ctx, nil)
		got, err := r.Show(t.Context(), "bad-busy", user)
		must(t, err)
		if got.Finish != event.FinishStop {
			t.Errorf("the one that was busy is %q", got.Finish)
		}
	})
}

// TestOneEndForEachRun: a worker that takes a session up which another one has
// just finished shows nothing of it.
func TestOneEndForEachRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		release := make(chan struct{})
		r := newRig(t, oneCall(waiting("deploy", tool.Once, &n)), &rigOptions{memory: true})
		r.say("Deploy.").finished(event.FinishPaused)
		ag, err := agent.New(r.config)
		must(t, err)
		slow, err := runner.New(ag, public.NewStore(&scannedLate{
			Memory: r.engine.(*kvstore.Memory), release: release,
		}, nil), r.o.runner)
		must(t, err)
		ends := make(chan event.Finish, 10)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, rn := range []*runner.Runner{slow, r.Runner} {
			all.Go(func() {
				_ = rn.Work(ctx,
					&runner.WorkOptions{Poll: 10 * time.Second, OnEvent: func(_ string, ev event.Event, _ error) {
						if ev, ok := ev.(event.End); ok {
							ends <- ev.Finish
						}
					}})
			})
		}
		time.Sleep(2 * time.Hour) // the deadline passes, and both see what is due, one of them late
		close(release)
		time.Sleep(time.Hour)
		cancel()
		all.Wait()
		must(t, slow.Close())
		if len(ends) != 1 || <-ends != event.FinishStop {
			t.Errorf("the run ended %d times", len(ends)+1)
		}
	})
}

// scannedLate is an engine that shows what is due only when it is released, as
// it was when it was asked.
type scannedLate struct {
	*kvstore.Memory
	release chan struct{}
}

func (s *scannedLate) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	page, err := s.Memory.Scan(ctx, r)
	if len(r.Before) > 0 && len(page.Entries) > 0 {
		<-s.release
	}
	return page, err
}

// TestOnlyAWorkerThatHasTheToolLooks: one that lacks it doesn't touch the
// session, however long it works; one that has it takes the session up.
func TestOnlyAWorkerThatHasTheToolLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		r, p, _, with := parkedRig(t, &n, &rigOptions{memory: true, wrap: hidden})
		r.answer(runner.Approve(p.ID, "bob", "")).finished(event.FinishPaused)
		works(t, r.Runner)
		before, err := r.store.Load(t.Context(), chat)
		must(t, err)
		commits := r.faults.Commits()
		time.Sleep(20 * time.Minute)
		after, err := r.store.Load(t.Context(), chat)
		must(t, err)
		// A worker that shares the engine with others writes that it lives, each
		// 20 seconds.
		const beats = 1 + int(20*time.Minute/(20*time.Second))
		if before.Epoch != after.Epoch || r.faults.Commits() > commits+beats {
			t.Errorf("%d drives and %d commits came of nothing", after.Epoch-before.Epoch,
				r.faults.Commits()-commits)
		}
		r.config.Tools = with
		works(t, r.another())
		time.Sleep(time.Minute)
		if got := r.transcript(); got.Finish != event.FinishStop || n.get("refund") != 1 {
			t.Errorf("it is shown as %q; the body was entered %d times",
				got.Finish, n.get("refund"))
		}
	})
}

// TestWorkerWarnsOfAgentsItDoesNotHave: once an hour, and not of those that
// have nothing due.
func TestWorkerWarnsOfAgentsItDoesNotHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log journal
		var n counter
		r := newRig(t, oneCall(waiting("deploy", tool.Once, &n)), &rigOptions{memory: true,
			runner: &runner.Options{Logger: log.logger()}})
		p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
		must(t, r.Close())
		r.config.Name = "renamed"
		r.open()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = r.Work(ctx, &runner.WorkOptions{Poll: 10 * time.Second}) }()
		time.Sleep(30 * time.Minute)
		if log.String() != "" {
			t.Errorf("it warned of what waits: %s", log.String())
		}
		_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
		must(t, err)
		time.Sleep(2*time.Hour + 30*time.Minute)
		cancel()
		<-ended
		if got := strings.Count(log.String(),
			"whose agent this worker doesn't have\" agent=ops"); got != 3 {
			t.Errorf("it warned %d times: %s", got, log.String())
		}
	})
}

// TestWorkerWarnsOfWhatDeadDrivesHeld: also where the agent was renamed after a
// drive had died, so that no entry of what is due tells of it.
func TestWorkerWarnsOfWhatDeadDrivesHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log journal
		var n counter
		entered, leave := make(chan struct{}), make(chan struct{})
		stuck := tool.Must(tool.Func(tool.Spec{Name: "stuck"},
			func(context.Context, textIn) (tool.Result[textOut], error) {
				n.add("stuck")
				close(entered)
				<-leave
				return tool.Done(textOut{}), nil
			}))
		r := newRig(t, oneCall(stuck), &rigOptions{memory: true, wrap: hidden,
			runner: &runner.Options{Logger: log.logger(),
				CloseTimeout: time.Second}})
		ended := r.begin("Go.")
		<-entered
		first := r.Runner
		r.restart() // the drive's process is gone, as far as the store can tell
		r.config.Name = "renamed"
		renamed := r.another()
		workFor(t, 30*time.Minute, renamed)
		close(leave)
		ended()
		_ = first.Close()
		if !strings.Contains(log.String(), "whose agent this worker doesn't have\" agent=ops") {
			t.Errorf("it didn't warn: %s", log.String())
		}
	})
}

// A worker is there, and a long Run holds the session. An answer comes right
// after: the worker doesn't wait for a minute.
func TestWorkerAfterALongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		script := messages(calls("job", `{"text":"j"}`), says("Done."))
		r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
			Model: modelFunc(func(req llm.Request) []llm.Event {
				if len(req.Messages) == 1 {
					time.Sleep(30 * time.Second)
				}
				return script(req)
			})}, &rigOptions{memory: true})
		ctx, cancel := context.WithCancel(context.Background())
		var done time.Time
		worked := make(chan struct{})
		go func() {
			_ = r.Work(ctx, &runner.WorkOptions{SweepEvery: -1,
				OnEvent: func(_ string, ev event.Event, _ error) {
					if _, ok := ev.(event.End); ok {
						done = time.Now()
						cancel()
					}
				}})
			close(worked)
		}()
		p := watch(t, r.Run(context.Background(), user, chat,
			llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("job")
		answered := time.Now()
		_, err := r.Resume(context.Background(), chat, runner.Complete(p.ID, "ci", text("v")))
		must(t, err)
		<-worked
		if late := done.Sub(answered); late > 500*time.Millisecond {
			t.Errorf("the worker came %v later", late)
		}
	})
}

// A worker reads no head of a session that another machine drives, however long
// that takes: what is watched tells it.
func TestWorkerLeavesLiveDrivesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		act := does(tool.Spec{Name: "act"},
			func(context.Context, string) (tool.Result[textOut], error) {
				time.Sleep(time.Hour)
				return tool.Done(textOut{"done"}), nil
			})
		config := agent.Config{Tools: []tool.Tool{act},
			Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`), fakellm.Says("Done."))}
		engine := hidden(kvstore.NewMemory())
		var reads atomic.Int32
		heads := &hooked{Store: engine, get: func(key []byte) error {
			if isHead(key) {
				reads.Add(1)
			}
			return nil
		}}
		a, b := newMachine(t, engine, config, 0), newMachine(t, heads, config, -3*time.Minute)
		ended := make(chan *seen, 1)
		go func() {
			ended <- watch(t, a.Run(context.Background(), user, chat, llm.UserText("Go."), nil))
		}()
		synctest.Wait()
		b.work(t)
		(<-ended).finished(event.FinishStop)
		if n := reads.Load(); n > 2 {
			t.Errorf("in an hour the worker read the head %d times", n)
		}
	})
}
