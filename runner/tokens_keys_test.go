package runner_test

import (
	"bytes"
	"context"
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
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

var ringKey = kvstore.Key("x", "token-keys")

// Whatever its tool declares, a call's token is good: in a layer, in a prompt,
// in a body that only reports how far it is.
func TestEveryCallHasATokenThatIsGood(t *testing.T) {
	var tokens []string
	note := func(c tool.Call) { tokens = append(tokens, c.Token()) }
	act := tool.Must(tool.Func(tool.Spec{Name: "act", Description: "a"}, func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
		note(tool.CallFrom(ctx))
		return tool.Done(textOut(in)), nil
	}))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{act}, Concurrency: 1,
		Interceptors: interceptor.Chain{
			{Name: "layer", Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
				return func(ctx context.Context, c tool.Call) (tool.Execution, error) { note(c); return next(ctx, c) }
			}},
			interceptor.Approval(&interceptor.ApprovalOptions{Prompt: func(c tool.Call) string { note(c); return "Run it?" }}),
		},
		Model: messages(calls("act", `{"text":"a"}`), says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("act")
	r.answer(runner.Approve(p.ID, "grace", "")).finished(event.FinishStop)
	if len(tokens) != 4 { // the layer and the prompt; the layer again, and the body
		t.Fatalf("%d tokens were made", len(tokens))
	}
	for i, token := range tokens {
		tok, err := r.ReadToken(t.Context(), token)
		must(t, err)
		if want := 1 + i/2; tok.Call != p.Call || tok.Pause != want {
			t.Errorf("token %d is for pause %d of %s, not %d", i, tok.Pause, tok.Call, want)
		}
	}
}

// A head of before there were keys for every turn notes none; its calls get the
// oldest that isn't retired.
func TestHeadWithoutAKeyGetsTheOldest(t *testing.T) {
	var tokens []string
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{tokenTool(tool.Idempotent, &tokens)},
		Interceptors: interceptor.Chain{interceptor.Approval(nil)},
		Model:        messages(calls("job", `{}`), says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	must(t, r.store.Update(t.Context(), chat, func(tx *session.Tx) error {
		tx.TokenKey = 0
		return tx.Extend(p.ID, time.Time{})
	}))
	for range 3 {
		must(t, r.RotateTokenKeys(t.Context(), user, nil))
	}
	ring, err := r.store.RotateTokenKeys(t.Context(), r.store.Now().Add(time.Hour)) // all but the newest go
	must(t, err)
	r.restart()
	r.answer(runner.Approve(p.ID, "grace", "")).finished(event.FinishPaused)
	tok, err := r.ReadToken(t.Context(), tokens[0])
	if err != nil || len(ring) != 1 || tok.Key != ring[0].ID {
		t.Errorf("the token is %+v, with %v; the ring has %v", tok, err, ring)
	}
}

// A key that retires while a body runs signs no more.
func TestKeyRetiresWhileABodyRuns(t *testing.T) {
	var r *rig
	var tokens []string
	act := tool.Must(tool.Func(tool.Spec{Name: "act", Description: "a"}, func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
		c := tool.CallFrom(ctx)
		tokens = append(tokens, c.Token())
		must(t, r.RotateTokenKeys(ctx, user, &runner.RotateOptions{Retire: time.Now().Add(time.Hour)}))
		tokens = append(tokens, c.Token())
		return tool.Done(textOut(in)), nil
	}))
	r = newRig(t, agent.Config{Tools: []tool.Tool{act}, Model: messages(calls("act", `{"text":"a"}`), says("Done."))}, nil)
	r.say("Go.").finished(event.FinishStop)
	for i, want := range []error{runner.ErrBadToken, nil} {
		if _, err := r.ReadToken(t.Context(), tokens[i]); !errors.Is(err, want) {
			t.Errorf("token %d: %v", i, err)
		}
	}
}

// Where no key can be had, no code of others runs: neither layers nor the body.
// What the model said is kept, and goes on when there is a key again.
func TestNoKeyNoCall(t *testing.T) {
	var entered atomic.Int32
	act := tool.Must(tool.Func(tool.Spec{Name: "act", Description: "a"}, func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
		entered.Add(1)
		if tool.CallFrom(ctx).Token() == "" {
			t.Error("a body has no token")
		}
		return tool.Done(textOut(in)), nil
	}))
	asked := 0
	script := messages(calls("act", `{"text":"a"}`), says("Done."))
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{act}, Model: modelFunc(func(in llm.Request) []llm.Event { asked++; return script(in) }),
		Interceptors: interceptor.Chain{{Name: "layer", Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, c tool.Call) (tool.Execution, error) { entered.Add(1); return next(ctx, c) }
		}}},
	}, nil)
	for _, ring := range []string{`{"v":1,"keys":[{"id":1,"secret":"","created":"2026-01-01T00:00:00Z"}]}`, `{"v":1,"keys":[{"id":1,"secret":"AAAA"}]}`} {
		_, err := r.kv.Apply(t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: ringKey, Value: []byte(ring)}}})
		must(t, err)
		if s := r.say("Go."); !errors.Is(s.err, session.ErrCorrupt) {
			t.Errorf("the run ended with %v", s.err)
		}
	}
	if entered.Load() > 0 || asked != 1 {
		t.Errorf("%d times code of others was entered, and the model was asked %d times", entered.Load(), asked)
	}
	_, err := r.kv.Apply(t.Context(), kvstore.Batch{Deletes: [][]byte{ringKey}})
	must(t, err)
	r.carryOn().finished(event.FinishStop)
	if entered.Load() != 2 {
		t.Errorf("code of others was entered %d times", entered.Load())
	}
}

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
	minted := r.mint(runner.Grant{Session: chat, Pause: p.ID, Permits: []tool.Permit{tool.PermitComplete}})

	// By itself a key retires when every token that it signed has expired.
	cl.pass(366 * 24 * time.Hour)
	must(t, r.RotateTokenKeys(t.Context(), user, nil))
	if ring, err = r.store.TokenKeys(t.Context()); err != nil || len(ring) != 2 {
		t.Errorf("after a year the ring has %v, %v", ring, err)
	}
	r.restart() // the ring is read by who begins anew
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
	if shown := fmt.Sprintf("%v %+v %#v", ring, ring, ring[0]); strings.Contains(shown, fmt.Sprint(ring[0].Secret[:8])) {
		t.Errorf("a key that is printed shows its secret: %s", shown)
	}
}

// After a leak all keys but the new one go, whenever "now" was: also the one
// that signed until now, which the new one replaces a moment later.
func TestRetireNow(t *testing.T) {
	cl := newClock()
	var n counter
	var slow time.Duration // of the Authorizer, who asks others
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
		leaked := r.mint(runner.Grant{Session: chat, Pause: job, Permits: []tool.Permit{tool.PermitComplete}})
		slow = test.slow
		must(t, r.RotateTokenKeys(t.Context(), user, &runner.RotateOptions{Retire: cl.now().Add(-test.ago)}))
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
	get, apply chan chan struct{} // one that finds a channel here says on it that it is done, and waits there to be let go
}

func newLateRing(kv kvstore.Store) *lateRing {
	return &lateRing{kv.(kvstore.Exclusive), make(chan chan struct{}, 1), make(chan chan struct{}, 1)}
}

func held(by chan chan struct{}) {
	select {
	case c := <-by:
		c <- struct{}{}
		<-c
	default:
	}
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

// A look at the ring, or a rotation, that another rotation overtakes brings no
// key back that was retired.
func TestRotationThatOvertakesAnother(t *testing.T) {
	for name, overtaken := range map[string]func(*rig, *lateRing) (chan chan struct{}, func()){
		"a look at the ring": func(r *rig, late *lateRing) (chan chan struct{}, func()) {
			return late.get, func() { _, _ = r.ReadToken(context.Background(), sealed(r.t, `{"k":99}`)) }
		},
		"a rotation": func(r *rig, late *lateRing) (chan chan struct{}, func()) {
			return late.apply, func() { must(r.t, r.RotateTokenKeys(context.Background(), user, nil)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				var late *lateRing
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{waiting("job", tool.Once, &n)},
					Model: messages(calls("job", `{"text":"j"}`), says("I see.")),
				}, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store { late = newLateRing(kv); return late }})
				job := r.say("Go.").finished(event.FinishPaused).pause("job").ID
				leaked := r.mint(runner.Grant{Session: chat, Pause: job, Permits: []tool.Permit{tool.PermitComplete}})
				time.Sleep(2 * time.Second) // in the bubble: the ring may be read again

				held := make(chan struct{})
				by, do := overtaken(r, late)
				by <- held
				over := make(chan struct{})
				go func() { defer close(over); do() }()
				<-held // it has seen the old ring
				must(t, r.RotateTokenKeys(t.Context(), user, &runner.RotateOptions{Retire: time.Now()}))
				held <- struct{}{}
				<-over
				if _, err := r.ReadToken(t.Context(), leaked); !errors.Is(err, runner.ErrBadToken) {
					t.Errorf("the token of a key that was retired: %v", err)
				}
				fresh := r.mint(runner.Grant{Session: chat, Pause: job, Permits: []tool.Permit{tool.PermitComplete}})
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
	_, err = r.kv.Apply(r.t.Context(), kvstore.Batch{Puts: []kvstore.Put{{Key: ringKey, Value: value}}})
	must(r.t, err)
}

// mint makes a token for an open pause.
func (r *rig) mint(g runner.Grant) string {
	r.t.Helper()
	token, err := r.MintToken(r.t.Context(), g, "site")
	must(r.t, err)
	return token
}

// ringReads counts how often the ring is read from the store.
type ringReads struct {
	kvstore.Exclusive
	n      atomic.Int32
	broken atomic.Bool
}

func (r *ringReads) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if bytes.Equal(key, ringKey) {
		r.n.Add(1)
		if r.broken.Load() {
			return kvstore.Entry{}, errAway
		}
	}
	return r.Exclusive.Get(ctx, key)
}

// Neither turns nor tokens cost a read of the ring; numbers that no ring has
// cost one a second, however many come; and a key that another process has made
// is found, at the first try or the next.
func TestUnknownKeysAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tokens []string
		var reads *ringReads
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{tokenTool(tool.Idempotent, &tokens)},
			Model: messages(calls("job", `{}`), calls("job", `{}`), says("Done.")),
		}, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
			reads = &ringReads{Exclusive: kv.(kvstore.Exclusive)}
			return reads
		}})
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
			Session: chat, Pause: r.transcript().Pending[0].ID, Permits: []tool.Permit{tool.PermitComplete}}, user)
		must(t, err)

		time.Sleep(2 * time.Second) // in the bubble
		begun = reads.n.Load()
		forged := make([]string, 50)
		for i := range forged {
			forged[i] = sealed(t, fmt.Sprintf(`{"k":%d,"s":"chat-1","c":"c","p":1,"o":["complete"],"e":9999999999}`, 100+i))
			if _, err := r.ReadToken(t.Context(), forged[i]); !errors.Is(err, runner.ErrBadToken) && !errors.Is(err, session.ErrNotYetKnown) {
				t.Errorf("a token of an unknown key: %v", err)
			}
		}
		for _, k := range []int{-1, 0} {
			if _, err := r.ReadToken(t.Context(), sealed(t, fmt.Sprintf(`{"k":%d}`, k))); !errors.Is(err, runner.ErrBadToken) {
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

// Where the program gives the keys, none are in the store.
func TestKeysFromTheProgram(t *testing.T) {
	var tokens []string
	secret := bytes.Repeat([]byte("k"), 32)
	given := []session.TokenKey{{ID: 7, Secret: secret}, {ID: 3, Secret: bytes.Repeat([]byte("n"), 40)}}
	config := agent.Config{
		Tools: []tool.Tool{tokenTool(tool.Idempotent, &tokens)},
		Model: messages(calls("job", `{}`), says("Done.")),
	}
	r := newRig(t, config, &rigOptions{runner: &runner.Options{TokenKeys: given}})
	given[1].ID = 9
	given[1].Secret[0] = 'x' // the ring was copied
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	tok, err := r.ReadToken(t.Context(), tokens[0])
	if err != nil || tok.Key != 3 {
		t.Errorf("the token is %+v, with %v", tok, err)
	}
	if _, err := r.kv.Get(t.Context(), ringKey); !errors.Is(err, kvstore.ErrNotFound) {
		t.Errorf("the store has a ring: %v", err)
	}
	if err := r.RotateTokenKeys(t.Context(), user, nil); !errors.Is(err, runner.ErrGivenKeys) {
		t.Errorf("the program's keys are rotated in the store, with %v", err)
	}
	// The other key verifies; of one that is taken away no token is good.
	r.o.runner.TokenKeys = []session.TokenKey{{ID: 3, Secret: bytes.Repeat([]byte("n"), 40)}, {ID: 8, Secret: secret}}
	r.restart()
	_, err = r.ReadToken(t.Context(), tokens[0])
	must(t, err)
	r.o.runner.TokenKeys = r.o.runner.TokenKeys[1:]
	r.restart()
	if _, err = r.ReadToken(t.Context(), tokens[0]); !errors.Is(err, runner.ErrBadToken) {
		t.Errorf("of a key that was taken away: %v", err)
	}
	r.answer(runner.Complete(p.ID, "ci", text("v"))).finished(event.FinishStop)

	for name, keys := range map[string][]session.TokenKey{
		"none": {}, "no id": {{Secret: secret}}, "a short secret": {{ID: 1, Secret: secret[:31]}}, "no secret": {{ID: 1}},
		"one id twice": {{ID: 1, Secret: secret}, {ID: 1, Secret: secret}},
	} {
		if _, err := runner.New(nil, r.public, &runner.Options{TokenKeys: keys}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Many that come at once while the ring can't be read are all told so, and none
// that its token is bad; when it can be read again, all are served.
func TestRingThatCannotBeReadForAWhile(t *testing.T) {
	var tokens []string
	reads := &ringReads{}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{tokenTool(tool.Idempotent, &tokens)},
		Model: messages(calls("job", `{}`), says("Done.")),
	}, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
		reads.Exclusive = kv.(kvstore.Exclusive)
		return reads
	}})
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
					_, err = r.MintToken(t.Context(), runner.Grant{Session: chat, Pause: p.ID, Permits: []tool.Permit{tool.PermitFail}}, user)
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
	_, err := r.MintToken(t.Context(), runner.Grant{Session: chat, Pause: p.ID, Permits: []tool.Permit{tool.PermitFail}}, user)
	must(t, err) // who has a say in it waits for no second
	before := reads.n.Load()
	all(nil)
	if n := reads.n.Load() - before; n != 0 {
		t.Errorf("the ring was read %d times", n)
	}
}

var errAway = errors.New("the disk is away")
