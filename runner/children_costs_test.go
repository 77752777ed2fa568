package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// What nested agents cost is counted here, and never timed. Models take a while
// by the bubble's clock, so that all else is at rest when they answer.

// costs is an engine that counts what is asked of it.
type costs struct {
	kvstore.Exclusive
	reads, bytes atomic.Int64
	hold         atomic.Pointer[chan struct{}] // if set, commits of roots wait until it is closed

	mu      sync.Mutex // guards commits
	commits []string   // the heads that each has written
}

func (c *costs) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	e, err := c.Exclusive.Get(ctx, key)
	c.reads.Add(1)
	c.bytes.Add(int64(len(e.Value)))
	return e, err
}

func (c *costs) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	p, err := c.Exclusive.Scan(ctx, r)
	c.reads.Add(1)
	for _, e := range p.Entries {
		c.bytes.Add(int64(len(e.Key) + len(e.Value)))
	}
	return p, err
}

func (c *costs) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	time.Sleep(100 * time.Microsecond)
	if hold := c.hold.Load(); hold != nil && slices.ContainsFunc(b.Puts, isRoot) {
		<-*hold
	}
	rev, err := c.Exclusive.Apply(ctx, b)
	var heads []string
	for _, p := range b.Puts {
		c.bytes.Add(int64(len(p.Key) + len(p.Value)))
		switch {
		case isRoot(p):
			heads = append(heads, "root")
		case isHead(p.Key):
			heads = append(heads, "child")
		}
	}
	if err == nil && len(heads) > 0 {
		slices.Sort(heads)
		c.mu.Lock()
		c.commits = append(c.commits, strings.Join(heads, " and "))
		c.mu.Unlock()
	}
	return rev, err
}

// isRoot reports whether a put writes the head of a session that is no child.
func isRoot(p kvstore.Put) bool {
	return isHead(p.Key) && !strings.Contains(string(p.Key), session.ChildPrefix)
}

// counted counts the commits by the heads that they have written.
func (c *costs) counted() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := map[string]int{}
	for _, heads := range c.commits {
		n[heads]++
	}
	return n
}

// each returns the commits, reads and bytes so far, for each of so many.
func (c *costs) each(n int) map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return map[string]float64{"commits": float64(len(c.commits)) / float64(n),
		"reads": float64(c.reads.Load()) / float64(n), "bytes": float64(c.bytes.Load()) / float64(n)}
}

// slow is a model that thinks before each message.
func slow(m modelFunc) llm.Model {
	return streams(func(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
		time.Sleep(time.Millisecond)
		return m.Generate(ctx, r)
	})
}

// delegates is a model that makes so many calls of helper, so many in a turn.
func delegates(all, atOnce int) modelFunc {
	return func(r llm.Request) (events []llm.Event) {
		left := min(atOnce, all-len(r.Messages)/2*atOnce)
		for range left {
			events = append(events, llm.PartDone{Part: llm.ToolCall{Name: "helper",
				Arguments: json.RawMessage(`{"what":"Find it."}`)}})
		}
		if left <= 0 {
			events = append(events, llm.PartDone{Part: llm.Text{Text: "I know."}})
		}
		return append(events, llm.Finish{Reason: llm.StopEnd})
	}
}

// priced is a rig whose agent has a nested one, and what its store is asked.
func priced(t *testing.T, kind string, m, nested llm.Model, more ...tool.Tool) (*rig, *costs) {
	c := &costs{}
	r := newRig(t, agent.Config{Model: m, Tools: append(more, nestedTool(t, "helper", nested)),
		Limits: agent.Limits{Turns: 1000}},
		&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
			c.Exclusive = kv.(kvstore.Exclusive)
			if kind == "shared" {
				return hidden(c)
			}
			return c
		}})
	return r, c
}

// A nested agent of one message costs the commit of that message and, where one
// process has the store, three more: the call's pause, with which the child is
// made; the end at the caller; and the note, at the child, that it is told.
// Where leases are stored there are two more: each of the two drives that begin
// without a message of a user's commits its lease before its model is asked.
func TestCommitsOfANestedAgent(t *testing.T) {
	for kind, want := range map[string]map[string]int{
		// Of the root: the user's message, the model's, the child's end, and the
		// results with the last message.
		"exclusive": {"root": 4, "child and root": 1, "child": 2},
		"shared":    {"root": 5, "child and root": 1, "child": 3},
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, c := priced(t, kind, slow(delegates(1, 1)), slow(messages(says("It is 42."))))
				if s := r.say("Go."); s.end.Finish != event.FinishStop {
					t.Fatalf("%+v, %v", s.end, s.err)
				}
				must(t, r.Close())
				if got := c.counted(); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("commits by heads are %v, not %v", got, want)
				}
			})
		})
	}
}

// What a child costs doesn't depend on how many there are: one after the other,
// many at once, or of many callers beside a worker.
func TestManyChildrenCostAsMuchEachAsFew(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		few, many crowd
		grow      float64
	}{
		"one after the other": {crowd{1, 1, 10}, crowd{1, 1, testlength.Part(2, 80)}, 1.3},
		"twenty at once":      {crowd{1, 20, 1}, crowd{1, 20, testlength.Part(2, 6)}, 1.3},
		"of many callers":     {crowd{5, 4, 1}, crowd{testlength.Part(2, 40), 4, 1}, 1.3},
		// Each commit of a caller writes all calls of its turn, at most 64.
		"all in one turn": {crowd{1, 6, 1}, crowd{1, 60, 1}, 6},
	} {
		for kind := range engineKinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				few, many := costsOf(t, kind, of.few), costsOf(t, kind, of.many)
				t.Logf("few %.5v, many %.5v", few, many)
				for what, got := range many {
					most := 1.3 * few[what]
					if what == "bytes" {
						most = of.grow * few[what]
					}
					if got > most {
						t.Errorf("each of many costs %.1f %s, each of few %.1f", got, what, few[what])
					}
				}
			})
		}
	}
}

// crowd is children of so many callers, each of which has so many at once, in so
// many turns.
type crowd struct{ roots, atOnce, turns int }

// costsOf returns what each child costs.
func costsOf(t *testing.T, kind string, of crowd) (each map[string]float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, c := priced(t, kind, slow(delegates(of.atOnce*of.turns, of.atOnce)),
			slow(messages(says("It is 42."))))
		ctx, cancel := context.WithCancel(t.Context())
		var all, worker sync.WaitGroup
		worker.Go(func() { _ = r.Work(ctx, &runner.WorkOptions{SweepEvery: -1}) })
		for i := range of.roots {
			all.Go(func() {
				s := watch(t, r.Run(t.Context(), user, fmt.Sprint("chat-", i), llm.UserText("Go."), nil))
				if s.end.Finish != event.FinishStop {
					t.Errorf("%+v, %v", s.end, s.err)
				}
			})
		}
		all.Wait()
		cancel()
		worker.Wait()
		must(t, r.Close())
		each = c.each(of.roots * of.atOnce * of.turns)
	})
	return each
}

// A worker reads no child that waits for a place, or whose end is on its way to
// its caller, however often it is told of work. It reads past them now and then.
func TestAWorkerReadsNoChildThatIsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let, hold := make(chan struct{}), make(chan struct{})
		held := streams(func(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
			<-let
			return messages(says("It is 42.")).Generate(ctx, r)
		})
		r, c := priced(t, "exclusive", slow(delegates(60, 60)), held)
		ctx, cancel := context.WithCancel(t.Context())
		var all, worker sync.WaitGroup
		worker.Go(func() { _ = r.Work(ctx, &runner.WorkOptions{SweepEvery: -1}) })
		for i := range 2 {
			all.Go(func() {
				watch(t, r.Run(t.Context(), user, fmt.Sprint("chat-", i), llm.UserText("Go."), nil))
			})
		}
		look := func(when string) {
			time.Sleep(time.Second)
			before := c.reads.Load()
			for range 1000 {
				r.engine.(*kvstore.Memory).Local().Signal("work")
				time.Sleep(time.Millisecond)
			}
			if n := c.reads.Load() - before; n > 1500 {
				t.Errorf("%s, 1,000 signals in a second make %d reads", when, n)
			}
		}
		look("while they wait for places")
		c.hold.Store(&hold)
		close(let)
		look("while their ends are on their way")
		c.hold.Store(nil)
		close(hold)
		all.Wait()
		cancel()
		worker.Wait()
		must(t, r.Close())
	})
}

// However much a nested agent says, its caller's session is not read for it.
func TestWhatAChildSaysCostsNoReads(t *testing.T) {
	reads := func(deltas int) (n int64) {
		synctest.Test(t, func(t *testing.T) {
			talks := streams(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
				return func(yield func(llm.Event, error) bool) {
					for range deltas {
						time.Sleep(100 * time.Millisecond / time.Duration(deltas))
						if !yield(llm.TextDelta{Text: "la "}, nil) {
							return
						}
					}
					_ = yield(llm.PartDone{Part: llm.Text{Text: strings.Repeat("la ", deltas)}}, nil) &&
						yield(llm.Finish{Reason: llm.StopEnd}, nil)
				}
			})
			r, c := priced(t, "exclusive", slow(delegates(1, 1)), talks)
			if s := r.say("Go."); s.end.Finish != event.FinishStop {
				t.Fatalf("%+v, %v", s.end, s.err)
			}
			must(t, r.Close())
			n = c.reads.Load()
		})
		return n
	}
	if few, many := reads(2), reads(200); many > few+20 {
		t.Errorf("with two words there are %d reads, with 200 there are %d", few, many)
	}
}
