package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/agenttool"
)

// round is what one round of a child's end is about.
type round struct {
	t       *testing.T
	r       *rig
	cl      *clock
	runners []*runner.Runner
	id      string     // of the root
	call    string     // of the root, which waits for the child
	hand    string     // the pause of that
	child   tool.Pause // what a person is asked in the child
}

// A child ends at the instant at which the call that waits for it is cancelled,
// runs out, or is answered by hand; or at which the root or the child is
// cancelled or deleted. The call has one outcome, what the child used counts
// once, the child is over, and nothing is left that would be due.
func TestChildrensEndsAgainstEverything(t *testing.T) {
	rounds, came := 0, 0
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			cl := newClock()
			helper, err := agent.New(agent.Config{Name: "helper", Tools: []tool.Tool{asksWhat("ask")},
				Model: fakellm.New(fakellm.Calls("ask", `{"what":"Well?"}`),
					fakellm.Says("Worked.").Usage(llm.Usage{Input: 7}))})
			must(t, err)
			nested, err := agenttool.New[task, string](helper,
				&agenttool.Options[task]{Timeout: time.Hour})
			must(t, err)
			r := newRig(t, agent.Config{Tools: []tool.Tool{nested}, Model: fakellm.New(
				fakellm.Calls("helper", `{"what":"x"}`), fakellm.Says("I see."))},
				&rigOptions{memory: true, wrap: wrap, session: &session.Options{
					Now: cl.now, Lease: 1000 * time.Hour}}) // which no jump of the clock ends
			runners := []*runner.Runner{r.Runner, r.another()}
			for n := range testlength.Rounds.Rounds(0.5) {
				rd := &round{t: t, r: r, cl: cl, runners: runners, id: fmt.Sprint("chat-", n)}
				if rd.play(n % 6) {
					came++
				}
				if rounds++; t.Failed() {
					return
				}
			}
			must(t, runners[1].Close())
			must(t, r.Close())
			r.sound()
		})
	}
	t.Logf("counted: %d rounds of a child's end against its parent's, %d violations", rounds,
		map[bool]int{true: 1}[t.Failed()])
	if rounds > 100 && (came == 0 || came == rounds) {
		t.Errorf("of %d rounds, the child's end was the result in %d", rounds, came)
	}
}

// play plays one round, and reports whether the child's end was the result.
func (rd *round) play(against int) (came bool) {
	t, ctx := rd.t, rd.t.Context()
	s := watch(t, rd.runners[0].Run(ctx, user, rd.id, llm.UserText("Go."), nil))
	for _, p := range s.finished("paused").end.Pending {
		if p.Session == rd.id {
			rd.call, rd.hand = p.Call, p.ID
		} else {
			rd.child = p
		}
	}
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, act := range []func(*runner.Runner){rd.answer, rd.other(against), rd.answer} {
		all.Go(func() {
			<-start
			for range rand.IntN(50) {
				runtime.Gosched()
			}
			act(rd.runners[i%2])
		})
	}
	close(start)
	all.Wait()
	return rd.over(against)
}

// answer ends the child's work, and drives what is there to drive.
func (rd *round) answer(rn *runner.Runner) {
	res, err := rn.Resume(context.Background(), rd.child.Session,
		runner.Complete(rd.child.ID, "eve", []byte(`"yes"`)))
	if err != nil {
		if !isOneOf(err, public.ErrSettled, public.ErrDeleted, public.ErrUnknownCall, public.ErrResumeConflict) {
			rd.t.Error(err)
		}
		return
	}
	for range res.Events(context.Background()) {
	}
}

// other is what comes at that instant.
func (rd *round) other(against int) func(*runner.Runner) {
	ctx := context.Background()
	refused := func(err error) {
		if err != nil && !isOneOf(err, public.ErrSettled, public.ErrDeleted, public.ErrUnknownCall, public.ErrResumeConflict) {
			rd.t.Error(err)
		}
	}
	return []func(*runner.Runner){
		func(rn *runner.Runner) { _, err := rn.Cancel(ctx, rd.id, rd.call, "ops", "no"); refused(err) },
		func(rn *runner.Runner) { refused(rn.CancelSession(ctx, rd.id, "ops", "no")) },
		func(rn *runner.Runner) { refused(rn.CancelSession(ctx, rd.child.Session, "ops", "no")) },
		func(rn *runner.Runner) { refused(rn.Delete(ctx, rd.child.Session, "ops")) },
		func(*runner.Runner) { rd.cl.pass(2 * time.Hour) },
		func(rn *runner.Runner) {
			res, err := rn.Resume(ctx, rd.id, runner.Complete(rd.hand, "eve", []byte(`"by hand"`)))
			refused(err)
			if err != nil {
				return
			}
			for range res.Events(ctx) {
			}
		},
	}[against]
}

func isOneOf(err error, all ...error) bool {
	for _, e := range all {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// over brings the round to its end, and looks at what it came to.
func (rd *round) over(against int) (came bool) {
	t, ctx := rd.t, rd.t.Context()
	waitFor(t, func() bool {
		for range rd.runners[0].Continue(ctx, rd.id, user) {
		}
		root, err := rd.r.store.Load(ctx, rd.id)
		must(t, err)
		child, err := rd.r.store.Load(ctx, rd.child.Session)
		must(t, err)
		return len(root.Calls) == 0 && len(root.Outbox)+len(child.Outbox)+len(root.Run.Leaving) == 0 &&
			root.Wake.IsZero() && child.Wake.IsZero() && !root.Held && !child.Held
	})
	root, err := rd.r.store.Load(ctx, rd.id)
	must(t, err)
	rec, _, err := rd.r.store.Record(ctx, rd.id, rd.call)
	if must(t, err); rec.Status == "" {
		t.Errorf("%s, %d: the call has no record", rd.id, against)
	}
	child, err := rd.r.store.Load(ctx, rd.child.Session)
	if must(t, err); len(child.Calls) > 0 || child.Deleted.IsZero() && child.Finish == "" {
		t.Errorf("%s, %d: the child is not over: %+v", rd.id, against, child)
	}
	used := root.Run.Usage.Input
	if used != 0 && used != 7 {
		t.Errorf("%s, %d: what the child used counts as %d", rd.id, against, used)
	}
	if rec.Actor == "agent:helper" && string(rec.Output.JSON()) == `"Worked."` {
		if came = true; used != 7 {
			t.Errorf("%s, %d: the child has worked, and what it used counts as %d", rd.id, against, used)
		}
	}
	return came
}
