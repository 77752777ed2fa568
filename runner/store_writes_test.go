package runner_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// size is how large the rig's file is.
func (r *rig) size() int64 {
	r.t.Helper()
	info, err := os.Stat(r.path)
	must(r.t, err)
	return info.Size()
}

// TestSlowReadersHoldNothing: while somebody looks at one item of a list, or at one event, no transaction is open: commits go on,
// and the file doesn't grow by what is overwritten.
func TestSlowReadersHoldNothing(t *testing.T) {
	var n counter
	now := newClock()
	r := newRig(t, oneCall(waiting("job", tool.Once, &n)), &rigOptions{session: &session.Options{Now: now.now}})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	watch(t, r.Run(t.Context(), user, "chat-2", llm.UserText("Go."), nil)).finished(event.FinishPaused)
	flood := func() {
		before, commits := r.size(), r.faults.Commits()
		for range 200 {
			now.pass(time.Second) // each of them is written
			must(t, r.Progress(t.Context(), chat, p.Call, user, tool.Progress{Message: strings.Repeat("x", 1000)}))
		}
		if got := r.faults.Commits() - commits; got != 200 {
			t.Errorf("there were %d commits", got)
		}
		if after := r.size(); after > before+1<<20 {
			t.Errorf("the file grew from %d to %d bytes", before, after)
		}
	}
	for p, err := range r.Pending(t.Context(), session.PauseFilter{}, user) {
		must(t, err)
		if p.Session == chat {
			flood()
		}
	}
	for s, err := range r.Sessions(t.Context(), session.Filter{}, user) {
		must(t, err)
		if s.ID == chat {
			flood()
		}
	}
	for ev, err := range r.Follow(t.Context(), chat, user, nil) {
		must(t, err)
		if m, ok := ev.(event.Message); ok && m.Number == 0 {
			flood()
		}
	}
}

// TestFloodOfProgressIsCoalesced: it is shown at once, and written four times a second at most.
func TestFloodOfProgressIsCoalesced(t *testing.T) {
	var n counter
	now := newClock()
	r := newRig(t, oneCall(waiting("job", tool.Once, &n)), &rigOptions{session: &session.Options{Now: now.now}})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	before := r.faults.Commits()
	for range 1000 {
		now.pass(time.Millisecond)
		must(t, r.Progress(t.Context(), chat, p.Call, user, tool.Progress{Message: "x"}))
	}
	if got := r.faults.Commits() - before; got > 5 {
		t.Errorf("a second of it took %d commits", got)
	}
}

// TestWritesAreOfWhatIsNew: a turn of a long session writes what a turn of a short one does.
func TestWritesAreOfWhatIsNew(t *testing.T) {
	const turns = 100
	large := does(tool.Spec{Name: "large"}, func(_ context.Context, s string) (tool.Result[textOut], error) {
		return tool.Done(textOut{strings.Repeat(s, 20_000)}), nil
	})
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("large", `{"text":"x"}`).Times(turns), fakellm.Says("Done.")), Tools: []tool.Tool{large},
		Limits: agent.Limits{Turns: turns + 1},
	}, nil)
	var written []int // after each turn
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		must(t, err)
		if _, ok := ev.(event.Call); ok {
			bytes := 0
			for _, c := range r.faults.Calls() {
				bytes += c.Bytes
			}
			written = append(written, bytes)
		}
	}
	early, late := written[20]-written[10], written[turns-1]-written[turns-11]
	if float64(late) > 1.02*float64(early) {
		t.Errorf("ten early turns wrote %d bytes, ten late ones %d", early, late)
	}
	if perTurn := late / 10; perTurn > 3*20_000 {
		t.Errorf("a turn with a result of 20 kB writes %d bytes", perTurn)
	}
	r.acceptable()
}

// TestAnswersWhileTheRunWrites: in the same millisecond, through two runners, while bodies of the same turn end: nothing is lost.
func TestAnswersWhileTheRunWrites(t *testing.T) {
	for name, o := range map[string]rigOptions{"exclusive": {}, "shared": {wrap: hidden}} {
		t.Run(name, func(t *testing.T) {
			const each = 8
			let := make(chan struct{})
			act := does(tool.Spec{Name: "act", MayPause: true}, func(_ context.Context, what string) (tool.Result[textOut], error) {
				if strings.HasPrefix(what, "job") {
					return tool.Pending[textOut](tool.Await{Key: what}), nil
				}
				<-let
				return tool.Done(textOut{what}), nil
			})
			var acts []string
			for i := range each {
				acts = append(acts, fmt.Sprint("job ", i), fmt.Sprint("own ", i))
			}
			o.session = &session.Options{Now: newClock().now}
			r := newRig(t, agent.Config{Model: fakellm.New(asks("act", acts...), fakellm.Says("Done.")), Tools: []tool.Tool{act}, Concurrency: 2 * each}, &o)
			runners := []*runner.Runner{r.Runner, r.another()}
			var wg sync.WaitGroup
			pauses := 0
			var end event.End
			for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
				must(t, err)
				switch ev := ev.(type) {
				case event.Pause:
					rn := runners[pauses%2]
					wg.Go(func() {
						<-let
						_, err := rn.Resume(t.Context(), chat, runner.Complete(ev.Pause.ID, "ci", text(ev.Pause.Await.Key)))
						if err != nil {
							t.Error(err)
						}
					})
					if pauses++; pauses == each {
						close(let)
					}
				case event.End:
					end = ev
				}
			}
			wg.Wait()
			if end.Finish != event.FinishStop {
				r.carryOn().finished(event.FinishStop)
			}
			for i, c := range r.transcript().History[1].ToolCalls() {
				if got := string(r.result(c.ID).Output); got != string(text(acts[i])) {
					t.Errorf("result %d is %s, not of %q", i, got, acts[i])
				}
			}
			r.acceptable()
		})
	}
}
