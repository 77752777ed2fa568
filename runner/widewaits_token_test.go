package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A token outlives the handle that it was made for, by far. It does nothing to
// another one, which has the name since.
func TestTheTokenOfAHookThatIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := wideRig(t, tool.StoreScope, &runner.Options{
			Waits: runner.WaitRetention{Ended: time.Hour},
			Authorizer: func(_ context.Context, op runner.Operation) error {
				if !op.Wait.Made.IsZero() {
					t.Errorf("%s is asked about by the name %+v", op.Kind, op.Wait)
				}
				return nil
			},
		})
		yes := runner.WaitEnd{Result: json.RawMessage(`"yes"`)}
		hook := func() (runner.WaitName, tool.Wait) {
			w, err := r.CreateWait(t.Context(), ofStore("gate"), runner.NewWait{Type: tool.HookWait}, "ops")
			must(t, err)
			token, err := r.ReadToken(t.Context(), w.Token)
			must(t, err)
			return *token.Wait, w
		}
		first, w := hook()
		if !first.Made.Equal(w.Start) {
			t.Errorf("the token is for %+v, which was made at %v", first, w.Start)
		}
		for range 2 {
			_, err := r.CompleteWait(t.Context(), first, yes, "shop")
			must(t, err)
		}
		r.working()
		time.Sleep(2 * time.Hour)

		second, _ := hook()
		unknown := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, runner.ErrUnknownWait) {
				t.Errorf("%s by the token of the one before comes to %v", what, err)
			}
		}
		_, err := r.CompleteWait(t.Context(), first, yes, "shop")
		unknown("an end", err)
		unknown("progress", r.ReportWait(t.Context(), first, json.RawMessage(`1`), "shop"))
		_, err = r.Wait(t.Context(), first, "shop")
		unknown("a look", err)
		if _, err := r.CreateWait(t.Context(), first, runner.NewWait{}, "shop"); !errors.Is(err,
			runner.ErrInvalidWait) {
			t.Errorf("to make a handle that was made before comes to %v", err)
		}
		if w, err := r.Wait(t.Context(), ofStore("gate"), "ops"); err != nil ||
			w.Status != tool.WaitPending || len(w.Progress) > 0 {
			t.Errorf("the other one is %+v, %v", w, err)
		}
		w, err = r.CompleteWait(t.Context(), second, yes, "shop")
		if err != nil || w.Status != tool.WaitCompleted {
			t.Errorf("its own token makes it %+v, %v", w, err)
		}
		must(t, r.Close())
	})
}
