package runner_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// The ring is bounded, however often it is rotated; and what was retired is not
// good any more.
func TestKeysRetire(t *testing.T) {
	var tokens []string
	cl := newClock()
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{tokenTool(tool.Idempotent, &tokens)},
		Model: messages(calls("job", `{}`), says("Done.")),
	}, &rigOptions{memory: true, session: &session.Options{Now: cl.now}})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	r.fillRing(511)
	must(t, r.RotateTokenKeys(t.Context(), user, nil))
	if _, err := r.ReadToken(t.Context(), tokens[0]); err != nil {
		t.Errorf("with a full ring: %v", err)
	}
	must(t, r.RotateTokenKeys(t.Context(), user, nil))
	ring, err := r.store.TokenKeys(t.Context())
	must(t, err)
	if len(ring) != 512 || ring[511].ID != 513 {
		t.Errorf("the ring has %d keys, the last of which is %v", len(ring), ring[len(ring)-1])
	}
	if _, err := r.ReadToken(t.Context(), tokens[0]); !errors.Is(err, runner.ErrBadToken) {
		t.Errorf("of a key that is retired: %v", err)
	}
	minted := r.mint(runner.Grant{Session: chat, Pause: p.ID,
		Permits: []tool.Permit{tool.PermitComplete}})

	// By itself a key retires when every token that it signed has expired.
	cl.pass(366 * 24 * time.Hour)
	must(t, r.RotateTokenKeys(t.Context(), user, nil))
	if ring, err = r.store.TokenKeys(t.Context()); err != nil || len(ring) != 2 {
		t.Errorf("after a year the ring has %v, %v", ring, err)
	}
	r.restart() // a new process reads the ring
	if _, err := r.ReadToken(t.Context(), minted); !errors.Is(err, runner.ErrTokenExpired) {
		t.Errorf("after a year: %v", err)
	}

	// After a leak all go at once.
	must(t, r.RotateTokenKeys(t.Context(), user, &runner.RotateOptions{Retire: cl.now()}))
	if _, err := r.ReadToken(t.Context(), minted); !errors.Is(err, runner.ErrBadToken) {
		t.Errorf("after all were retired: %v", err)
	}
	if ring, err = r.store.TokenKeys(t.Context()); err != nil || len(ring) != 1 {
		t.Errorf("after all were retired the ring has %v, %v", ring, err)
	}
	if shown := fmt.Sprintf("%v %+v %#v", ring, ring, ring[0]); strings.Contains(shown,
		fmt.Sprint(ring[0].Secret[:8])) {
		t.Errorf("a key that is printed shows its secret: %s", shown)
	}
}

// After a leak all keys but the new one go, whatever time "now" was: also the
// one that signed until now, which the new one replaces a moment later.
func TestRetireNow(t *testing.T) {
	cl := newClock()
	var n counter
	var slow time.Duration // of the Authorizer, which asks others
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"j"}`), says("I see.")),
	}, &rigOptions{memory: true, session: &session.Options{Now: cl.now}, runner: &runner.Options{
		Authorizer: func(context.Context, runner.Operation) error { cl.pass(slow); return nil },
	}})
	job := r.say("Go.").finished(event.FinishPaused).pause("job").ID
	for name, test := range map[string]struct {
		ago, slow time.Duration
		retired   bool
	}{
		"now":                         {0, 0, true},
		"now, by a slow Authorizer":   {0, 10 * time.Minute, true},
		"just now":                    {10 * time.Second, 3 * time.Millisecond, true},
		"later, to be sure":           {-time.Hour, 0, true},
		"a time before the key's end": {2 * time.Minute, 0, false},
	} {
		slow = 0
		leaked := r.mint(runner.Grant{Session: chat, Pause: job,
			Permits: []tool.Permit{tool.PermitComplete}})
		slow = test.slow
		must(t, r.RotateTokenKeys(t.Context(), user,
			&runner.RotateOptions{Retire: cl.now().Add(-test.ago)}))
		if _, err := r.ReadToken(t.Context(), leaked); errors.Is(err, runner.ErrBadToken) != test.retired {
			t.Errorf("%s: the leaked key's token gives %v", name, err)
		}
		cl.pass(5 * time.Minute)
	}
}

// lateRing is an engine on which reads and writes of the ring are done at once,
// and told late.
type lateRing struct {
	kvstore.Exclusive
	// one that finds a channel here says on it that it is done, and waits there
	// to be let go
	get, apply chan chan struct{}
}

func (l *lateRing) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	e, err := l.Exclusive.Get(ctx, key)
	if bytes.Equal(key, ringKey) {
		held(l.get)
	}
	return e, err
}

func (l *lateRing) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	rev, err := l.Exclusive.Apply(ctx, b)
	if len(b.Puts) == 1 && bytes.Equal(b.Puts[0].Key, ringKey) {
		held(l.apply)
	}
	return rev, err
}

func newLateRing(kv kvstore.Store) *lateRing {
	return &lateRing{kv.(kvstore.Exclusive), make(chan chan struct{}, 1),
		make(chan chan struct{}, 1)}
}

func held(by chan chan struct{}) {
	select {
	case c := <-by:
		c <- struct{}{}
		<-c
	default:
	}
}

// A look at the ring, or a rotation, that another rotation overtakes brings no
// key back that was retired.
func TestRotationThatOvertakesAnother(t *testing.T) {
	for name, overtaken := range map[string]func(*rig, *lateRing) (chan chan struct{}, func()){
		"a look at the ring": func(r *rig, late *lateRing) (chan chan struct{}, func()) {
			return late.get, func() {
				_, _ = r.ReadToken(context.Background(), sealed(r.t, `{"k":99}`))
			}
		},
		"a rotation": func(r *rig, late *lateRing) (chan chan struct{}, func()) {
			return late.apply, func() {
				must(r.t, r.RotateTokenKeys(context.Background(), user, nil))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				var late *lateRing
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{waiting("job", tool.Once, &n)},
					Model: messages(calls("job", `{"text":"j"}`), says("I see.")),
				}, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
					late = newLateRing(kv)
					return late
				}})
				job := r.say("Go.").finished(event.FinishPaused).pause("job").ID
				leaked := r.mint(runner.Grant{Session: chat, Pause: job,
					Permits: []tool.Permit{tool.PermitComplete}})
				time.Sleep(2 * time.Second) // in the bubble: the ring may be read again

				held := make(chan struct{})
				by, do := overtaken(r, late)
				by <- held
				over := make(chan struct{})
				go func() { defer close(over); do() }()
				<-held // it has seen the old ring
				must(t, r.RotateTokenKeys(t.Context(), user,
					&runner.RotateOptions{Retire: time.Now()}))
				held <- struct{}{}
				<-over
				if _, err := r.ReadToken(t.Context(), leaked); !errors.Is(err, runner.ErrBadToken) {
					t.Errorf("the token of a key that was retired: %v", err)
				}
				fresh := r.mint(runner.Grant{Session: chat, Pause: job,
					Permits: []tool.Permit{tool.PermitComplete}})
				_, err := r.another().ReadToken(t.Context(), fresh)
				must(t, err)
			})
		})
	}
}

// fillRing is what many rotations leave: so many keys.
func (r *rig) fillRing(n int) {
	r.t.Helper()
	keys, err := r.store.TokenKeys(r.t.Context())
	must(r.t, err)
	for len(keys) < n {
		next := keys[0]
		next.ID, next.Secret = len(keys)+1, bytes.Repeat([]byte{byte(len(keys))}, 32)
		keys = append(keys, next)
	}
	value, err := json.Marshal(map[string]any{"v": 1, "keys": keys})
	must(r.t, err)
	_, err = r.kv.Apply(r.t.Context(), kvstore.Batch{
		Puts: []kvstore.Put{{Key: ringKey, Value: value}},
	})
	must(r.t, err)
}

// mint makes a token for an open pause.
func (r *rig) mint(g runner.Grant) string {
	r.t.Helper()
	token, err := r.MintToken(r.t.Context(), g, "site")
	must(r.t, err)
	return token
}

// ringReads counts how often the ring is read from the store, which may fail.
type ringReads struct {
	n      atomic.Int32
	broken atomic.Bool
}

func (r *ringReads) wrap(kv kvstore.Store) kvstore.Store {
	h := &hooked{get: func(key []byte) error {
		if bytes.Equal(key, ringKey) {
			r.n.Add(1)
			if r.broken.Load() {
				return errAway
			}
		}
		return nil
	}}
	return h.exclusive(kv)
}

// Neither turns nor tokens cost a read of the ring; numbers that no ring has
// cost one a second, however many come; and a key that another process has made
// is found, at the first try or the next.
func TestUnknownKeysAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tokens []string
		reads := new(ringReads)
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{tokenTool(tool.Idempotent, &tokens)},
			Model: messages(calls("job", `{}`), calls("job", `{}`), says("Done.")),
		}, &rigOptions{memory: true, wrap: reads.wrap})
		p := r.say("Go.").finished(event.FinishPaused).pause("job")
		begun := reads.n.Load()
		for range 100 {
			_, err := r.ReadToken(t.Context(), tokens[0])
			must(t, err)
		}
		r.answer(runner.Complete(p.ID, "ci", text("v"))).finished(event.FinishPaused)
		if n := reads.n.Load() - begun; n != 0 {
			t.Errorf("a turn and a hundred tokens read the ring %d times", n)
		}
		other := r.another()
		must(t, other.RotateTokenKeys(t.Context(), user, nil))
		theirs, err := other.MintToken(t.Context(), runner.Grant{
			Session: chat, Pause: r.transcript().Pending[0].ID,
			Permits: []tool.Permit{tool.PermitComplete}}, user)
		must(t, err)

		time.Sleep(2 * time.Second) // in the bubble
		begun = reads.n.Load()
		forged := make([]string, 50)
		for i := range forged {
			forged[i] = sealed(t,
				fmt.Sprintf(`{"k":%d,"s":"chat-1","c":"c","p":1,"o":["complete"],"e":9999999999}`,
					100+i))
			if _, err := r.ReadToken(t.Context(), forged[i]); !errors.Is(err, runner.ErrBadToken) &&
				!errors.Is(err, session.ErrNotYetKnown) {
				t.Errorf("a token of an unknown key: %v", err)
			}
		}
		for _, k := range []int{-1, 0} {
			if _, err := r.ReadToken(t.Context(),
				sealed(t, fmt.Sprintf(`{"k":%d}`, k))); !errors.Is(err, runner.ErrBadToken) {
				t.Errorf("a token of key %d: %v", k, err)
			}
		}
		if n := reads.n.Load() - begun; n != 1 {
			t.Errorf("50 unknown numbers read the ring %d times", n)
		}
		_, err = r.ReadToken(t.Context(), theirs)
		must(t, err)
	})
}

// Many tokens come at once while the ring can't be read. Each caller is told
// that, and none that its token is bad. When the ring can be read again, all
// are served.
func TestRingThatCannotBeReadForAWhile(t *testing.T) {
	var tokens []string
	reads := new(ringReads)
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{tokenTool(tool.Idempotent, &tokens)},
		Model: messages(calls("job", `{}`), says("Done.")),
	}, &rigOptions{memory: true, wrap: reads.wrap})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	r.restart()
	reads.broken.Store(true)
	all := func(want error) {
		t.Helper()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := r.ReadToken(t.Context(), tokens[0])
				if i%2 == 0 && want != nil {
					_, err = r.MintToken(t.Context(), runner.Grant{Session: chat, Pause: p.ID,
						Permits: []tool.Permit{tool.PermitFail}}, user)
				}
				if (err == nil) != (want == nil) || errors.Is(err, runner.ErrBadToken) {
					t.Errorf("it is judged, with %v", err)
				}
			})
		}
		wg.Wait()
	}
	all(errAway)
	reads.broken.Store(false)
	_, err := r.MintToken(t.Context(), runner.Grant{Session: chat, Pause: p.ID,
		Permits: []tool.Permit{tool.PermitFail}}, user)
	must(t, err) // a new token doesn't wait for the next second
	before := reads.n.Load()
	all(nil)
	if n := reads.n.Load() - before; n != 0 {
		t.Errorf("the ring was read %d times", n)
	}
}

var errAway = errors.New("the disk is away")

// sealed is claims with a signature that no key has made.
func sealed(t *testing.T, claims string) string {
	t.Helper()
	return "f2." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "." +
		base64.RawURLEncoding.EncodeToString(make([]byte, 32))
}
