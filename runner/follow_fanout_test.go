package runner_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
)

// broker is a fan-out within the test's process.
type broker struct {
	mu   sync.Mutex
	subs map[string]map[*func([]byte)]bool
	// bad, if set, returns what comes of data, in which order.
	bad func(data []byte) [][]byte
}

func (b *broker) Publish(_ context.Context, session string, data []byte) error {
	b.mu.Lock()
	var to []*func([]byte)
	for f := range b.subs[session] {
		to = append(to, f)
	}
	all := [][]byte{data}
	if b.bad != nil {
		all = b.bad(data)
	}
	b.mu.Unlock()
	for _, data := range all {
		for _, f := range to {
			(*f)(data)
		}
	}
	return nil
}

func (b *broker) Subscribe(
	_ context.Context, session string, f func([]byte),
) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = map[string]map[*func([]byte)]bool{}
	}
	if b.subs[session] == nil {
		b.subs[session] = map[*func([]byte)]bool{}
	}
	b.subs[session][&f] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subs[session], &f)
	}, nil
}

// TestFollowersOfOtherProcesses: with a fan-out they are shown what is said as
// it streams, and commits at once; one who comes in the middle has all of it
// within a second.
func TestFollowersOfOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newSpeaker()
		r := newRig(t, agent.Config{Model: model}, &rigOptions{memory: true, wrap: hidden,
			runner: &runner.Options{FanOut: &broker{}}})
		other := r.another()
		must2(r.Send(t.Context(), user, chat, llm.UserText("Hello?"), nil))
		c := newClient(t)
		c.follows(other)
		time.Sleep(time.Hour) // it is polled seldom by now
		var driving sync.WaitGroup
		driving.Go(func() { _ = watch(t, r.Continue(t.Context(), chat, user)) })
		synctest.Wait()
		model.says("Hel")
		model.says("lo")
		if got := c.reads(); got != "Hello" {
			t.Errorf("it reads %q", got)
		}
		late := newClient(t)
		late.follows(other)
		model.says(", Ada")
		time.Sleep(time.Second)
		synctest.Wait()
		if c.reads() != "Hello, Ada" || late.reads() != "Hello, Ada" {
			t.Errorf("they read %q and %q", c.reads(), late.reads())
		}
		model.tells <- nil
		synctest.Wait()
		if c.reads() != "" || c.retries != 1 {
			t.Errorf("after a failure it reads %q", c.reads())
		}
		time.Sleep(time.Minute)
		model.says("Hi.")
		if got := c.reads(); got != "Hi." {
			t.Errorf("then it reads %q", got)
		}
		at := time.Now()
		model.ends()
		if len(c.messages) != 2 || len(c.ends) != 1 || time.Since(at) > 0 {
			t.Errorf("it has %q and ends %q", c.messages, c.ends)
		}
		c.leaves()
		late.leaves()
		driving.Wait()
		r.Close()
		other.Close()
	})
}

// Where one process has the engine, nothing is published: no other could see it.
func TestAFanOutOfOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{bad: func(data []byte) [][]byte {
			t.Errorf("it is told %s", data)
			return nil
		}}
		r := newRig(t, agent.Config{Model: fakellm.Echo()},
			&rigOptions{memory: true, runner: &runner.Options{FanOut: b}})
		r.say("Hi.")
		leave := followers(t, r.Runner, 1, func(int) string { return chat })
		r.say("Hi.")
		leave()
		r.Close()
	})
}

// TestABadFanOutShowsNothingWrong: data gets lost, comes late, twice, or is
// nonsense. What a follower is shown of a message is its beginning, and once
// the fan-out has mended, all.
func TestABadFanOutShowsNothingWrong(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testlength.Part(10, 20)) {
		synctest.Test(t, func(t *testing.T) {
			rnd, fate := rand.New(rand.NewPCG(seed, 2)), rand.New(rand.NewPCG(seed, 3))
			var before [][]byte
			well := false
			b := &broker{bad: func(data []byte) (all [][]byte) {
				if well {
					return [][]byte{data}
				}
				before = append(before, data)
				if fate.IntN(2) == 0 {
					all = append(all, data)
				}
				for range fate.IntN(3) {
					all = append(all, before[fate.IntN(len(before))])
				}
				if fate.IntN(5) == 0 {
					all = append(all, []byte(`{"speech":{"fence":-1,"from":-9}}`), []byte("x"))
				}
				return all
			}}
			model := newSpeaker()
			often := agent.Retry{Failures: 1000, Most: time.Second}
			r := newRig(t, agent.Config{Model: model, Retry: often}, &rigOptions{memory: true,
				wrap: hidden, runner: &runner.Options{FanOut: b}})
			other := r.another()
			must2(r.Send(t.Context(), user, chat, llm.UserText("Hello?"), nil))
			c := newClient(t)
			c.follows(other)
			ctx, stop := context.WithCancel(t.Context())
			var work sync.WaitGroup
			work.Go(func() { _ = r.Work(ctx, nil) })
			for range 3 {
				for range 20 {
					if !model.speaks() {
						time.Sleep(time.Minute)
					}
					switch rnd.IntN(8) {
					case 0:
						model.tells <- nil
						time.Sleep(time.Minute)
					case 1:
						time.Sleep(time.Second)
					default:
						model.says(string(rune('a' + rnd.IntN(26))))
					}
				}
				b.mu.Lock()
				well = true
				b.mu.Unlock()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if got, want := c.reads(), model.saying(); got != want {
					t.Errorf("seed %d: it reads %q, not %q", seed, got, want)
				}
				model.says("!")
				model.ends() // and the client compares
				must2(r.Send(t.Context(), user, chat, llm.UserText("And?"), nil))
				time.Sleep(time.Minute)
				b.mu.Lock()
				well = false
				b.mu.Unlock()
			}
			c.leaves()
			stop()
			work.Wait()
			r.Close()
			other.Close()
		})
	}
}

type panickingFanOut struct{}

func (panickingFanOut) Publish(context.Context, string, []byte) error { panic("no") }
func (panickingFanOut) Subscribe(context.Context, string, func([]byte)) (func(), error) {
	panic("no")
}

// Followers of other processes are shown what is stored, as without a fan-out.
func TestAFanOutThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, agent.Config{Model: messages(says("Hello."))}, &rigOptions{memory: true,
			wrap: hidden, runner: &runner.Options{FanOut: panickingFanOut{},
				Logger: slog.New(slog.DiscardHandler)}})
		other := r.another()
		_, err := r.Send(t.Context(), user, chat, llm.UserText("Hello?"), nil)
		must(t, err)
		works(t, r.Runner)
		s := watch(t, other.Follow(t.Context(), chat, user, nil)).finished(event.FinishStop)
		if all := of[event.Message](s); len(all) != 2 || all[1].Message.Text() != "Hello." {
			t.Errorf("these are shown: %v", all)
		}
	})
}
