package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// Handles are archived beside what else is due: an archive that hangs holds up no
// deadline, and is told to end. What it has failed for is given to it again.
func TestAnArchiveHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		var ended, archived atomic.Int32
		hangs.Store(true)
		r := wideRig(t, tool.StoreScope, &runner.Options{
			Logger: slog.New(slog.DiscardHandler), Waits: runner.WaitRetention{
				Ended: time.Hour,
				Archive: func(ctx context.Context, name runner.WaitName, _ tool.Wait) error {
					if hangs.Load() {
						<-ctx.Done()
						ended.Add(1)
						return errors.New("too slow")
					}
					archived.Add(1)
					return nil
				}}})
		const old = 10
		r.endedWaits(old)
		_, err := r.CreateWait(t.Context(), ofStore("t"),
			runner.NewWait{Type: tool.TimerWait, Timeout: 10 * time.Second}, "ops")
		must(t, err)
		var at time.Time
		begun := time.Now()
		r.working()
		for c, err := range r.FollowWaits(t.Context(), ofStore(""), "", "ops") {
			must(t, err)
			if c.ID == "t" && c.Kind == "ended" {
				at = time.Now()
				break
			}
		}
		if at.Sub(begun) > 30*time.Second || ended.Load() > 0 {
			t.Errorf("the timer was over after %v, and %d archivals", at.Sub(begun), ended.Load())
		}
		time.Sleep(5 * time.Minute)
		if n := ended.Load(); n < old {
			t.Errorf("%d archivals were told to end", n)
		}
		hangs.Store(false)
		time.Sleep(10 * time.Minute)
		p, err := r.Waits(t.Context(), ofStore(""), runner.WaitFilter{}, "ops")
		must(t, err)
		if n := archived.Load(); n != old || len(p.Waits) != 1 {
			t.Errorf("%d are archived, and there are %d", n, len(p.Waits))
		}
		must(t, r.Close())
	})
}

// A backlog is archived to its end without waiting for the worker's poll, and
// beside a handle whose archival hangs.
func TestABacklogIsArchivedInOneGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var archived atomic.Int32
		r := wideRig(t, tool.StoreScope, &runner.Options{
			Logger: slog.New(slog.DiscardHandler), Waits: runner.WaitRetention{
				Ended: time.Hour,
				Archive: func(ctx context.Context, name runner.WaitName, _ tool.Wait) error {
					if name.ID == "old-0" {
						<-ctx.Done()
						return errors.New("too slow")
					}
					archived.Add(1)
					return nil
				}}})
		old := testlength.Part(2, 1000)
		r.endedWaits(old)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Work(ctx, &runner.WorkOptions{Poll: time.Hour}) }()
		time.Sleep(30 * time.Second)
		if n := archived.Load(); int(n) != old-1 {
			t.Errorf("%d are archived", n)
		}
		cancel()
		<-done
		must(t, r.Close())
	})
}

// endedWaits ends so many wait handles of the store, and waits until they are to
// be archived.
func (r *rig) endedWaits(n int) {
	r.t.Helper()
	for i := range n {
		id := ofStore(fmt.Sprintf("old-%d", i))
		must2(r.CreateWait(r.t.Context(), id, runner.NewWait{}, "ops"))
		must2(r.CompleteWait(r.t.Context(), id, runner.WaitEnd{Error: "over"}, "ops"))
	}
	time.Sleep(61 * time.Minute)
}
