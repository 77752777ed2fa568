package session_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
)

// cutting is an engine that, once told to, ends the goroutine of its next call,
// before or after that is done.
type cutting struct {
	*kvstore.Memory
	end   func()
	after bool
}

func (c *cutting) call(do func()) {
	end, after := c.end, c.after
	c.end = nil
	if end != nil && !after {
		end()
	}
	do()
	if end != nil {
		end()
	}
}

func (c *cutting) Apply(ctx context.Context, b kvstore.Batch) (rev kvstore.Revision, err error) {
	c.call(func() { rev, err = c.Memory.Apply(ctx, b) })
	return rev, err
}

func (c *cutting) Get(ctx context.Context, key []byte) (e kvstore.Entry, err error) {
	c.call(func() { e, err = c.Memory.Get(ctx, key) })
	return e, err
}

// stays reports whether f returned, rather than panicked or ended its
// goroutine.
func stays(f func()) (returned bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }()
		f()
		returned = true
	}()
	<-ended
	return returned
}

// TestEngineThatEndsItsCaller: an engine that panics, or ends the goroutine
// that called it, keeps no other caller out of the drive or the session, and
// what it was given counts once, or not at all.
func TestEngineThatEndsItsCaller(t *testing.T) {
	say := func(tx *session.Tx) error {
		return tx.Say(entry(t, llm.UserText("Go.")), "", "", false)
	}
	stop := func(tx *session.Tx) error { tx.Stop(event.FinishFailed, ""); return nil }
	for how, end := range map[string]func(){"panics": func() { panic("the disk is gone") },
		"ends it": runtime.Goexit} {
		for _, hop := range []bool{false, true} {
			for _, after := range []bool{false, true} {
				each := func(name string, f func(t *testing.T, s *session.Store, d *session.Lease, cut func(f func()))) {
					t.Run(fmt.Sprintf("%s, hop %v, after %v, %s", how, hop, after, name),
						func(t *testing.T) {
							kv := &cutting{Memory: kvstore.NewMemory(), after: after}
							var engine kvstore.Store = kv
							if hop {
								engine = struct{ kvstore.Exclusive }{kv} // not Immediate
							}
							s := session.NewStore(engine, nil)
							d, err := s.Acquire(t.Context(), "s", &session.New{User: "ada"})
							must(t, err)
							must(t, d.Update(t.Context(), func(tx *session.Tx) error {
								tx.Due = true
								return stop(tx)
							}))
							f(t, s, d, func(f func()) {
								t.Helper()
								kv.end = end
								if stays(f) || kv.end != nil {
									t.Fatal("the engine was not called, or has returned")
								}
							})
						})
				}
				count := func(t *testing.T, s *session.Store, want int) {
					t.Helper()
					st, err := s.Load(t.Context(), "s")
					must(t, err)
					if st.Messages != want {
						t.Errorf("%d messages are stored, not %d", st.Messages, want)
					}
				}
				landed := map[bool]int{true: 1}[after]
				each("a commit",
					func(t *testing.T, s *session.Store, d *session.Lease, cut func(f func())) {
						cut(func() { _ = d.Update(context.Background(), say) })
						must(t, d.Update(t.Context(), stop))
						count(t, s, landed)
						if err := d.AwaitCommits(t.Context()); err == nil {
							t.Error("no word of what became of it")
						}
						must(t, d.GiveUp(t.Context()))
					})
				each("a commit of what rides",
					func(t *testing.T, s *session.Store, d *session.Lease, cut func(f func())) {
						must(t, d.Ride(t.Context(), say))
						cut(func() { _ = d.Update(context.Background(), stop) })
						must(t, d.Update(t.Context(), stop))
						count(t, s, 1)
						must(t, d.GiveUp(t.Context()))
					})
				each("a look",
					func(t *testing.T, s *session.Store, d *session.Lease, cut func(f func())) {
						cut(func() { _, _ = d.Record(context.Background(), "c") })
						if _, err := d.Record(t.Context(), "c"); !errors.Is(err,
							session.ErrUnknownCall) {
							t.Errorf("the next look: %v", err)
						}
						must(t, d.Update(t.Context(), say))
						count(t, s, 1)
						must(t, d.GiveUp(t.Context()))
					})
				each("the last commit",
					func(t *testing.T, s *session.Store, d *session.Lease, cut func(f func())) {
						cut(func() { _ = d.GiveUp(context.Background(), say) })
						other, err := s.Acquire(t.Context(), "s", nil)
						must(t, err)
						must(t, other.Update(t.Context(), stop))
						count(t, s, landed)
						must(t, other.GiveUp(t.Context()))
					})
				each("taking the session",
					func(t *testing.T, s *session.Store, d *session.Lease, cut func(f func())) {
						must(t, d.GiveUp(t.Context()))
						cut(func() { _, _ = s.Acquire(context.Background(), "s", nil) })
						other, err := s.Acquire(t.Context(), "s", nil)
						must(t, err)
						must(t, other.GiveUp(t.Context()))
					})
			}
		}
	}
}
