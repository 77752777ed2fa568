package runner_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
)

// followers follow a session, and stay, until they are told to leave.
func followers(t *testing.T, rn *runner.Runner, n int, session func(int) string) (leave func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for range rn.Follow(ctx, session(i), user, &runner.FollowOptions{Stay: true}) {
			}
		})
	}
	synctest.Wait()
	return func() { cancel(); all.Wait() }
}

// TestIdleFollowersCostNothing: where one process has the engine, three hundred
// followers of as many sessions read nothing. Where several share it,
// they look 200 times a second, all together, and each is still told within
// seconds of what another process does.
func TestIdleFollowersCostNothing(t *testing.T) {
	t.Parallel()
	const n = 300
	id := func(i int) string { return fmt.Sprint("chat-", i) }
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reads atomic.Int64
				h := &hooked{
					got:     func([]byte) { reads.Add(1) },
					scanned: func(kvstore.Range) { reads.Add(1) },
				}
				around := h.exclusive
				if wrap != nil {
					around = h.shared
				}
				r := newRig(t, agent.Config{Model: fakellm.Echo()},
					&rigOptions{memory: true, wrap: around})
				for i := range n {
					for range r.Run(t.Context(), user, id(i), llm.UserText("Hi."), nil) {
					}
				}
				leave := followers(t, r.Runner, n, id)
				time.Sleep(20 * time.Second) // since the last one did something
				reads.Store(0)
				time.Sleep(20 * time.Second)
				each := float64(reads.Load()) / 20
				if most := map[string]float64{"exclusive": 0, "shared": 200}[name]; each > 1.01*most {
					t.Errorf("they read %.1f times a second, at most %.1f are expected", each, most)
				}
				leave()
				if name == "shared" {
					other := r.another()
					f := follows(t, other.Follow(t.Context(), id(7), user,
						&runner.FollowOptions{From: 2, Stay: true}))
					f.sees("end stop")
					leave := followers(t, other, n, id)
					time.Sleep(20 * time.Second)
					for range r.Run(t.Context(), user, id(7), llm.UserText("Hi."), nil) {
					}
					at := time.Now()
					f.sees("message 2 user", "message 3 assistant", "end stop")
					if took := time.Since(at); took > 6*time.Second {
						t.Errorf("it took %v", took)
					}
					leave()
					other.Close()
				}
				r.Close()
			})
		})
	}
}

// TestFollowersShareALook: what is committed is read once, however many follow.
func TestFollowersShareALook(t *testing.T) {
	reads := func(n int) (reads int64) {
		synctest.Test(t, func(t *testing.T) {
			var count atomic.Int64
			h := &hooked{
				got:     func([]byte) { count.Add(1) },
				scanned: func(kvstore.Range) { count.Add(1) },
			}
			r := newRig(t, agent.Config{Model: fakellm.Echo()},
				&rigOptions{memory: true, wrap: h.exclusive})
			for range r.Run(t.Context(), user, chat, llm.UserText("Hi."), nil) {
			}
			leave := followers(t, r.Runner, n, func(int) string { return chat })
			count.Store(0)
			for range 10 {
				for range r.Run(t.Context(), user, chat, llm.UserText("Hi."), nil) {
					synctest.Wait()
				}
				synctest.Wait()
			}
			reads = count.Load()
			leave()
			r.Close()
		})
		return reads
	}
	// A follower that is a view behind the others reads for itself.
	if one, many := reads(1), reads(100); many > 2*one {
		t.Errorf("for one follower there are %d reads, and for 100 there are %d", one, many)
	}
}
