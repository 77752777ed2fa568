package runner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestCancelSessionThatIsOvertaken: before each of its commits, others settle
// or answer a call, or a deadline passes. Whatever they do, the session is
// cancelled, without an error, and its turn is closed.
func TestCancelSessionThatIsOvertaken(t *testing.T) {
	type world struct {
		*rig
		clock *clock
		calls []tool.Pause // a job, a job, and a refund to be approved
	}
	ctx := context.Background()
	cancel := func(w *world, i int) error {
		_, err := w.Cancel(ctx, chat, w.calls[i].Call, "eve", "I was first")
		return err
	}
	answer := func(w *world, in runner.Resumption) error {
		_, err := w.Resume(ctx, chat, in)
		return err
	}
	for name, overtake := range map[string]func(*world) error{
		"by a cancellation of the first call": func(w *world) error { return cancel(w, 0) },
		"by a cancellation of the last call":  func(w *world) error { return cancel(w, 2) },
		"by cancellations of all calls":       func(w *world) error { return errors.Join(cancel(w, 0), cancel(w, 1), cancel(w, 2)) },
		"by a job that failed":                func(w *world) error { return answer(w, runner.Fail(w.calls[1].ID, "ci", "broke", false)) },
		"by a job that is done":               func(w *world) error { return answer(w, runner.Complete(w.calls[1].ID, "ci", text("v"))) },
		"by an approval":                      func(w *world) error { return answer(w, runner.Approve(w.calls[2].ID, "bob", "")) },
		"by a deadline":                       func(w *world) error { w.clock.pass(2 * time.Hour); return nil },
		"by another cancellation":             func(w *world) error { return w.CancelSession(ctx, chat, "eve", "I was first") },
		"by a driver":                         func(w *world) error { return watch(w.t, w.another().Continue(ctx, chat, user)).err },
	} {
		t.Run(name, func(t *testing.T) {
			for n, commits := 1, 1; n <= commits; n++ {
				var c counter
				h, cl := new(hooked), newClock()
				w := &world{clock: cl, rig: newRig(t, agent.Config{
					Model:        fakellm.New(fakellm.Calls("job", `{"text":"a"}`).And("job", `{"text":"b"}`).And("refund", `{"text":"c"}`), fakellm.Says("Next.")),
					Tools:        []tool.Tool{waiting("job", tool.Once, &c), instant("refund", tool.Once, &c)},
					Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund"}})},
				}, &rigOptions{memory: true, session: &session.Options{Now: cl.now}, wrap: func(kv kvstore.Store) kvstore.Store {
					h.Store = kv
					return struct {
						kvstore.Store
						exclusive
					}{h, kv.(kvstore.Exclusive)}
				}})}
				w.calls = w.say("Go.").finished(event.FinishPaused).end.Pending
				commits = 0
				h.before = func(kvstore.Batch) {
					if commits++; commits != n {
						return
					}
					before := h.before
					h.before = nil
					if err := overtake(w); err != nil && !errors.Is(err, session.ErrSettled) && !errors.Is(err, session.ErrBusy) {
						t.Errorf("commit %d was overtaken with %v", n, err)
					}
					h.before = before
				}
				if err := w.CancelSession(ctx, chat, "bob", "enough"); err != nil {
					t.Errorf("before commit %d: the cancellation is told %v", n, err)
				}
				h.before = nil
				got := w.transcript()
				if got.Finish != event.FinishCancelled || len(got.Pending) != 0 || len(got.History) != 3 {
					t.Errorf("before commit %d: the session is left as %q with %d messages, and %d calls wait",
						n, got.Finish, len(got.History), len(got.Pending))
				}
				if c.get("refund") != 0 {
					t.Errorf("before commit %d: a refund was made in a session that was cancelled", n)
				}
				w.acceptable()
			}
		})
	}
}

// exclusive is what an engine of one process has beside its store.
type exclusive interface {
	Incarnation() uint64
	Local() *kvstore.Local
}

// TestCallThatIsCancelledTwiceAtOnce: by the session and by itself. The one
// that came first is who the model is told of.
func TestCallThatIsCancelledTwiceAtOnce(t *testing.T) {
	var c counter
	h := new(hooked)
	r := newRig(t, jobs(&c, 2), &rigOptions{memory: true, wrap: h.wrap})
	pending := r.say("Go.").finished(event.FinishPaused).end.Pending
	commits := 0
	h.before = func(kvstore.Batch) {
		if commits++; commits == 3 { // those before end the run and take the lease
			h.before = nil
			for i, p := range pending {
				_, err := r.Cancel(context.Background(), chat, p.Call, runner.Actor(fmt.Sprint("eve-", i)), "")
				must(t, err)
			}
		}
	}
	must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
	for i, p := range pending {
		got, err := r.Call(t.Context(), chat, p.Call, user)
		must(t, err)
		if want := fmt.Sprint("eve-", i); got.By != want {
			t.Errorf("call %d is kept as cancelled by %q, not %q", i, got.By, want)
		}
	}
	r.acceptable()
}
