package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// Many sessions wait for answers that never come. Their deadlines pass, the
// agent goes on with each, and in time all of it is gone.
func TestAbandonedPausesAreReclaimed(t *testing.T) {
	t.Parallel()
	sessions := testlength.Sessions.N()
	var n counter
	cl, kv := &clock{at: time.Now()}, &counted{Exclusive: kvstore.NewMemory()}
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"j"}`), says("Then not."))},
		&rigOptions{memory: true, session: &session.Options{Now: cl.now},
			wrap: func(kvstore.Store) kvstore.Store { return kv }})
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := part; i < sessions; i += 4 {
				for _, err := range r.Run(context.Background(), user, fmt.Sprint("chat-", i),
					llm.UserText("Go."), nil) {
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
	if swept, err = r.store.Sweep(t.Context(), keep); err != nil || swept.Calls != sessions ||
		swept.Sessions != 0 {
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
		// schemas, and what is the store's as a whole
		if kind := string(e.Key[:2]); kind != "s\x00" && kind != "t\x00" && kind != "x\x00" {
			t.Errorf("%q is left", e.Key)
		}
	}
	if got := kv.largest.Load(); got > kvstore.MaxOperations {
		t.Errorf("a batch had %d operations", got)
	}
}

// A payload that a commit left behind which never came goes when it is old, and
// not before; one that is referred to stays for as long as what refers to it.
func TestOrphanedPayloadsAreReclaimed(t *testing.T) {
	var n counter
	cl := &clock{at: time.Now()}
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"j"}`), says("Done."))},
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
	_, err := r.kv.Apply(t.Context(), kvstore.Batch{
		Puts: []kvstore.Put{
			{Key: kvstore.Key("p", chat, r.store.NewID("pl"), "00000"), Value: long[:100]},
		},
	})
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
			t.Errorf("after another %v: %+v swept, and %d are left of %d", step.pass, swept,
				payloads(), before)
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
	if history := r.transcript().History; len(history) != 4 ||
		len(r.result(p.Call).Output) < len(long) {
		t.Errorf("the history is %d messages", len(history))
	}
}

// A file gives its space back after a sweep, by a copy, on which everything
// goes on.
func TestSweptSpaceIsGivenBack(t *testing.T) {
	var n counter
	cl := &clock{at: time.Now()}
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"j"}`), says("Done."))},
		&rigOptions{session: &session.Options{Now: cl.now}})
	const old = 12
	for i := range old {
		id := fmt.Sprint("old-", i)
		p := watch(t, r.Run(t.Context(), user, id,
			llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("job")
		res, err := r.Resume(t.Context(), id,
			runner.Complete(p.ID, "ci", text(strings.Repeat("long ", 10_000))))
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

// A sweep that looked at a session before it was used again leaves it alone.
func TestSweepSparesWhatIsUsedAgain(t *testing.T) {
	cl, h := newClock(), &hooked{}
	r := newRig(t, agent.Config{Model: fakellm.Echo()}, &rigOptions{memory: true, wrap: h.shared,
		session: &session.Options{Now: cl.now}})
	r.say("Hi.").finished(event.FinishStop)
	cl.pass(48 * time.Hour)
	h.scanned = func(rg kvstore.Range) {
		if bytes.Equal(rg.Prefix, kvstore.Key("h")) {
			h.scanned = nil
			r.say("Back again.").finished(event.FinishStop)
		}
	}
	keep := &session.Retention{Sessions: 24 * time.Hour}
	swept, err := r.store.Sweep(t.Context(), keep)
	must(t, err)
	if got := len(r.transcript().History); got != 4 || swept.Sessions != 0 {
		t.Errorf("%d messages are left, and %+v swept", got, swept)
	}
	cl.pass(48 * time.Hour)
	if swept, err = r.store.Sweep(t.Context(), keep); err != nil || swept.Sessions != 1 {
		t.Errorf("later: %+v, %v", swept, err)
	}
}

// A sweep sees a payload that moves from the head to a record while it looks.
func TestSweepSparesPayloadsThatMove(t *testing.T) {
	for at := 1; at <= 4; at++ {
		t.Run(fmt.Sprint("before scan ", at), func(t *testing.T) {
			var n counter
			cl, h := &clock{at: time.Now()}, &hooked{}
			r := newRig(t, agent.Config{
				Tools:        []tool.Tool{instant("act", tool.Once, &n)},
				Interceptors: interceptor.Chain{interceptor.Approval(nil)},
				Model:        fakellm.New(fakellm.Calls("act", `{"text":"a"}`), fakellm.Says("ok")),
			}, &rigOptions{memory: true, wrap: h.shared, session: &session.Options{Now: cl.now}})
			p := r.say("Go.").finished(event.FinishPaused).pause("act")
			_, err := r.Resume(t.Context(), chat, runner.ApproveEdited(p.ID, "bob", "",
				textIn{strings.Repeat("x", 5000)}))
			must(t, err)
			cl.pass(2 * time.Hour)
			scans := 0
			h.scanned = func(kvstore.Range) {
				if scans++; scans == at {
					h.scanned = nil
					r.carryOn().finished(event.FinishStop)
				}
			}
			_, err = r.store.Sweep(t.Context(), nil)
			must(t, err)
			status, err := r.Call(t.Context(), chat, p.Call, user)
			must(t, err)
			if len(status.Decisions) != 1 || len(status.Decisions[0].Arguments) < 5000 {
				t.Errorf("the decision is %.100v", status.Decisions)
			}
		})
	}
}

// A program makes ids of its own, which don't tell their age. A sweep spares a
// payload whose commit is on its way.
func TestSweepWithOwnIDs(t *testing.T) {
	h, ids := new(hooked), 0
	var n counter
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: fakellm.New(fakellm.Calls("job", `{"text":"k"}`), fakellm.Says("Done."))},
		&rigOptions{wrap: h.shared, session: deterministic(&ids)})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	h.apply = func(b kvstore.Batch) {
		for _, put := range b.Puts { // the head's commit: its payload lies there already
			if strings.HasPrefix(string(put.Key), "h\x00") {
				h.apply = nil
				_, err := r.store.Sweep(context.Background(), nil)
				must(t, err)
				return
			}
		}
	}
	answer := text(strings.Repeat("x", 200<<10))
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", answer))
	must(t, err)
	r.carryOn().finished(event.FinishStop)
	if res := r.result(p.Call); string(res.Output) != string(answer) {
		t.Errorf("the result has %d bytes", len(res.Output))
	}
}

// TestUnseenResultsOutliveTheSweep: a session was cancelled, and its user comes
// back long after. The next run shows the results, which the sweep has spared;
// or it goes on without those that an older version's sweep has removed. After
// that they are swept like others.
func TestUnseenResultsOutliveTheSweep(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(map[bool]string{false: "spared", true: "removed"}[gone], func(t *testing.T) {
			var n counter
			at := newClock()
			r := newRig(t, agent.Config{
				Model: fakellm.New(fakellm.Calls("job", `{"text":"a"}`).And("job", `{"text":"b"}`),
					fakellm.Says("Next."), fakellm.Says("More.")),
				Tools: []tool.Tool{waiting("job", tool.Once, &n)},
			}, &rigOptions{session: &session.Options{Now: at.now}})
			p := r.say("Go.").finished(event.FinishPaused).pause("job")
			must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
			at.pass(40 * 24 * time.Hour)
			if swept := must2(r.store.Sweep(t.Context(), nil)); swept.Calls != 0 {
				t.Errorf("records of %d calls were removed that no run has shown", swept.Calls)
			}
			want := []string{"job cancelled", "job cancelled"}
			if gone {
				_, err := r.engine.Apply(t.Context(),
					kvstore.Batch{Deletes: [][]byte{kvstore.Key("c", chat, p.Call)}})
				must(t, err)
				want = want[1:]
			}
			r.restart()
			shows(t, r.say("Something else.").finished(event.FinishStop), want...)
			shows(t, r.say("And?").finished(event.FinishStop))
			if swept := must2(r.store.Sweep(t.Context(), nil)); swept.Calls != len(want) {
				t.Errorf("records of %d calls were removed after they were shown", swept.Calls)
			}
		})
	}
}

// A sweep reads a session once for all pauses of a turn, and not for each.
func TestASweepReadsASessionOnceForItsPauses(t *testing.T) {
	var n counter
	kv := &counted{Exclusive: kvstore.NewMemory()}
	r := newRig(t, jobs(&n, 64), &rigOptions{memory: true,
		wrap: func(kvstore.Store) kvstore.Store { return kv }})
	r.say("Go.").finished(event.FinishPaused)
	before := kv.reads(chat)
	must2(r.store.Sweep(t.Context(), nil))
	if got := kv.reads(chat) - before; got > 8 {
		t.Errorf("a sweep reads the head %d times", got)
	}
}
