package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// counted counts the reads of heads and the operations of the largest batch.
type counted struct {
	kvstore.Exclusive
	heads   sync.Map // by key: *atomic.Int32
	largest atomic.Int32
}

func (c *counted) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	n, _ := c.heads.LoadOrStore(string(key), new(atomic.Int32))
	n.(*atomic.Int32).Add(1)
	return c.Exclusive.Get(ctx, key)
}

func (c *counted) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	n := int32(len(b.Puts) + len(b.Deletes) + len(b.Preconditions))
	for was := c.largest.Load(); n > was && !c.largest.CompareAndSwap(was, n); was = c.largest.Load() {
	}
	return c.Exclusive.Apply(ctx, b)
}

func (c *counted) reads(session string) int32 {
	n, ok := c.heads.Load(string(kvstore.Key("h", session)))
	if !ok {
		return 0
	}
	return n.(*atomic.Int32).Load()
}

// work has a worker carry on what is due until so many sessions have come to their end.
func (r *rig) work(o runner.WorkOptions, sessions int) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var ended atomic.Int32
	var seen sync.Map // a worker may look at a session that is over by then
	o.OnEvent = func(id string, ev event.Event, err error) {
		if e, ok := ev.(event.End); ok && e.Finish == event.FinishStop && !strings.HasPrefix(id, "bad") {
			if _, again := seen.LoadOrStore(id, true); !again && int(ended.Add(1)) == sessions {
				cancel()
			}
		}
	}
	_ = r.Work(ctx, &o)
}

// Ten thousand sessions wait for answers that never come. Their deadlines pass, the agent goes on with each, and in time all of it is
// gone.
func TestAbandonedPausesAreReclaimed(t *testing.T) {
	sessions := 10_000
	if testing.Short() {
		sessions = 500
	}
	var n counter
	cl, kv := &clock{at: time.Now()}, &counted{Exclusive: kvstore.NewMemory()}
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)}, Model: messages(calls("job", `{"text":"j"}`), says("Then not."))},
		&rigOptions{memory: true, session: &session.Options{Now: cl.now}, wrap: func(kvstore.Store) kvstore.Store { return kv }})
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := part; i < sessions; i += 4 {
				for _, err := range r.Run(context.Background(), user, fmt.Sprint("chat-", i), llm.UserText("Go."), nil) {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	cl.pass(2 * time.Hour)
	r.work(runner.WorkOptions{SweepEvery: -1}, sessions)
	for s, err := range r.Sessions(t.Context(), session.Filter{}, user) {
		must(t, err)
		if s.Finish != event.FinishStop {
			t.Fatalf("session %s is %q", s.ID, s.Finish)
		}
	}
	for _, err := range r.Pending(t.Context(), session.PauseFilter{}, user) {
		t.Fatalf("something waits: %v", err)
	}

	day := 24 * time.Hour
	keep := &session.Retention{Sessions: 7 * day, Receipts: day}
	swept, err := r.store.Sweep(t.Context(), keep)
	must(t, err)
	if swept.Sessions+swept.Calls != 0 {
		t.Errorf("before their time went %+v", swept)
	}
	cl.pass(2 * day)
	if swept, err = r.store.Sweep(t.Context(), keep); err != nil || swept.Calls != sessions || swept.Sessions != 0 {
		t.Errorf("after two days went %+v, %v", swept, err)
	}
	cl.pass(7 * day)
	if swept, err = r.store.Sweep(t.Context(), keep); err != nil || swept.Sessions != sessions {
		t.Errorf("after nine days went %+v, %v", swept, err)
	}
	cl.pass(7 * day)
	if swept, err = r.store.Sweep(t.Context(), keep); err != nil || swept.Tombstones != sessions {
		t.Errorf("after sixteen days went %+v, %v", swept, err)
	}
	page, err := kv.Scan(t.Context(), kvstore.Range{})
	must(t, err)
	for _, e := range page.Entries {
		if kind := string(e.Key[:2]); kind != "s\x00" && kind != "t\x00" && kind != "x\x00" { // schemas, and what is the store's as a whole
			t.Errorf("%q is left", e.Key)
		}
	}
	if got := kv.largest.Load(); got > kvstore.MaxOperations {
		t.Errorf("a batch had %d operations", got)
	}
}

// A session that can't be read, one of a newer version, one that is driven all the time, and one that always fails: the others are
// carried on, and the worker does not run hot over those.
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
			p := watch(t, r.Run(t.Context(), user, id, llm.UserText(id), nil)).finished(event.FinishPaused).pause("job")
			_, err := r.Resume(t.Context(), id, runner.Complete(p.ID, "ci", text("v")))
			must(t, err)
		}
		for id, edit := range map[string]func(string) string{
			"bad-corrupt": func(s string) string { return s[:len(s)-5] },
			"bad-newer":   func(s string) string { return strings.Replace(s, `"v":1`, `"v":99`, 1) },
		} {
			key := kvstore.Key("h", id)
			e, err := kv.Get(t.Context(), key)
			must(t, err)
			_, err = kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: key, Value: []byte(edit(string(e.Value)))}}})
			must(t, err)
		}
		busy, err := r.store.Drive(t.Context(), "bad-busy", nil)
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

// What OnEvent does wrong is its own affair.
func TestOnEventPanics(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)}, Model: messages(calls("job", `{"text":"j"}`), says("Done."))}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v")))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_ = r.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
		if _, ok := ev.(event.End); ok {
			cancel()
		}
		panic("in OnEvent")
	}})
	if got := r.transcript(); got.Finish != event.FinishStop {
		t.Errorf("it is %q", got.Finish)
	}
}

// A payload that a commit left behind which never came goes when it is old, and not before; one that is referred to stays for as long
// as what refers to it.
func TestOrphanedPayloadsAreReclaimed(t *testing.T) {
	var n counter
	cl := &clock{at: time.Now()}
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)}, Model: messages(calls("job", `{"text":"j"}`), says("Done."))},
		&rigOptions{memory: true, session: &session.Options{Now: cl.now}})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	long := text(strings.Repeat("long ", 14_000))
	r.answer(runner.Complete(p.ID, "ci", long)).finished(event.FinishStop)
	payloads := func() int {
		page, err := r.kv.Scan(t.Context(), kvstore.Range{Prefix: kvstore.Key("p")})
		must(t, err)
		return len(page.Entries)
	}
	before := payloads()
	_, err := r.kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: kvstore.Key("p", chat, r.store.NewID("pl"), "00000"), Value: long[:100]}}})
	must(t, err)
	const day = 24 * time.Hour
	for _, step := range []struct {
		pass        time.Duration
		swept, left int
	}{
		{59 * time.Minute, 0, before + 1},
		{2 * time.Minute, 3, before - 2}, // with the answer as it came, in two parts: the record and the message have their own
		{day, 0, before - 2},
	} {
		cl.pass(step.pass)
		swept, err := r.store.Sweep(t.Context(), &session.Retention{Receipts: 10 * day})
		must(t, err)
		if swept.Payloads != step.swept || payloads() != step.left {
			t.Errorf("after another %v: %+v swept, and %d are left of %d", step.pass, swept, payloads(), before)
		}
	}
	got, err := r.Call(t.Context(), chat, p.Call, user)
	must(t, err)
	if string(got.Output) != string(long) {
		t.Errorf("the output is %.50s", got.Output)
	}
	cl.pass(10 * day)
	_, err = r.store.Sweep(t.Context(), &session.Retention{Receipts: 10 * day})
	must(t, err)
	if _, err := r.Call(t.Context(), chat, p.Call, user); !errors.Is(err, session.ErrUnknownCall) {
		t.Errorf("after its time the record is there, with %v", err)
	}
	if history := r.transcript().History; len(history) != 4 || len(r.result(p.Call).Output) < len(long) {
		t.Errorf("the history is %d messages", len(history))
	}
}

// A file gives its space back after a sweep, by a copy, on which everything goes on.
func TestSweptSpaceIsGivenBack(t *testing.T) {
	var n counter
	cl := &clock{at: time.Now()}
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)}, Model: messages(calls("job", `{"text":"j"}`), says("Done."))},
		&rigOptions{session: &session.Options{Now: cl.now}})
	const old = 12
	for i := range old {
		id := fmt.Sprint("old-", i)
		p := watch(t, r.Run(t.Context(), user, id, llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("job")
		res, err := r.Resume(t.Context(), id, runner.Complete(p.ID, "ci", text(strings.Repeat("long ", 10_000))))
		must(t, err)
		watch(t, res.Events(t.Context())).finished(event.FinishStop)
	}
	cl.pass(48 * time.Hour)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	swept, err := r.store.Sweep(t.Context(), &session.Retention{Sessions: 24 * time.Hour})
	must(t, err)
	if swept.Sessions != old {
		t.Errorf("there went %+v", swept)
	}
	must(t, r.Close())
	must(t, r.engine.Close())
	small := r.path + ".small"
	must(t, bolt.Compact(small, r.path))
	was, err := os.Stat(r.path)
	must(t, err)
	is, err := os.Stat(small)
	must(t, err)
	if is.Size() > was.Size()/4 {
		t.Errorf("%d KiB became %d KiB", was.Size()>>10, is.Size()>>10)
	}
	must(t, os.Rename(small, r.path))
	r.open()
	for problem, err := range r.store.Check(t.Context()) {
		must(t, err)
		t.Error(problem)
	}
	r.answer(runner.Complete(p.ID, "ci", text("live"))).finished(event.FinishStop)
	if _, err := r.Show(t.Context(), "old-7", user); !errors.Is(err, session.ErrDeleted) {
		t.Errorf("one that was swept is shown, with %v", err)
	}
	r.acceptable()
}

// works has a worker carry on what is due until an event is the last to be seen.
func (r *rig) works(last func(event.Event) bool) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_ = r.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
		if last(ev) {
			cancel()
		}
	}})
}

// A clock of 1970, as a machine's that can't keep the time, keeps no answer from being due before its pause's deadline.
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
		slow, err := runner.New(ag, public.NewStore(&scannedLate{Memory: r.engine.(*kvstore.Memory), release: release}, nil), r.o.runner)
		must(t, err)
		ends := make(chan event.Finish, 10)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, rn := range []*runner.Runner{slow, r.Runner} {
			all.Go(func() {
				_ = rn.Work(ctx, &runner.WorkOptions{OnEvent: func(_ string, ev event.Event, _ error) {
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
