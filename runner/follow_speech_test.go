package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
)

// speaker is a model that says what a test tells it to.
type speaker struct {
	tells chan llm.Event // an llm.Finish ends the message, nil breaks it off

	mu   sync.Mutex
	said string // of the message that goes on
	goes bool
}

func newSpeaker() *speaker { return &speaker{tells: make(chan llm.Event)} }

var errSpoken = &llm.Error{Kind: llm.ErrOverloaded, Err: errors.New("too busy")}

func (s *speaker) Generate(ctx context.Context, _ llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		s.set("", true)
		defer s.set("", false)
		for {
			select {
			case ev := <-s.tells:
				if d, ok := ev.(llm.TextDelta); ok {
					s.set(s.saying()+d.Text, true)
				}
				if ev == nil {
					yield(nil, errSpoken)
					return
				}
				if _, ends := ev.(llm.Finish); !yield(ev, nil) || ends {
					return
				}
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

func (s *speaker) set(said string, goes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said, s.goes = said, goes
}

func (s *speaker) saying() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said
}

func (s *speaker) speaks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.goes
}

// says has it say more, and waits until that has come to all who listen.
func (s *speaker) says(text string) {
	s.tells <- llm.TextDelta{Text: text}
	synctest.Wait()
}

func (s *speaker) ends() {
	s.tells <- llm.Finish{Reason: llm.StopEnd}
	synctest.Wait()
}

// client is what a browser makes of what it is shown.
type client struct {
	t     *testing.T
	after string
	leave context.CancelFunc
	gone  chan struct{}
	gate  chan struct{} // it takes an event for each value; closed: all

	mu       sync.Mutex // guards the rest
	text     string     // of the message that goes on
	messages []string
	results  map[string]int
	pauses   map[string]bool
	ends     []string
	retries  int
}

func newClient(t *testing.T) *client {
	c := &client{t: t, results: map[string]int{}, pauses: map[string]bool{}, gate: make(chan struct{})}
	close(c.gate)
	return c
}

// follows has it follow from where it left.
func (c *client) follows(rn *runner.Runner) {
	ctx, leave := context.WithCancel(c.t.Context())
	c.leave, c.gone = leave, make(chan struct{})
	c.text = "" // as it connects
	o := &runner.FollowOptions{After: c.after, Stay: true}
	go func() {
		defer close(c.gone)
		for ev, err := range rn.Follow(ctx, chat, user, o) {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					c.t.Error(err)
				}
				return
			}
			c.mu.Lock()
			gate := c.gate
			c.mu.Unlock()
			select {
			case <-gate:
			case <-ctx.Done():
			}
			c.takes(ev)
		}
	}()
}

// leaves has it leave, and wait until it has.
func (c *client) leaves() {
	c.leave()
	<-c.gone
}

func (c *client) setGate(gate chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate = gate
}

func (c *client) takes(ev event.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := event.Cursor(ev); at != "" {
		c.after = at
	}
	switch ev := ev.(type) {
	case event.TextDelta:
		if ev.Start {
			c.text = ""
		}
		c.text += ev.Delta
	case event.Retry:
		c.text = ""
		c.retries++
	case event.Message:
		if ev.Number != len(c.messages) {
			c.t.Errorf("message %d comes after %d", ev.Number, len(c.messages))
		}
		c.messages = append(c.messages, ev.Message.Text())
		if ev.Message.Role == llm.RoleAssistant {
			if !strings.HasPrefix(ev.Message.Text(), c.text) {
				c.t.Errorf("of %q it was shown %q", ev.Message.Text(), c.text)
			}
			c.text = ""
		}
	case event.Result:
		c.results[ev.Result.Call]++
	case event.Pause:
		c.pauses[ev.Pause.ID] = true
	case event.End:
		c.text = ""
		c.ends = append(c.ends, string(ev.Finish))
	}
}

func (c *client) reads() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text
}

// TestFollowersAreShownWhatIsSaid: as it streams, and whichever drive has it: all
// of it to one who comes in the middle, and to one who looks away meanwhile.
func TestFollowersAreShownWhatIsSaid(t *testing.T) {
	drives := map[string]func(r *rig, ctx context.Context) error{
		"a run": func(r *rig, ctx context.Context) error {
			return watch(r.t, r.Run(ctx, user, chat, llm.UserText("And?"), nil)).err
		},
		"one that continues": func(r *rig, ctx context.Context) error {
			must2(r.Send(ctx, user, chat, llm.UserText("And?"), nil))
			return watch(r.t, r.Continue(ctx, chat, user)).err
		},
		"a worker": func(r *rig, ctx context.Context) error {
			must2(r.Send(ctx, user, chat, llm.UserText("And?"), nil))
			_ = r.Work(ctx, nil)
			return nil
		},
	}
	for name, drive := range drives {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := newSpeaker()
				r := newRig(t, agent.Config{Model: model}, &rigOptions{memory: true})
				must2(r.Send(t.Context(), user, chat, llm.UserText("Hello?"), nil))
				ctx, stop := context.WithCancel(t.Context())
				var driving sync.WaitGroup
				first := newClient(t)
				first.follows(r.Runner)
				driving.Go(func() { _ = watch(t, r.Continue(ctx, chat, user)) })
				synctest.Wait()
				model.says("Hello")
				second, slow := newClient(t), newClient(t)
				slow.gate = make(chan struct{})
				second.follows(r.Runner)
				slow.follows(r.Runner)
				synctest.Wait()
				all := func(want string) {
					t.Helper()
					if first.reads() != want || second.reads() != want {
						t.Errorf("they read %q and %q, not %q", first.reads(), second.reads(), want)
					}
				}
				all("Hello")
				for _, text := range []string{", ", "A", "da", "."} {
					model.says(text)
				}
				all("Hello, Ada.")
				close(slow.gate)
				synctest.Wait()
				if got := slow.reads(); got != "Hello, Ada." {
					t.Errorf("the slow one reads %q", got)
				}
				model.ends()
				all("")
				driving.Wait()
				driving.Go(func() {
					if err := drive(r, ctx); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				model.says("We")
				all("We")
				model.says("ll.")
				model.ends()
				for i, c := range []*client{first, second, slow} {
					if got := fmt.Sprintf("%q", c.messages); got != `["Hello?" "Hello, Ada." "And?" "Well."]` {
						t.Errorf("%d has %s", i, got)
					}
					c.leaves()
				}
				stop()
				driving.Wait()
				r.Close()
			})
		})
	}
}

// The words of a model that fails, or whose caller leaves, are void: the next
// try begins anew, for a follower who was there and for one who comes then.
func TestFollowersForgetWhatIsVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newSpeaker()
		r := newRig(t, agent.Config{Model: model}, &rigOptions{memory: true})
		must2(r.Send(t.Context(), user, chat, llm.UserText("Hello?"), nil))
		c := newClient(t)
		c.follows(r.Runner)
		var driving sync.WaitGroup
		drive := func(ctx context.Context) {
			driving.Go(func() { _ = watch(t, r.Continue(ctx, chat, user)) })
			synctest.Wait()
		}
		ctx, leave := context.WithCancel(t.Context())
		drive(ctx)
		model.says("Hel")
		model.tells <- nil
		synctest.Wait()
		if c.reads() != "" || c.retries != 1 {
			t.Errorf("after a failure it reads %q, and was told of %d tries", c.reads(), c.retries)
		}
		late := newClient(t)
		late.follows(r.Runner)
		time.Sleep(time.Minute) // the model is asked again
		model.says("Well")
		if c.reads() != "Well" || late.reads() != "Well" {
			t.Errorf("then they read %q and %q", c.reads(), late.reads())
		}
		leave()
		synctest.Wait()
		if c.reads() != "" {
			t.Errorf("when the caller has left it reads %q", c.reads())
		}
		drive(t.Context())
		model.says("So")
		model.says(".")
		if c.reads() != "So." {
			t.Errorf("of the next drive it reads %q", c.reads())
		}
		model.ends()
		for _, c := range []*client{c, late} {
			if got := fmt.Sprintf("%q", c.messages); got != `["Hello?" "So."]` {
				t.Errorf("it has %s", got)
			}
			c.leaves()
		}
		driving.Wait()
		r.Close()
	})
}

// Followers are shown what the turn layers let through, and no more: also of
// what was said before they came. A character comes whole.
func TestFollowersAreShownWhatLayersLetThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newSpeaker()
		hide := interceptor.Layer{Name: "hide", Turn: func(next interceptor.TurnHandler) interceptor.TurnHandler {
			return func(ctx context.Context, turn interceptor.Turn) iter.Seq2[event.Event, error] {
				return func(yield func(event.Event, error) bool) {
					for ev, err := range next(ctx, turn) {
						if d, ok := ev.(event.TextDelta); ok {
							d.Delta = strings.ReplaceAll(d.Delta, "secret", "[hidden]")
							ev = d
						}
						if !yield(ev, err) {
							return
						}
					}
				}
			}
		}}
		r := newRig(t, agent.Config{Model: model, Interceptors: interceptor.Chain{hide}},
			&rigOptions{memory: true})
		must2(r.Send(t.Context(), user, chat, llm.UserText("Hello?"), nil))
		var driving sync.WaitGroup
		driving.Go(func() { _ = watch(t, r.Continue(t.Context(), chat, user)) })
		synctest.Wait()
		model.says("It is secret. \xe6\xb0")
		c := newClient(t)
		c.follows(r.Runner)
		synctest.Wait()
		if got := c.reads(); got != "It is [hidden]. " {
			t.Errorf("it reads %q", got)
		}
		model.says("\xb4")
		if got := c.reads(); got != "It is [hidden]. 水" {
			t.Errorf("it reads %q", got)
		}
		c.leaves() // the stored message says more
		model.ends()
		driving.Wait()
		r.Close()
	})
}
