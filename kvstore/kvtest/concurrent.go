package kvtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fermata-ai/fermata/kvstore"
)

// counter has many raise one number, each by compare-and-set, and misses none.
func counter(t *testing.T, c Config) {
	s := open(t, c)
	const writers, raises = 8, 20
	raise := func(ctx context.Context) error {
		e, err := s.kv.Get(ctx, []byte("n"))
		if err != nil && !errors.Is(err, kvstore.ErrNotFound) {
			return err
		}
		n := 0
		fmt.Sscan(string(e.Value), &n)
		_, err = s.kv.Apply(ctx, kvstore.Batch{
			Preconditions: []kvstore.Precondition{at("n", e.Revision)},
			Puts:          []kvstore.Put{put("n", fmt.Sprint(n+1))},
		})
		return err
	}
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range raises {
				if err := retry(t.Context(), raise); err != nil {
					t.Errorf("raise: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	if e, err := s.kv.Get(t.Context(), []byte("n")); err != nil ||
		string(e.Value) != fmt.Sprint(writers*raises) {
		t.Errorf("after %d raises: %q, %v", writers*raises, e.Value, err)
	}
}

// endedContext makes sure that a call with a context that has ended does
// nothing.
func endedContext(t *testing.T, c Config) {
	s := open(t, c)
	r := s.put("a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.kv.Get(ctx, []byte("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v", err)
	}
	if _, err := s.kv.Scan(ctx, kvstore.Range{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Scan: %v", err)
	}
	_, err := s.kv.Apply(ctx, kvstore.Batch{Puts: []kvstore.Put{put("a", "2")}})
	if !errors.Is(err, context.Canceled) || errors.Is(err, kvstore.ErrUncertain) {
		t.Errorf("Apply: %v", err)
	}
	s.has("a", "1", r)
}

// fates is what became of many writes, each of a key of its own.
type fates struct {
	mu                    sync.Mutex
	done, never, perhaps  []string
	acknowledged, refused atomic.Int64
}

func (f *fates) note(key string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.done = append(f.done, key)
		f.acknowledged.Add(1)
	case errors.Is(err, kvstore.ErrUncertain):
		f.perhaps = append(f.perhaps, key)
	default:
		f.never = append(f.never, key)
		f.refused.Add(1)
	}
}

// check compares with what is there.
func (f *fates) check(s store) {
	s.t.Helper()
	there := map[string]bool{}
	for _, k := range s.keys(kvstore.Range{}) {
		there[k] = true
	}
	for _, k := range f.done {
		if !there[k] {
			s.t.Errorf("%s was acknowledged, and isn't there", k)
		}
	}
	for _, k := range f.never {
		if there[k] {
			s.t.Errorf("%s was certainly not applied, and is there", k)
		}
	}
	s.t.Logf("%d acknowledged, %d uncertain, %d refused", len(f.done), len(f.perhaps), len(f.never))
}

// cancelledAmidOthers cancels writes at all kinds of moments, and takes each
// answer at its word.
func cancelledAmidOthers(t *testing.T, c Config) {
	s := open(t, c)
	var f fates
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for i := range 25 {
				ctx, cancel := context.WithCancel(t.Context())
				moments := r.IntN(60)
				all.Go(func() {
					for range moments {
						runtime.Gosched()
					}
					cancel()
				})
				key := fmt.Sprintf("w%d-%d", w, i)
				_, err := s.kv.Apply(ctx, kvstore.Batch{Puts: []kvstore.Put{put(key, "v")}})
				if err != nil && !errors.Is(err, context.Canceled) &&
					!errors.Is(err, kvstore.ErrUncertain) {
					t.Errorf("Apply: %v", err)
				}
				f.note(key, err)
			}
		})
	}
	all.Wait()
	s.put("the end", "") // whatever was on its way has come through, or never will
	f.done = append(f.done, "the end")
	f.check(s)
}

func closing(t *testing.T, c Config) {
	s := open(t, c)
	s.put("a", "1")
	for i := range 2 {
		if err := s.kv.Close(); err != nil {
			t.Errorf("Close %d: %v", i+1, err)
		}
	}
	if _, err := s.kv.Get(t.Context(), []byte("a")); !errors.Is(err, kvstore.ErrClosed) {
		t.Errorf("Get: %v", err)
	}
	if _, err := s.kv.Scan(t.Context(), kvstore.Range{}); !errors.Is(err, kvstore.ErrClosed) {
		t.Errorf("Scan: %v", err)
	}
	s.refused(kvstore.ErrClosed, kvstore.Batch{Puts: []kvstore.Put{put("a", "2")}})
	s.refused(kvstore.ErrClosed, kvstore.Batch{})
}

// closeAmidWrites closes under writers and readers: all are answered, and what
// was acknowledged is kept.
func closeAmidWrites(t *testing.T, c Config) {
	s := open(t, c)
	var f fates
	var all sync.WaitGroup
	enough := make(chan struct{}, 1)
	var closed atomic.Bool // Close has returned
	for w := range 8 {
		all.Go(func() {
			for i := 0; ; i++ {
				key, late := fmt.Sprintf("w%d-%d", w, i), closed.Load()
				_, err := s.kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{put(key, "v")}})
				f.note(key, err)
				if f.acknowledged.Load() >= 100 {
					select {
					case enough <- struct{}{}:
					default:
					}
				}
				if err != nil || late {
					if !errors.Is(err, kvstore.ErrClosed) {
						t.Errorf("Apply: %v", err)
					}
					return
				}
			}
		})
		all.Go(func() {
			for {
				late := closed.Load()
				if _, err := s.kv.Scan(t.Context(), kvstore.Range{}); err != nil || late {
					if !errors.Is(err, kvstore.ErrClosed) {
						t.Errorf("Scan: %v", err)
					}
					return
				}
			}
		})
	}
	<-enough
	for range 2 {
		all.Go(func() {
			if err := s.kv.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			closed.Store(true)
		})
	}
	all.Wait()
	if c.Reopen != nil {
		again := store{t, c.Reopen(t, s.kv)}
		defer again.kv.Close()
		f.check(again)
	}
}
