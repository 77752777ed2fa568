package runner_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/handle"
)

// asksWhen is a tool that asks its model which compiler to take, once the gate
// is open. The answer is its result.
func asksWhen(t *testing.T, gate <-chan struct{}, p tool.HandlePolicy) tool.Tool {
	own, err := tool.Func(tool.Spec{Name: "build", MayPause: true, Effect: tool.Idempotent},
		func(ctx context.Context, _ target) (tool.Result[string], error) {
			select {
			case <-gate:
				return tool.Pending[string](tool.Await{Reason: tool.ReasonAssistant,
					Prompt: "Which compiler?"}), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	must(t, err)
	return tool.Must(handle.Stateful(own, &handle.Options{Asks: true, HandlePolicy: p}))
}

// A model that awaits a handle which asks it could never answer. So the question
// ends the await, whenever it comes: before the await, at any read or write of
// the run, or long after those.
func TestAQuestionForTheModelEndsAnAwait(t *testing.T) {
	t.Parallel()
	for _, policy := range []tool.HandlePolicy{{}, {NoWaiting: true}} {
		for n, later := 0, false; !later; n += testlength.Step(7) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				last := time.AfterFunc(10*time.Second, func() { later = true; close(gate) })
				var mu sync.Mutex
				step := 0
				moment := func() {
					mu.Lock()
					now := step == n && last.Stop()
					step++
					mu.Unlock()
					if now {
						close(gate)
						<-time.After(50 * time.Millisecond) // all others go on meanwhile
					}
				}
				model := fakellm.New(begin("a").And("await", `{"all":["a"]}`),
					fakellm.Calls("build", `{"action":"apply","id":"a","input":"gcc"}`),
					fakellm.Calls("await", `{"any":["a"]}`), fakellm.Says("Built."))
				r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{asksWhen(t, gate, policy)}},
					&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
						return &hooked{Store: kv, got: func([]byte) { moment() },
							apply: func(kvstore.Batch) { moment() }}
					}})
				r.say("Go.").finished(event.FinishStop)
				got := r.outputs()
				if len(got) != 4 || !strings.Contains(got[1], `"text":"Which compiler?"`) ||
					!strings.Contains(got[1], `"for":"assistant"`) || strings.Contains(got[1], "timed_out") ||
					!strings.Contains(got[3], `"result":"gcc"`) {
					t.Errorf("asked at step %d: %q", n, got)
				}
				must(t, r.Close())
				r.sound()
			})
		}
	}
}

// Each await of the handle ends, also one of very many more. Those of other
// handles don't, and a question for a person ends none.
func TestWhichAwaitsAQuestionEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		awaits []string
		want   []string
		asks   tool.Reason
	}{
		"two": {[]string{`{"all":["a"]}`, `{"any":["a","b"]}`}, []string{"question", "question"},
			tool.ReasonAssistant},
		"more than are registered at once": {[]string{awaitOf("a", 45)}, []string{"question"},
			tool.ReasonAssistant},
		"of another one": {[]string{`{"all":["b"],"timeout_secs":90}`}, []string{`"timed_out":true`},
			tool.ReasonAssistant},
		"for a person": {[]string{`{"all":["a"],"timeout_secs":90}`}, []string{`"timed_out":true`},
			tool.ReasonInput},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turn := begin("a").And("outside", `{"action":"spawn","id":"b","target":"x"}`)
				for i := range 45 {
					if name == "more than are registered at once" {
						turn = turn.And("outside", fmt.Sprintf(`{"action":"spawn","id":"h%d","target":"x"}`, i))
					}
				}
				for _, a := range test.awaits {
					turn = turn.And("await", a)
				}
				model := fakellm.New(turn, fakellm.Says("I see."))
				keep := tool.HandlePolicy{AtEnd: tool.KeepAtEnd}
				outside := underPolicy(t, "outside", tool.Idempotent, keep,
					func(context.Context, target) (tool.Result[string], error) {
						return tool.Pending[string](tool.Await{}), nil
					})
				r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{outside, asksLater(t, keep,
					tool.Await{Reason: test.asks, Prompt: "Which compiler?"})}}, &rigOptions{memory: true})
				s := r.say("Go.")
				if strings.Contains(test.want[0], "timed_out") {
					time.Sleep(time.Minute)
					s = r.carryOn()
				}
				s.finished(event.FinishStop)
				got := r.outputs()
				for i, want := range test.want {
					if out := got[len(got)-len(test.want)+i]; !strings.Contains(out, want) ||
						strings.Contains(out, "timed_out") != strings.Contains(want, "timed_out") {
						t.Errorf("%q", out)
					}
				}
				must(t, r.Close())
				r.sound()
			})
		})
	}
}

// awaitOf is an await of one handle, and of n more.
func awaitOf(first string, n int) string {
	all := `{"all":["` + first + `"`
	for i := range n {
		all += fmt.Sprintf(`,"h%d"`, i)
	}
	return all + "]}"
}
