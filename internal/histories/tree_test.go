package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/runner"
)

// TestTreesAreLinearizable has clients answer what an agent asks that works for
// another one, answer for that agent, cancel either call and either session,
// delete either session, and look, through two runners on one store, while the
// clock moves. Some order of it explains all that they were told and shown of
// both calls. In the end neither session is left open or owes anything, and what
// the agent used counts once.
func TestTreesAreLinearizable(t *testing.T) {
	all := tally{}
	for _, e := range engines {
		t.Run(e.String(), func(t *testing.T) {
			for seed := range testlength.Histories.Rounds(1 / float64(len(engines))) {
				if e.remote && seed%6 > 0 {
					continue // it is slow
				}
				w := &tree{world: newWorld(t, uint64(seed), e, treeAgent)}
				w.run()
				if w.check(&all); t.Failed() {
					break // one is enough to read
				}
			}
		})
	}
	t.Logf("counted: %d histories of trees, %d violations", all.histories, all.violations)
	t.Logf("counted: %d operations on trees, %d violations", all.operations, all.violations)
	t.Logf("%d faults struck; what the operations came to: %v", all.struck, all.outcomes)
	if all.violations > 0 || all.histories < 100 {
		return
	}
	for _, want := range []string{
		"answer leaf: accepted", "answer leaf: duplicate of", "answer leaf: conflict with",
		"answer leaf: deleted", "answer leaf: settled cancelled", "answer root: accepted",
		"answer root: conflict with", "cancel leaf: accepted", "cancel root: accepted",
		"end root: ok", "end leaf: ok", "delete leaf: ok", "delete root: ok",
		"look root: settled done", "look root: settled cancelled", "look root: settled expired",
		"look leaf: settled done", "look leaf: settled failed", "look leaf: settled expired",
		"result root: settled done", "result leaf: settled cancelled",
	} {
		if all.outcomes[want] == 0 {
			t.Errorf("no operation came to %q", want)
		}
	}
}

// check asks porcupine about a history.
func (w *tree) check(all *tally) {
	w.t.Helper()
	all.histories++
	all.struck += w.faults.Struck()
	if all.outcomes == nil {
		all.outcomes = map[string]int{}
	}
	all.operations += len(w.all)
	for _, o := range w.all {
		in, out := o.Input.(operation), o.Output.(outcome)
		all.outcomes[in.name+" "+in.call+": "+firstWords(out)]++
	}
	result, facts := porcupine.CheckOperationsVerbose(treeModel{}.porcupine(), w.all,
		20*time.Second)
	if result == porcupine.Ok {
		return
	}
	all.violations++
	if result == porcupine.Unknown {
		w.t.Errorf("seed %d: the history takes too long to check", w.seed)
		return
	}
	f, err := os.CreateTemp("", "history-*.html")
	must(w.t, err)
	must(w.t, porcupine.Visualize(treeModel{}.porcupine(), facts, f))
	must(w.t, f.Close())
	w.t.Errorf("seed %d: the history is not linearizable:\n%sas a picture: %s", w.seed,
		describe(w.all, facts), f.Name())
}

// run has the clients do what they do, and then brings both sessions to their
// end.
func (w *tree) run() {
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			c := w.client(n)
			if n == 0 {
				c.say()
				w.start()
			}
			<-w.started
			for i := range perClient {
				c.act(fmt.Sprintf("%c%d", 'a'+n, i))
			}
		})
	}
	all.Wait()
	w.faults.Heal()
	w.settle(w.client(clients))
	for _, rn := range w.runners {
		must(w.t, rn.Close())
	}
}

func (w *tree) client(n int) *treeClient {
	return &treeClient{tree: w, client: client{world: w.world, number: n,
		r: rand.New(rand.NewPCG(w.seed, uint64(n)))}}
}

// settle lets all deadlines pass, has a worker carry on what is left, repeats
// what was accepted, and looks at what the tree came to.
func (w *tree) settle(c *treeClient) {
	root, child := w.rest(c)
	for _, in := range w.given {
		c.do(in)
	}
	c.look(atRoot)
	c.look(atLeaf)
	if !root.Deleted.IsZero() {
		if child != nil && child.Deleted.IsZero() {
			w.t.Errorf("seed %d: the root is deleted, and the child is not", w.seed)
		}
		return
	}
	if child == nil {
		return
	}
	used, counted := child.Run.Usage.Input, root.Run.Usage.Input
	// A model that speaks while its session is ended is paid by that session
	// alone.
	whole := child.Finish == event.FinishStop && !w.ended.Load()
	if counted > used || counted < used && whole {
		w.t.Errorf("seed %d: the child has used %d, and %d counts", w.seed, used, counted)
	}
	for p, err := range w.store.Check(w.t.Context()) {
		w.t.Errorf("seed %d: %v, %v", w.seed, p, err)
	}
}

// rest is the tree once nothing is left to do for it. The child is nil where
// none was made.
func (w *tree) rest(c *treeClient) (root, child *session.State) {
	worker := w.work()
	defer worker()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	w.hour.Add(2 * mostHours)
	for n := range 5000 {
		if err := c.carryOn(); isUnknownSession(err) { // the message was not taken
			c.say()
		}
		if root, child = w.load(c); root != nil && isAtRest(root) && (child == nil || isAtRest(child)) {
			return root, child
		}
		if n%50 == 49 { // leases that nothing renews run out
			w.hour.Add(1)
		}
		<-again.C
	}
	w.t.Fatalf("seed %d: the tree does not come to rest:\n%+v\n%+v", w.seed, root, child)
	return nil, nil
}

func isAtRest(s *session.State) bool {
	return len(s.Calls)+len(s.Outbox)+len(s.Run.Leaving) == 0 && s.Wake.IsZero() && !s.Held
}

// work has a worker of the first runner at work until stop is called.
func (w *tree) work() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		_ = w.runners[0].Work(ctx, &runner.WorkOptions{Poll: 5 * time.Millisecond, SweepEvery: -1})
	})
	return func() { cancel(); all.Wait() }
}
