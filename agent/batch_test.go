package agent_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/agent"
)

// await hears of one function that ended.
func await(t *testing.T, b *agent.Batch) string {
	t.Helper()
	name := <-b.Done()
	b.Finished(name)
	return name
}

func TestBatchRunsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := agent.NewBatch()
		defer b.Close()
		release := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		for name, c := range release {
			b.Start(t.Context(), name, func(context.Context) { <-c })
		}
		synctest.Wait()
		if b.Len() != 2 || !b.Running("a") || !b.Running("b") || b.Running("c") {
			t.Fatalf("%d functions run", b.Len())
		}
		for i, name := range []string{"b", "a"} {
			close(release[name])
			if got := await(t, b); got != name || b.Running(name) || b.Len() != 1-i {
				t.Errorf("%q ended, %d are left; want %q, %d", got, b.Len(), name, 1-i)
			}
		}
	})
}

// TestBatchContexts: each function has a context of its own, which ends with the one given, by Cancel, and on return.
func TestBatchContexts(t *testing.T) {
	b := agent.NewBatch()
	defer b.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	ends := make(chan string, 4)
	wait := func(name string) func(context.Context) {
		return func(ctx context.Context) {
			<-ctx.Done()
			ends <- fmt.Sprint(name, ": ", context.Cause(ctx))
		}
	}
	b.Start(ctx, "one", wait("one"))
	b.Start(ctx, "two", wait("two"))
	b.Cancel("nobody", errors.New("no matter"))
	b.Cancel("one", errors.New("enough"))
	b.Cancel("one", errors.New("a second time"))
	if name, got := await(t, b), <-ends; name != "one" || got != "one: enough" {
		t.Errorf("%s ended, %s", name, got)
	}
	cancel(errors.New("all is over"))
	if name, got := await(t, b), <-ends; name != "two" || got != "two: all is over" {
		t.Errorf("%s ended, %s", name, got)
	}
	var kept context.Context
	b.Start(t.Context(), "three", func(ctx context.Context) { kept = ctx })
	await(t, b)
	if kept.Err() == nil {
		t.Error("a function returned, and its context lasts")
	}
}

// TestBatchUsesGoroutinesAgain: also after a function that ended its own.
func TestBatchUsesGoroutinesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := agent.NewBatch()
		defer b.Close()
		for i := range 20 {
			name := fmt.Sprint(i)
			b.Start(t.Context(), name, func(ctx context.Context) {
				if i%3 == 0 {
					runtime.Goexit()
				}
			})
			if got := await(t, b); got != name {
				t.Fatalf("%s ended, not %s", got, name)
			}
		}
	})
}

// TestBatchManyAtOnce: functions end, whether or not anybody listens.
func TestBatchManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := agent.NewBatch()
		defer b.Close()
		for i := range 2 * agent.MaxCalls {
			b.Start(t.Context(), fmt.Sprint(i), func(context.Context) {})
		}
		synctest.Wait()
		for range 2 * agent.MaxCalls {
			await(t, b)
		}
		if b.Len() != 0 {
			t.Errorf("%d functions run", b.Len())
		}
	})
}
