package runner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/retry"
	"github.com/fermata-ai/fermata/tool/wait"
)

// quick is a tool whose body ends at once, and whose calls need a permit of each
// of some handles, for which they wait a minute.
func quick(t *testing.T, handles ...string) tool.Tool {
	t.Helper()
	q := tool.Tool(does(tool.Spec{Name: "quick", MayPause: true, Effect: tool.Idempotent},
		func(context.Context, string) (tool.Result[textOut], error) {
			return tool.Done(textOut{"x"}), nil
		}))
	for _, handle := range handles {
		var err error
		q, err = wait.WithPermit(q, wait.PermitOptions{Scope: tool.StoreScope, Handle: handle, Most: 1,
			Timeout: time.Minute})
		must(t, err)
	}
	return q
}

// permits returns those of "gpu".
func (r *rig) permits() tool.WaitPermits {
	r.t.Helper()
	w, err := r.Wait(r.t.Context(), ofStore("gpu"), user)
	must(r.t, err)
	return *w.Permits
}

// A call that waits for a second permit gives up after its time as well, its
// claim is forgotten, and the permit that it had goes on.
func TestACallGivesUpTheSecondOfTwoPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := contending(t, quick(t, "gpu", "cpu"))
		r.saysIn("a", "a")
		for _, id := range []string{"b", "c"} {
			r.saysIn(id, "quick")
			time.Sleep(2 * time.Minute)
			if got := r.outputsOf(id); len(got) != 1 || !strings.Contains(got[0], `of \"gpu\" were taken`) {
				t.Errorf("%s: %s", id, got)
			}
		}
		if got := r.permits(); got != (tool.WaitPermits{Most: 1, Held: 1}) {
			t.Errorf("%+v", got)
		}
		must(t, r.Close())
		r.sound()
		r.soundWaits()
	})
}

// Each try of a call waits anew for a permit that the one before didn't get, and
// the tries count on.
func TestEachTryWaitsForItsPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := retry.Tool(quick(t, "gpu"), &retry.Policy{Tries: 3, Initial: time.Hour, Max: time.Hour,
			Jitter: -1})
		must(t, err)
		r := contending(t, q)
		r.saysIn("a", "a")
		r.saysIn("b", "quick")
		time.Sleep(2*time.Hour + 10*time.Minute)
		if got := r.outputsOf("b"); len(got) != 1 || !strings.Contains(got[0], "were taken") {
			t.Fatalf("after three tries: %s", got)
		}
		r.saysIn("c", "quick")
		time.Sleep(10 * time.Minute)
		_, err = r.Resume(t.Context(), "a", runner.Complete(r.pauseIn("a").ID, "ops", text("ok")))
		must(t, err)
		time.Sleep(time.Hour)
		if got := r.outputsOf("c"); len(got) != 1 || !strings.Contains(got[0], `"x"`) {
			t.Errorf("the second try: %s", got)
		}
		must(t, r.Close())
		r.sound()
		r.soundWaits()
	})
}

// A try after the one that has given the permit back waits for it again.
func TestATryAfterAReleaseHasAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var holding []int
		var r *rig
		inner := does(tool.Spec{Name: "quick", MayPause: true, Effect: tool.Idempotent},
			func(ctx context.Context, _ string) (tool.Result[textOut], error) {
				holding = append(holding, r.permits().Held)
				if tool.CallFrom(ctx).Tried.Count == 0 {
					must(t, wait.ReleasePermit(ctx, tool.StoreScope, "gpu"))
					must(t, wait.ReleasePermit(ctx, tool.StoreScope, "gpu"))
					return tool.Pending[textOut](tool.Await{Reason: tool.ReasonRetry, Timeout: time.Minute}), nil
				}
				return tool.Done(textOut{"x"}), nil
			})
		p, err := wait.WithPermit(inner, wait.PermitOptions{Scope: tool.StoreScope, Handle: "gpu", Most: 1})
		must(t, err)
		r = newRig(t, agent.Config{Tools: []tool.Tool{p}, Model: echoing("quick")}, &rigOptions{memory: true})
		r.working()
		r.saysIn("a", "quick")
		synctest.Wait()
		if got := r.permits(); got != (tool.WaitPermits{Most: 1}) {
			t.Errorf("after the release: %+v", got)
		}
		time.Sleep(2 * time.Minute)
		if got := r.outputsOf("a"); len(got) != 1 || len(holding) != 2 || holding[1] != 1 {
			t.Errorf("the tries held %v: %s", holding, got)
		}
		must(t, r.Close())
		r.sound()
		r.soundWaits()
	})
}

// So does one of an entry that an answer has led to: it waits for the permit, and
// then has that answer. A later entry, after a pause of its own, goes on without.
func TestATryWithAnAnswerHasAPermitAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var entries []string
		var r *rig
		inner := does(tool.Spec{Name: "quick", MayPause: true, Effect: tool.Idempotent},
			func(ctx context.Context, _ string) (tool.Result[textOut], error) {
				c := tool.CallFrom(ctx)
				if c.Answer == nil {
					return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter, Data: []byte(`1`)}), nil
				}
				entries = append(entries, fmt.Sprintf("%s by %s, tried %d, held %d", c.Answer.Data,
					c.Answer.Payload, c.Tried.Count, r.permits().Held))
				if string(c.Answer.Data) == "2" {
					return tool.Done(textOut{"x"}), nil
				}
				must(t, wait.ReleasePermit(ctx, tool.StoreScope, "gpu"))
				if c.Tried.Count == 0 {
					return tool.Pending[textOut](tool.Await{Reason: tool.ReasonRetry, Timeout: time.Minute}), nil
				}
				return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter, Data: []byte(`2`)}), nil
			})
		p, err := wait.WithPermit(inner, wait.PermitOptions{Scope: tool.StoreScope, Handle: "gpu", Most: 1,
			Timeout: time.Hour})
		must(t, err)
		r = contending(t, p)
		answer := func(session, value string) {
			t.Helper()
			_, err := r.Resume(t.Context(), session, runner.Complete(r.pauseIn(session).ID, "ops", []byte(value)))
			must(t, err)
			time.Sleep(10 * time.Second)
		}
		r.saysIn("b", "quick")
		r.saysIn("a", "a")
		answer("b", `"one"`)
		time.Sleep(10 * time.Minute) // the other call has the permit
		synctest.Wait()
		if len(entries) != 1 {
			t.Errorf("without its permit: %q", entries)
		}
		answer("a", string(text("ok")))
		answer("b", `"two"`)
		synctest.Wait()
		const want = `[1 by "one", tried 0, held 1 1 by "one", tried 1, held 1 2 by "two", tried 0, held 0]`
		if got := fmt.Sprint(entries); got != want {
			t.Errorf("the entries were\n%s, not\n%s", got, want)
		}
		must(t, r.Close())
		r.sound()
		r.soundWaits()
	})
}
