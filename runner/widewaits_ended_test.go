package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// Calls that wait for a permit of a handle are told of its end. It is removed
// with the claim of the call that still has one, and which owes nothing to the
// new handle of its name.
func TestAHandleEndsWithItsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, agent.Config{Tools: []tool.Tool{renders(t)}, Model: echoing("render")},
			&rigOptions{memory: true, runner: &runner.Options{Waits: runner.WaitRetention{Ended: time.Hour}}})
		r.working()
		for _, id := range []string{"a", "b", "c"} {
			r.saysIn(id, id)
			synctest.Wait()
		}
		if got := r.holding(); got != "a" {
			t.Fatalf("%q hold the one permit", got)
		}
		_, err := r.CompleteWait(t.Context(), ofStore("gpu"), runner.WaitEnd{Error: "closed"}, "ops")
		must(t, err)
		time.Sleep(time.Minute)
		for _, id := range []string{"b", "c"} {
			if got := r.outputsOf(id); len(got) != 1 || !strings.Contains(got[0], "gives no permits") {
				t.Errorf("%s: %s", id, got)
			}
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		r.saysIn("d", "d")
		if got := r.holding(); got != "a d" {
			t.Errorf("%q hold permits", got)
		}
		_, err = r.Resume(t.Context(), "a", runner.Complete(r.pauseIn("a").ID, "ops", text("ok")))
		must(t, err)
		time.Sleep(time.Minute)
		w, err := r.Wait(t.Context(), ofStore("gpu"), user)
		if must(t, err); *w.Permits != (tool.WaitPermits{Most: 1, Held: 1}) {
			t.Errorf("the new handle: %+v", w.Permits)
		}
		must(t, r.Close())
		r.sound()
		r.soundWaits()
	})
}

// A handle goes however many calls still have its permits.
func TestAHandleGoesThoughManyHoldItsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 70
		inner := does(tool.Spec{Name: "render", MayPause: true, Effect: tool.Idempotent},
			func(context.Context, string) (tool.Result[textOut], error) {
				return tool.Pending[textOut](tool.Await{}), nil
			})
		p, err := wait.WithPermit(inner,
			wait.PermitOptions{Scope: tool.StoreScope, Handle: "gpu", Most: most})
		must(t, err)
		r := newRig(t, agent.Config{Tools: []tool.Tool{p}, Model: echoing("render")},
			&rigOptions{memory: true, runner: &runner.Options{Waits: runner.WaitRetention{Ended: time.Hour}}})
		r.working()
		for n := range most {
			r.saysIn(fmt.Sprint("s", n), "hold")
		}
		synctest.Wait()
		if got := r.permits(); got.Held != most {
			t.Fatalf("%d calls hold a permit", got.Held)
		}
		_, err = r.CompleteWait(t.Context(), ofStore("gpu"), runner.WaitEnd{Error: "closed"}, "ops")
		must(t, err)
		time.Sleep(2 * time.Hour)
		if w, err := r.Wait(t.Context(), ofStore("gpu"), user); !errors.Is(err, runner.ErrUnknownWait) {
			t.Errorf("after its retention: %+v, %v", w.Permits, err)
		}
		must(t, r.Close())
		r.sound()
		r.soundWaits()
	})
}
