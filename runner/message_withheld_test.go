package runner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A turn that a message supersedes may be closed twice, where another one
// denies a call of it meanwhile. What was withheld of the first time is shown
// the second time.
func TestResultsOfATurnThatIsSupersededTwice(t *testing.T) {
	for n, struck := 1, true; struck; n++ {
		t.Run(fmt.Sprint("before write ", n), func(t *testing.T) {
			struck = false
			var entered counter
			r := newRig(t, agent.Config{
				Tools:        []tool.Tool{instant("refund", tool.Once, &entered), instant("pay", tool.Once, &entered)},
				Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund", "pay"}})},
				Model: fakellm.New(fakellm.Calls("refund", `{"text":"a"}`).And("pay", `{"text":"b"}`), fakellm.Says("I see."),
					fakellm.Says("Sure.")),
			}, &rigOptions{memory: true})
			p := r.say("Refund and pay.").finished(event.FinishPaused).pause("refund")
			other := r.another()
			r.atApply(n, func() {
				struck = true
				_, err := other.Resume(t.Context(), chat, runner.Deny(p.ID, "eve", ""))
				if err != nil && !errors.Is(err, session.ErrSettled) {
					t.Error(err)
				}
			})
			shown := 0
			for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("No, wait."), &runner.RunOptions{Supersede: true}) {
				must(t, err)
				if ev, ok := ev.(event.Message); ok && ev.Message.Role == llm.RoleTool {
					shown++
				}
			}
			if shown != 1 {
				t.Errorf("the message with the turn's results was shown %d times", shown)
			}
			r.acceptable()
		})
	}
}

// atReads is an engine before whose reads others do something.
type atReads struct {
	kvstore.Exclusive
	reads int
	do    func(read int)
}

func (s *atReads) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if s.do != nil {
		do := s.do
		s.do = nil // what it does reads, too
		s.reads++
		do(s.reads)
		s.do = do
	}
	return s.Exclusive.Get(ctx, key)
}

// While a message supersedes two calls, others extend the deadline of one, and
// then cancel it, before any two reads of the run. What was to be shown as
// denied is shown as what it is, and once.
func TestSupersededCallThatIsCancelledMeanwhile(t *testing.T) {
	const reads = 12
	for first := 1; first < reads; first++ {
		for second := first + 1; second < min(reads, first+5); second++ {
			t.Run(fmt.Sprintf("before reads %d and %d", first, second), func(t *testing.T) {
				supersedesBesideACancel(t, first, second)
			})
		}
	}
}

func supersedesBesideACancel(t *testing.T, first, second int) {
	var entered counter
	var engine *atReads
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{instant("refund", tool.Once, &entered), instant("pay", tool.Once, &entered)},
		Interceptors: interceptor.Chain{interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"refund", "pay"}})},
		Model: fakellm.New(fakellm.Calls("refund", `{"text":"a"}`).And("pay", `{"text":"b"}`), fakellm.Says("I see."),
			fakellm.Says("Sure.")),
	}, &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
		engine = &atReads{Exclusive: kv.(kvstore.Exclusive)}
		return engine
	}})
	p := r.say("Refund and pay.").finished(event.FinishPaused).pause("refund")
	other := r.another()
	engine.do = func(read int) {
		switch read {
		case first:
			if err := other.Extend(t.Context(), chat, p.ID, "eve", time.Now().Add(time.Hour)); err != nil {
				t.Log(err) // the message was faster
			}
		case second:
			if _, err := other.Cancel(t.Context(), chat, p.Call, "eve", ""); err != nil {
				t.Log(err)
			}
		}
	}
	shown := map[string]event.Status{}
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("No, wait."), &runner.RunOptions{Supersede: true}) {
		must(t, err)
		if ev, ok := ev.(event.Result); ok {
			if was, twice := shown[ev.Result.Call]; twice {
				t.Errorf("%s is shown as %s, and then as %s", ev.Result.Name, was, ev.Status)
			}
			shown[ev.Result.Call] = ev.Status
		}
	}
	engine.do = nil
	for call, status := range shown {
		if is, err := other.Call(t.Context(), chat, call, user); err != nil || is.Settled != status {
			t.Errorf("%s was shown as %s, and is %s, %v", is.Tool, status, is.Settled, err)
		}
	}
	if len(shown) != 2 {
		t.Errorf("shown were %v", shown)
	}
	r.acceptable()
}
