package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// Many answer at once, by one runner or by two: one wins, all others are told
// by whom, and what follows happens once.
func TestManyAnswersAtOnce(t *testing.T) {
	const senders = 50
	for name, equal := range map[string]bool{"different": false, "equal": true} {
		for _, runners := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, runners: %d", name, runners), func(t *testing.T) {
				var n counter
				model := fakellm.New(fakellm.Calls("pipeline", `{"text":"a"}`),
					fakellm.Says("Done."))
				pipeline := stepping(1, func(int, string) { n.add("started") })
				r := newRig(t, agent.Config{Tools: []tool.Tool{pipeline}, Model: model}, nil)
				p := r.say("Go.").finished(event.FinishPaused).pause("pipeline")
				all := []*runner.Runner{r.Runner}
				if runners == 2 {
					all = append(all, r.another())
				}
				start := make(chan struct{})
				var race sync.WaitGroup
				var mu sync.Mutex
				winner, told := -1, map[string]int{}
				for i := range senders {
					race.Go(func() {
						answer := text(fmt.Sprint(i))
						if equal {
							answer = text("same")
						}
						<-start
						res, err := all[i%runners].Resume(t.Context(), chat,
							runner.Complete(p.ID, runner.Actor(fmt.Sprint(i)), answer))
						mu.Lock()
						var conflict *session.ConflictError
						switch {
						case errors.As(err, &conflict):
							told[conflict.Receipt.Actor]++
						case err != nil:
							t.Error(err)
						case res.Receipts[0].Duplicate:
							told[res.Receipts[0].Actor]++
						case winner >= 0:
							t.Errorf("%d and %d won", winner, i)
						default:
							winner = i
						}
						mu.Unlock()
						if err == nil { // each carries on that may
							for _, err := range res.Events(t.Context()) {
								if err != nil {
									t.Error(err)
								}
							}
						}
					})
				}
				close(start)
				race.Wait()
				if winner < 0 || told[fmt.Sprint(winner)] != senders-1 {
					t.Fatalf("%d won, and the others were told of %v", winner, told)
				}
				r.carryOn().finished(event.FinishStop)
				want := text(fmt.Sprint(winner))
				if equal {
					want = text("same")
				}
				if got := string(r.result(p.Call).Output); got != string(text(string(want))) {
					t.Errorf("the result is %s, and %d won", got, winner)
				}
				if calls := len(model.Requests()); calls != 2 || n.get("started") != 1 {
					t.Errorf("the model was called %d times, the job started %d times",
						calls, n.get("started"))
				}
				r.acceptable()
			})
		}
	}
}

// Fifty answers that differ come at once, through two runners on one store: one
// wins, is what the model reads, and is followed by one model call; the others
// are told so.
func TestTwoRunnersOneStore(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			var n counter
			var asked atomic.Int32
			script := messages(calls("confirm", `{"text":"j"}`), says("Done."))
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{confirming(&n)},
				Model: modelFunc(func(req llm.Request) []llm.Event {
					asked.Add(1)
					return script(req)
				}),
			}, &rigOptions{wrap: wrap})
			p := r.say("Go.").finished(event.FinishPaused).pause("confirm")
			runners := []*runner.Runner{r.Runner, r.another()}
			var won, conflicts, duplicates atomic.Int32
			start := make(chan struct{})
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					<-start
					answer := []byte(fmt.Sprint(i / 2)) // each comes twice
					res, err := runners[i%2].Resume(context.Background(), chat,
						runner.Complete(p.ID, "ci", answer))
					switch {
					case err == nil && res.Receipts[0].Duplicate:
						duplicates.Add(1)
					case err == nil:
						won.Add(1)
					case errors.Is(err, session.ErrResumeConflict):
						conflicts.Add(1)
						return
					default:
						t.Errorf("%v", err)
						return
					}
					for _, err := range res.Events(context.Background()) {
						if err != nil {
							t.Errorf("%v", err)
						}
					}
				})
			}
			close(start)
			all.Wait()
			r.carryOn().finished(event.FinishStop)
			if won.Load() != 1 || duplicates.Load() != 1 || conflicts.Load() != 48 {
				t.Errorf("%d won, %d were duplicates, %d conflicts", won.Load(),
					duplicates.Load(), conflicts.Load())
			}
			if asked.Load() != 2 || n.get("ask") != 1 || n.get("act") != 1 {
				t.Errorf("the model was called %d times, bodies were entered %v", asked.Load(), n.n)
			}
			r.result(p.Call)
			r.acceptable()
		})
	}
}

// confirming asks for a number, and acts on it, once.
func confirming(n *counter) tool.Tool {
	which := tool.NewQuestion[textOut, string, int]("which")
	return tool.Must(tool.Resumable(tool.Spec{Name: "confirm", Description: "c"},
		func(_ context.Context, _ textIn) (tool.Result[textOut], error) {
			n.add("ask")
			return which.Ask("How many?", "state"), nil
		},
		tool.On(which, func(_ context.Context, _ textIn, re tool.Reply[string, int]) (tool.Result[textOut], error) {
			n.add("act")
			return tool.Done(textOut{fmt.Sprint(re.Answer, re.State)}), nil
		})))
}

// A caller reads a pause just before it is answered, and the clock just after
// its deadline. It isn't told that the pause has expired.
func TestRefusalsRestOnWhatIsStored(t *testing.T) {
	for name, act := range map[string]func(late *runner.Runner, p tool.Pause) error{
		"extend": func(late *runner.Runner, p tool.Pause) error {
			return late.Extend(t.Context(), chat, p.ID, "ada", time.Time{})
		},
		"cancel": func(late *runner.Runner, p tool.Pause) error {
			_, err := late.Cancel(t.Context(), chat, p.Call, "ada", "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			at := newClock()
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
				Model: messages(calls("deploy", `{"text":"job-1"}`), says("I see.")),
			}, &rigOptions{memory: true, session: &session.Options{Now: at.now}})
			p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			answered := false
			now := func() time.Time {
				if !answered {
					answered = true
					_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
					must(t, err)
					at.pass(2 * time.Hour)
				}
				return at.now()
			}
			late, err := runner.New(nil, public.NewStore(r.kv, &session.Options{Now: now}), nil)
			must(t, err)
			defer late.Close()
			if err := act(late, p); !answered || errors.Is(err, session.ErrExpired) {
				t.Errorf("it is told %v", err)
			}
		})
	}
}

// TestAnswersWhileTheRunWrites: in the same millisecond, through two runners,
// while bodies of the same turn end: nothing is lost.
func TestAnswersWhileTheRunWrites(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			const each = 8
			let := make(chan struct{})
			act := does(tool.Spec{Name: "act", MayPause: true},
				func(_ context.Context, what string) (tool.Result[textOut], error) {
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
			r := newRig(t, agent.Config{
				Model: fakellm.New(asks("act", acts...), fakellm.Says("Done.")),
				Tools: []tool.Tool{act}, Concurrency: 2 * each,
			}, &rigOptions{wrap: wrap, session: &session.Options{Now: newClock().now}})
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
						_, err := rn.Resume(t.Context(), chat, runner.Complete(ev.Pause.ID, "ci",
							text(ev.Pause.Await.Key)))
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
