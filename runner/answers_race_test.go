package runner_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// Many answer at once, by one runner or by two: one wins, all others are told by whom, and what follows happens once.
func TestManyAnswersAtOnce(t *testing.T) {
	const senders = 50
	for name, equal := range map[string]bool{"different": false, "equal": true} {
		for _, runners := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, runners: %d", name, runners), func(t *testing.T) {
				var n counter
				model := fakellm.New(fakellm.Calls("pipeline", `{"text":"a"}`), fakellm.Says("Done."))
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
						res, err := all[i%runners].Resume(t.Context(), chat, runner.Complete(p.ID, runner.Actor(fmt.Sprint(i)), answer))
						mu.Lock()
						var conflict *session.ConflictError
						switch {
						case errors.As(err, &conflict):
							told[conflict.Receipt.By]++
						case err != nil:
							t.Error(err)
						case res.Receipts[0].Duplicate:
							told[res.Receipts[0].By]++
						case winner >= 0:
							t.Errorf("%d and %d won", winner, i)
						default:
							winner = i
						}
						mu.Unlock()
						if err == nil { // whoever may, carries on
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
					t.Errorf("the model was called %d times, the job started %d times", calls, n.get("started"))
				}
				r.acceptable()
			})
		}
	}
}
