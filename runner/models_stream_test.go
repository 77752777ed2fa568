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

// TestStreamBreaksOff: after any number of events. Nothing of the torso is
// stored, no tool is run for it, and the model is asked again; what it says
// then is stored once.
func TestStreamBreaksOff(t *testing.T) {
	whole := fakellm.Reasons("Hm.").Says("I will look.").And("look", `{"text":"a"}`).And("look",
		`{"text":"b"}`).Chunks(5)
	for cut := range 12 {
		for name, broken := range map[string]fakellm.Turn{
			"without an error": whole.Cut(cut),
			"with an error":    whole.Breaks(cut, &llm.Error{Kind: llm.ErrNetwork}),
		} {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				r := newRig(t, agent.Config{
					Model: fakellm.New(broken.Times(2), whole, broken, fakellm.Says("Seen.")),
					Tools: []tool.Tool{instant("look", tool.Once, &n)},
				}, &rigOptions{memory: true})
				run := r.say("Go.").finished(event.FinishStop)
				if n.get("look") != 2 || len(r.transcript().History) != 4 {
					t.Errorf("cut at %d %s: the body was entered %d times, and there are %d messages", cut, name, n.get("look"), len(r.transcript().History))
				}
				if got := len(of[event.Call](run)); got != 2 {
					t.Errorf("cut at %d %s: %d calls were shown", cut, name, got)
				}
				r.acceptable()
			})
		}
	}
}

// TestStreamFails: an error that doesn't pass by itself ends the run, and
// Continue asks again.
func TestStreamFails(t *testing.T) {
	for name, broken := range map[string]fakellm.Turn{
		"at once": fakellm.Fails(&llm.Error{Kind: llm.ErrAuth}),
		"in the middle": fakellm.Says("I will look.").And("look", `{"text":"a"}`).Breaks(2,
			&llm.Error{Kind: llm.ErrRefused}),
		"with any error": fakellm.Fails(errors.New("no route")),
		"malformed": fakellm.Events(llm.ToolCallDelta{Index: 0, Arguments: `{"text":"a"}`},
			llm.Finish{Reason: llm.StopToolCalls}),
		"context too long": fakellm.Fails(&llm.Error{Kind: llm.ErrContextTooLong}),
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			bad := true
			model := switching{func() llm.Model {
				if bad {
					return fakellm.New(broken, broken)
				}
				return fakellm.New(fakellm.Calls("look", `{"text":"a"}`), fakellm.Says("Seen."))
			}}
			r := newRig(t, agent.Config{
				Model: model, Tools: []tool.Tool{instant("look", tool.Once, &n)},
			}, nil)
			run := r.say("Go.")
			if run.end.Finish != event.FinishFailed || run.err == nil || n.get("look") != 0 ||
				len(r.transcript().History) != 1 {
				t.Errorf("the run ended as %q with %v; %d messages are stored", run.end.Finish,
					run.err, len(r.transcript().History))
			}
			bad = false
			r.restart()
			r.carryOn().finished(event.FinishStop)
			if n.get("look") != 1 {
				t.Errorf("the body was entered %d times", n.get("look"))
			}
			r.acceptable()
		})
	}
}

// TestCutOffCall: a call whose arguments the limit of tokens has cut off isn't
// run with those that came.
func TestCutOffCall(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("look", `{"text":"a`).Stop(llm.StopLength),
			fakellm.Says("Once more.").Stop(llm.StopLength)),
		Tools: []tool.Tool{instant("look", tool.Once, &n)},
	}, nil)
	run := r.say("Go.").finished(event.FinishLength)
	if res := of[event.Result](run); n.get("look") != 0 || len(res) != 1 ||
		!strings.Contains(string(res[0].Result.Output), "arguments must be one JSON object") {
		t.Errorf("the body was entered %d times; the result is %v", n.get("look"), res)
	}
	r.acceptable()
}

// TestModelIsLeftInTheMiddle: of a stream, by the end of the context. Nothing
// of it is stored.
func TestModelIsLeftInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, agent.Config{
			Model: fakellm.New(fakellm.Says("A long story.").Chunks(2).Delay(time.Second,
				time.Second)),
		}, &rigOptions{memory: true})
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		run := watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil))
		if run.end.Finish != event.FinishInterrupted || !errors.Is(run.err,
			context.DeadlineExceeded) || len(r.transcript().History) != 1 {
			t.Errorf("the run ended as %q with %v; %d messages are stored", run.end.Finish, run.err,
				len(r.transcript().History))
		}
		r.carryOn().finished(event.FinishStop)
		if got := r.transcript().History[1].Text(); got != "A long story." {
			t.Errorf("the model said %q", got)
		}
	})
}
