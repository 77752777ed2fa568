package runner_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// What an await tells of handles that had stopped before is told by no notice
// as well, also of more than a result can note.
func TestWhatAnAwaitTellsIsToldOnce(t *testing.T) {
	for _, n := range []int{2, tool.MaxEnds + 5} {
		turn, names := fakellm.Calls("await", `{"all":["none"]}`), make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("h%02d", i)
			turn = turn.And("build", `{"action":"spawn","id":"`+names[i]+`","target":"x"}`)
		}
		var r *rig
		// The model is slow: it is asked before the handles stop, and answers
		// after that.
		goOn := make(chan struct{})
		slow := stateful(t, "build", tool.Once,
			func(_ context.Context, in target) (tool.Result[string], error) {
				<-goOn
				return tool.Done("built " + in.Target), nil
			})
		model := fakellm.New(turn, fakellm.From(func(llm.Request) fakellm.Turn {
			close(goOn)
			for r.openHandles() > 0 {
				runtime.Gosched()
			}
			return fakellm.Calls("await", `{"all":["`+strings.Join(names, `","`)+`"]}`)
		}), fakellm.Says("All."))
		r = newRig(t, agent.Config{Tools: []tool.Tool{slow}, Model: model},
			&rigOptions{memory: true})
		if s := r.say("Go."); s.end.Finish != event.FinishStop {
			t.Fatalf("%+v, %v", s.end, s.err)
		}
		for _, m := range r.transcript().History {
			for _, p := range m.Parts {
				if notice, is := p.(llm.Notice); is {
					t.Errorf("of %d, the end of %s is told again", n, notice.Handle)
				}
			}
		}
		must(t, r.Close())
		r.sound()
	}
}

// openHandles counts the handles of the session that it takes for open.
func (r *rig) openHandles() (n int) {
	for h, err := range r.store.AllHandles(r.t.Context(), chat) {
		must(r.t, err)
		if h.Open() {
			n++
		}
	}
	return n
}

// A handle that the model was told has stopped leaves its name free.
func TestTheNameOfAnAbortedHandleIsFree(t *testing.T) {
	asks := stateful(t, "build", tool.Idempotent,
		func(_ context.Context, in target) (tool.Result[string], error) {
			if in.Target == "y" {
				return tool.Done("built y"), nil
			}
			return tool.NeedInput[string]("Which compiler?"), nil
		})
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
		fakellm.Calls("build", `{"action":"abort","id":"a"}`),
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"y"}`),
		fakellm.Calls("await", `{"all":["a"]}`), fakellm.Says("Done."))
	for range testlength.Part(4, 20) {
		r := newRig(t, agent.Config{Tools: []tool.Tool{asks}, Model: model}, nil)
		if s := r.say("Go."); s.end.Finish != event.FinishStop {
			t.Fatalf("%+v, %v", s.end, s.err)
		}
		if got := r.outputs(); !strings.Contains(got[3], "built y") {
			t.Fatalf("%q", got)
		}
		must(t, r.Close())
		r.sound()
	}
}

// While a handle waits for a person, and no call is open, a message is taken.
func TestAMessageIsTakenWhileAHandleWaits(t *testing.T) {
	asks := stateful(t, "build", tool.Idempotent,
		func(context.Context, target) (tool.Result[string], error) {
			return tool.NeedInput[string]("Which compiler?"), nil
		})
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
		fakellm.Calls("await", `{"all":["a"]}`),
		fakellm.Calls("build", `{"action":"abort","id":"a"}`), fakellm.Says("Aborted."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{asks}, Model: model}, nil)
	if s := r.say("Go."); s.end.Finish != event.FinishPaused {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	if s := r.say("Stop it."); s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v", s.end, s.err)
	}
	if got := r.outputs(); !strings.Contains(got[1], `"interrupted":true`) {
		t.Errorf("%q", got)
	}
	must(t, r.Close())
	r.sound()
}
