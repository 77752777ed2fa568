package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// TestWhoEndsARunFirst: of several that end a run with calls open, be it somebody or a fatal error, the first one has, and every call is told of
// that one.
func TestWhoEndsARunFirst(t *testing.T) {
	for name, test := range map[string]struct {
		fatal, after, twice bool // a fatal error, after the cancellation or before it; a second cancellation
		finish              event.Finish
		by, why             string
	}{
		"a cancellation, then a fatal error":     {true, true, false, event.FinishCancelled, "bob", "the run was ended: enough"},
		"a fatal error, then a cancellation":     {true, false, false, event.FinishFailed, "", "the run was ended."},
		"a cancellation, and another one's":      {false, true, true, event.FinishCancelled, "bob", "the run was ended: enough"},
		"a cancellation, and nothing but bodies": {false, true, false, event.FinishCancelled, "bob", "the run was ended: enough"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				act := does(tool.Spec{Name: "act", MayPause: true}, func(ctx context.Context, what string) (tool.Result[textOut], error) {
					switch {
					case what == "wait":
						return tool.Pending[textOut](tool.Await{}), nil
					case what == "slow":
						time.Sleep(time.Second)
					case what == "ignore":
						time.Sleep(time.Hour)
					case what == "obey", test.after:
						<-ctx.Done()
					}
					if what == "fail" && test.fatal {
						return nil, tool.Fatal(errLicense)
					}
					return nil, errors.New("stopped")
				})
				r := newRig(t, agent.Config{
					Model: fakellm.New(asks("act", "wait", "ignore", "slow", "obey", "fail"), fakellm.Says("I see.")), Concurrency: 8, Tools: []tool.Tool{act},
				}, &rigOptions{memory: true})
				ended := make(chan []event.Event)
				go func() {
					var seen []event.Event
					for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
						if err != nil && !(test.fatal && errors.Is(err, errLicense)) {
							t.Error(err)
						}
						seen = append(seen, ev)
					}
					ended <- seen
				}()
				synctest.Wait()
				must(t, r.CancelSession(t.Context(), chat, "bob", "enough"))
				if test.twice {
					must(t, r.CancelSession(t.Context(), chat, "eve", "too much"))
				}
				results := 0
				for _, ev := range <-ended {
					switch e := ev.(type) {
					case event.Result:
						if results++; e.Status != event.Failed && (e.By != test.by || !strings.Contains(string(e.Result.Output), test.why)) {
							t.Errorf("a call is %s by %q: %s", e.Status, e.By, e.Result.Output)
						}
					case event.End:
						if e.Finish != test.finish {
							t.Errorf("it ended as %s", e.Finish)
						}
					}
				}
				if results != 5 {
					t.Errorf("%d results", results)
				}
				r.acceptable()
				time.Sleep(2 * time.Hour) // what ignores its context ends
			})
		})
	}
}
