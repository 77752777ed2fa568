package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestFollowersAgreeWithTheTranscript: followers come, leave, come back behind
// any event that they saw, and look away, while a model speaks, fails and asks
// for calls, of which some wait for answers. Whenever nothing moves, each has
// all messages and all results, each once, and of what is being said all.
func TestFollowersAgreeWithTheTranscript(t *testing.T) {
	t.Parallel()
	for n := range testlength.Histories.Rounds(0.5) {
		synctest.Test(t, func(t *testing.T) {
			c := newAudience(t, uint64(n))
			for range 60 {
				c.does()
				c.agrees()
			}
			c.ends()
		})
		if t.Failed() {
			t.Fatalf("it was history %d", n)
		}
	}
}

// audience are the followers of a session.
type audience struct {
	*rig
	rnd     *rand.Rand
	model   *speaker
	clients []*client
	away    map[*client]bool // it has left
	slow    map[*client]bool // it takes no events
	said    int
	stop    context.CancelFunc
	work    sync.WaitGroup
	log     []string
}

func newAudience(t *testing.T, seed uint64) *audience {
	c := &audience{rnd: rand.New(rand.NewPCG(seed, 1)), model: newSpeaker(),
		away: map[*client]bool{}, slow: map[*client]bool{}}
	var n counter
	c.rig = newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n),
			does(tool.Spec{Name: "look", Effect: tool.Idempotent},
				func(_ context.Context, s string) (tool.Result[textOut], error) {
					return tool.Done(textOut{s}), nil
				})},
		Model: c.model, Limits: agent.Limits{Turns: 1000},
	}, &rigOptions{memory: true})
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	must2(c.Send(ctx, user, chat, llm.UserText("Hello."), nil))
	c.work.Go(func() { _ = c.Work(ctx, nil) })
	synctest.Wait()
	return c
}

// does something.
func (c *audience) does() {
	what := []func() string{
		c.comes, c.leaves, c.looksAway, c.looks, c.speaks, c.speaks, c.speaks, c.asks, c.asks,
		c.finishes, c.fails, c.answers, c.answers, c.sends, c.sleeps,
	}
	if did := what[c.rnd.IntN(len(what))](); did != "" {
		c.log = append(c.log, did)
	}
	synctest.Wait()
}

// one returns one of the clients that f accepts, or nil.
func (c *audience) one(f func(*client) bool) *client {
	var of []*client
	for _, cl := range c.clients {
		if f(cl) {
			of = append(of, cl)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return of[c.rnd.IntN(len(of))]
}

func (c *audience) comes() string {
	cl := c.one(func(cl *client) bool { return c.away[cl] })
	switch {
	case cl != nil:
		delete(c.away, cl)
	case len(c.clients) < 5:
		cl = newClient(c.t)
		c.clients = append(c.clients, cl)
	default:
		return ""
	}
	after := cl.after
	cl.follows(c.Runner)
	return "one comes behind " + after
}

func (c *audience) here(cl *client) bool { return !c.away[cl] }

func (c *audience) leaves() string {
	cl := c.one(c.here)
	if cl == nil {
		return ""
	}
	cl.leaves()
	c.looksAgain(cl)
	c.away[cl] = true
	return "one leaves behind " + cl.after
}

func (c *audience) looksAgain(cl *client) {
	if c.slow[cl] {
		close(cl.gate)
		delete(c.slow, cl)
	}
}

func (c *audience) looksAway() string {
	cl := c.one(func(cl *client) bool { return c.here(cl) && !c.slow[cl] })
	if cl == nil {
		return ""
	}
	c.slow[cl] = true
	cl.setGate(make(chan struct{}))
	return "one looks away"
}

func (c *audience) looks() string {
	cl := c.one(func(cl *client) bool { return c.slow[cl] })
	if cl == nil {
		return ""
	}
	c.looksAgain(cl)
	return "one looks"
}

func (c *audience) tells(ev llm.Event) bool {
	if !c.model.speaks() {
		return false
	}
	c.model.tells <- ev
	synctest.Wait()
	return true
}

func (c *audience) speaks() string {
	c.said++
	text := fmt.Sprintf("%d.", c.said)
	if !c.tells(llm.TextDelta{Text: text}) {
		return ""
	}
	return "the model says " + text
}

func (c *audience) finishes() string {
	c.said++
	if !c.tells(llm.TextDelta{Text: fmt.Sprintf("%d!", c.said)}) {
		return ""
	}
	c.tells(llm.Finish{Reason: llm.StopEnd})
	return "it ends its message"
}

func (c *audience) fails() string {
	if !c.tells(nil) {
		return ""
	}
	return "it fails"
}

func (c *audience) asks() string {
	if !c.model.speaks() {
		return ""
	}
	for range 1 + c.rnd.IntN(3) {
		name := []string{"look", "deploy"}[c.rnd.IntN(2)]
		c.tells(llm.PartDone{Part: llm.ToolCall{Name: name, Arguments: json.RawMessage(`{"text":"x"}`)}})
	}
	c.tells(llm.Finish{Reason: llm.StopToolCalls})
	return "it asks for calls"
}

func (c *audience) answers() string {
	pending := c.transcript().Pending
	if len(pending) == 0 {
		return ""
	}
	p := pending[c.rnd.IntN(len(pending))]
	must2(c.Resume(c.t.Context(), chat, runner.Complete(p.ID, "ci", text("v"))))
	synctest.Wait()
	return "a call is answered"
}

func (c *audience) sends() string {
	if len(c.transcript().Queue) > 2 {
		return ""
	}
	must2(c.Send(c.t.Context(), user, chat, llm.UserText("And?"), nil))
	time.Sleep(2 * time.Second) // a worker takes it
	return "the user writes"
}

func (c *audience) sleeps() string {
	time.Sleep(2 * time.Minute)
	return "time passes"
}

// agrees compares what each has seen that is here and looks.
func (c *audience) agrees() {
	c.t.Helper()
	t := c.transcript()
	var messages []string
	for _, m := range t.History {
		messages = append(messages, m.Text())
	}
	for _, cl := range c.clients {
		if !c.here(cl) || c.slow[cl] {
			continue
		}
		cl.mu.Lock()
		got, text, results := slices.Clone(cl.messages), cl.text, maps.Clone(cl.results)
		cl.mu.Unlock()
		if diff := cmp.Diff(messages, got); diff != "" {
			c.t.Fatalf("after %q its messages are (-want +got):\n%s", c.log, diff)
		}
		if want := c.model.saying(); text != want {
			c.t.Fatalf("after %q it reads %q, not %q", c.log, text, want)
		}
		for call, times := range results {
			if times != 1 {
				c.t.Fatalf("after %q it was shown the result of %s %d times", c.log, call, times)
			}
		}
		for _, call := range t.Calls {
			if call.Settled != "" && results[call.Call] != 1 {
				c.t.Fatalf("after %q it was not shown the result of %s", c.log, call.Call)
			}
		}
		for _, p := range t.Pending {
			if !cl.pauses[p.ID] {
				c.t.Fatalf("after %q it was not shown the pause of %s", c.log, p.Call)
			}
		}
	}
}

// ends has all that are away come back, and compares once more.
func (c *audience) ends() {
	for _, cl := range c.clients {
		c.looksAgain(cl)
		if c.away[cl] {
			delete(c.away, cl)
			cl.follows(c.Runner)
		}
	}
	synctest.Wait()
	c.agrees()
	for _, cl := range c.clients {
		cl.leaves()
	}
	c.stop()
	c.work.Wait()
	must(c.t, c.Close())
}
