package batch_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/internal/batch"
)

// await returns the name of one function that has ended.
func await(t *testing.T, b *batch.Batch) string {
	t.Helper()
	name := <-b.Done()
	b.Finished(name)
	return name
}

// most is how many functions there is room for.
const most = 128

func nothing(bool) {}

func TestBatchRunsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := batch.New(most)
		defer b.Close()
		release := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		for name, c := range release {
			b.Start(t.Context(), name, func(context.Context) { <-c }, nothing)
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

// TestBatchContexts: each function has a context of its own, which ends with
// the one given, by Cancel, and on return.
func TestBatchContexts(t *testing.T) {
	b := batch.New(most)
	defer b.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	ends := make(chan string, 4)
	wait := func(name string) func(context.Context) {
		return func(ctx context.Context) {
			<-ctx.Done()
			ends <- fmt.Sprint(name, ": ", context.Cause(ctx))
		}
	}
	b.Start(ctx, "one", wait("one"), nothing)
	b.Start(ctx, "two", wait("two"), nothing)
	b.Cancel("not there", errors.New("no matter"))
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
	b.Start(t.Context(), "three", func(ctx context.Context) { kept = ctx }, nothing)
	await(t, b)
	if kept.Err() == nil {
		t.Error("a function returned, and its context lasts")
	}
}

// TestBatchUsesGoroutinesAgain: also after a function that ended its own.
func TestBatchUsesGoroutinesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := batch.New(most)
		defer b.Close()
		for i := range 20 {
			name := fmt.Sprint(i)
			b.Start(t.Context(), name, func(ctx context.Context) {
				if i%3 == 0 {
					runtime.Goexit()
				}
			}, nothing)
			if got := await(t, b); got != name {
				t.Fatalf("%s ended, not %s", got, name)
			}
		}
	})
}

// TestBatchManyAtOnce: functions end, whether or not the loop receives.
func TestBatchManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := batch.New(most)
		defer b.Close()
		for i := range most {
			b.Start(t.Context(), fmt.Sprint(i), func(context.Context) {}, nothing)
		}
		synctest.Wait()
		for range most {
			await(t, b)
		}
		if b.Len() != 0 {
			t.Errorf("%d functions run", b.Len())
		}
	})
}

// TestBatchRest: the rest of a function runs once: by the loop, if that waits
// for it, or else in the function's goroutine.
func TestBatchRest(t *testing.T) {
	for name, f := range map[string]func(context.Context){"returns": func(context.Context) {},
		"ends its goroutine": func(context.Context) { runtime.Goexit() }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := batch.New(most)
				defer b.Close()
				rests := 0
				var kept context.Context
				rest := func(bool) {
					rests++
					if kept.Err() != nil {
						t.Error("the context has ended before the rest")
					}
				}
				begin := make(chan struct{})
				b.Start(t.Context(), "the loop does not wait", func(ctx context.Context) {
					kept = ctx
					f(ctx)
				}, rest)
				synctest.Wait()
				if rests != 1 {
					t.Errorf("the rest ran %d times", rests)
				}
				await(t, b)

				b.Start(t.Context(), "the loop waits", func(ctx context.Context) {
					kept = ctx
					<-begin
					f(ctx)
				}, rest)
				go func() { synctest.Wait(); close(begin) }()
				select {
				case h := <-b.Handed():
					if name != "returns" || rests != 1 {
						t.Errorf("%s was handed over, and its rest ran %d times", h.Name, rests)
					}
					h.Rest()
					b.Finished(h.Name)
				case got := <-b.Done():
					if name == "returns" {
						t.Errorf("%s was not handed over", got)
					}
					b.Finished(got)
				}
				if rests != 2 || kept.Err() == nil || b.Len() != 0 {
					t.Errorf("the rest ran %d times, the context says %v, %d functions run",
						rests, kept.Err(), b.Len())
				}
			})
		})
	}
}
