package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/hold"
	core "github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/kvstore/kvtest"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/notify"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const chat = "chat-1"

// rig is an agent whose one tool is held by an approval, and then waits for an
// outside job, on an engine that outlives its process.
type rig struct {
	*runner.Runner
	t      *testing.T
	engine *kvstore.Memory
	shared bool // the engine is no kvstore.Exclusive
	told   *session.Notify
	faults *faultkv.Injector
	store  *session.Store
	core   *core.Store
}

type in struct {
	Cents int `json:"cents"`
}

// newRig returns a rig, in the bubble of a synctest.
func newRig(t *testing.T, shared bool) *rig {
	t.Helper()
	r := &rig{t: t, shared: shared, engine: kvstore.NewMemory(),
		told: &session.Notify{Remind: 24 * time.Hour}}
	r.open()
	t.Cleanup(func() { r.Close() })
	return r
}

// open begins a process, with these faults.
func (r *rig) open(faults ...faultkv.Fault) {
	r.t.Helper()
	r.faults = faultkv.New(r.engine, faults...)
	r.store = session.NewStore(r.kv(), &session.Options{Notify: r.told})
	r.core = hold.Of(r.store)
	refund := tool.Must(tool.Func(
		tool.Spec{Name: "refund", Description: "Give money back.", MayPause: true,
			Effect: tool.Idempotent},
		func(context.Context, in) (tool.Result[string], error) {
			return tool.Pending[string](tool.Await{Timeout: 10 * 24 * time.Hour}), nil
		}))
	ag, err := agent.New(agent.Config{Name: "ops", Tools: []tool.Tool{refund},
		Model: fakellm.New(fakellm.When(nil,
			fakellm.Calls("refund", `{"cents":500}`), fakellm.Says("Done."))),
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{
			Prompt: func(tool.Call) string { return "Refund <500> cents?" }})},
	})
	must(r.t, err)
	r.Runner, err = runner.New(ag, r.store,
		&runner.Options{Logger: slog.New(slog.DiscardHandler)})
	must(r.t, err)
}

func (r *rig) kv() kvstore.Store {
	if r.shared {
		return kvtest.Shared(r.faults.Store)
	}
	return r.faults.Store
}

// reopen begins another process, after the end of the one before.
func (r *rig) reopen(faults ...faultkv.Fault) {
	r.t.Helper()
	r.Close()
	r.engine = r.engine.Reopen()
	r.open(faults...)
}

// another returns the store as another process has it.
func (r *rig) another() *session.Store {
	return session.NewStore(r.kv(), &session.Options{Notify: r.told})
}

// say runs a user's message until the run ends, or waits.
func (r *rig) say(id string) (event.Finish, error) {
	return last(r.Run(r.t.Context(), "ada", chat, llm.UserText("Refund it: "+id),
		&runner.RunOptions{MessageID: id}))
}

func (r *rig) carryOn() (event.Finish, error) {
	return last(r.Continue(r.t.Context(), chat, "ada"))
}

func last(events iter.Seq2[event.Event, error]) (finish event.Finish, err error) {
	for ev, e := range events {
		if e != nil {
			err = e
		}
		if end, ok := ev.(event.End); ok {
			finish = end.Finish
		}
	}
	return finish, err
}

// open pause of a reason, if there is one.
func (r *rig) waits(reason tool.Reason) (tool.Pause, bool) {
	for p, err := range r.Pending(r.t.Context(), session.PauseFilter{Reason: reason}, "ops") {
		if err == nil {
			return p, true
		}
	}
	return tool.Pause{}, false
}

// answer gives the one open pause of a reason an answer.
func (r *rig) answer(reason tool.Reason) error {
	p, waits := r.waits(reason)
	if !waits {
		return nil
	}
	rs := runner.Approve(p.ID, "boss", "")
	if reason != tool.ReasonApproval {
		rs = runner.Complete(p.ID, "bank", json.RawMessage(`"paid"`))
	}
	_, err := r.Resume(r.t.Context(), chat, rs)
	return err
}

// paused begins a session that waits for an approval.
func (r *rig) paused() {
	r.t.Helper()
	if finish, err := r.say("m1"); finish != event.FinishPaused || err != nil {
		r.t.Fatalf("the run ends as %q, %v", finish, err)
	}
}

// work has what is told sent for a while.
func (r *rig) work(d time.Duration, to notify.Sender, o *notify.Options) {
	r.t.Helper()
	ctx, cancel := context.WithTimeoutCause(r.t.Context(), d, errors.New("the while is over"))
	defer cancel()
	if o == nil {
		o = &notify.Options{}
	}
	own := *o
	own.Logger = slog.New(slog.DiscardHandler)
	own.Poll = max(time.Second, d/20) // what is due next is known without it
	if err := notify.Work(ctx, r.store, to, &own); err != context.DeadlineExceeded {
		r.t.Errorf("the work ends with %v", err)
	}
}

// sound fails the test if something is wrong with the store, and returns how
// many keys of a kind there are.
func (r *rig) sound() {
	r.t.Helper()
	for p, err := range r.store.Check(r.t.Context()) {
		r.t.Errorf("the store: %v, %v", p, err)
	}
}

// keys returns how many keys of these kinds there are.
func (r *rig) keys(kinds ...string) (n int) {
	r.t.Helper()
	for _, kind := range kinds {
		page, err := r.engine.Scan(r.t.Context(), kvstore.Range{Prefix: kvstore.Key(kind)})
		must(r.t, err)
		n += len(page.Entries)
	}
	return n
}

// outside is what notifications come to.
type outside struct {
	mu   sync.Mutex
	all  []notify.Notification
	fail func(n notify.Notification) error // may be nil
}

func (o *outside) Send(_ context.Context, n notify.Notification) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, n)
	if o.fail != nil {
		return o.fail(n)
	}
	return nil
}

// lines returns what came, each the first time that it came.
func (o *outside) lines() (lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := map[string]bool{}
	for _, n := range o.all {
		if !seen[n.ID] {
			lines = append(lines, line(n))
		}
		seen[n.ID] = true
	}
	return lines
}

func line(n notify.Notification) string {
	s := fmt.Sprint(n.Number, " ", n.Kind)
	if n.Pause != nil {
		s += fmt.Sprint(" ", n.Pause.Number)
	}
	return s + fmt.Sprint(" ", n.Status, n.Finish)
}

func is(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("told is\n%q, and is to be\n%q", got, want)
	}
}

// bubble runs a test with both ways in which leases are kept.
func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	for name, shared := range map[string]bool{"one process": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newRig(t, shared)) })
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
