package runner_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestStreamBreaksOff: after any number of events. Nothing of the torso is stored, no tool is run for it, and the model is asked
// again; what it says then is stored once.
func TestStreamBreaksOff(t *testing.T) {
	whole := fakellm.Reasons("Hm.").Says("I will look.").And("look", `{"text":"a"}`).And("look", `{"text":"b"}`).Chunks(5)
	for cut := range 12 {
		for name, broken := range map[string]fakellm.Turn{
			"without an error": whole.Cut(cut), "with an error": whole.Breaks(cut, &llm.Error{Kind: llm.ErrNetwork}),
		} {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				r := newRig(t, agent.Config{
					Model: fakellm.New(broken.Times(2), whole, broken, fakellm.Says("Seen.")), Tools: []tool.Tool{instant("look", tool.Once, &n)},
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

// TestStreamFails: an error that doesn't pass by itself ends the run, and Continue asks again.
func TestStreamFails(t *testing.T) {
	for name, broken := range map[string]fakellm.Turn{
		"at once":          fakellm.Fails(&llm.Error{Kind: llm.ErrAuth}),
		"in the middle":    fakellm.Says("I will look.").And("look", `{"text":"a"}`).Breaks(2, &llm.Error{Kind: llm.ErrRefused}),
		"with any error":   fakellm.Fails(errors.New("no route")),
		"malformed":        fakellm.Events(llm.ToolCallDelta{Index: 0, Arguments: `{"text":"a"}`}, llm.Finish{Reason: llm.StopToolCalls}),
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
			r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{instant("look", tool.Once, &n)}}, nil)
			run := r.say("Go.")
			if run.end.Finish != event.FinishFailed || run.err == nil || n.get("look") != 0 || len(r.transcript().History) != 1 {
				t.Errorf("the run ended as %q with %v; %d messages are stored", run.end.Finish, run.err, len(r.transcript().History))
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

// switching is the model that f returns at the time.
type switching struct{ f func() llm.Model }

func (s switching) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return s.f().Generate(ctx, r)
}

// TestWhatModelsSayIsAcceptable: whatever a model sends, what is stored of it is what every provider takes back; the run ends,
// and the next message is answered.
func TestWhatModelsSayIsAcceptable(t *testing.T) {
	look := llm.ToolCall{Name: "look", Arguments: text("a")}
	for name, parts := range map[string][]llm.Part{
		"nothing":                      {},
		"an empty text":                {llm.Text{}},
		"white space":                  {llm.Text{Text: " \n"}},
		"white space and a call":       {llm.Text{Text: " \n"}, look},
		"reasoning only":               {llm.Reasoning{Text: "Hm."}},
		"a result of its own":          {llm.ToolResult{Call: "c1", Name: "look", Output: text("a")}},
		"a result and a call":          {llm.ToolResult{Call: "c1", Name: "look", Output: text("a")}, look},
		"a picture":                    {llm.Media{MediaType: "image/png", Data: []byte{1}}},
		"a picture without data":       {llm.Media{MediaType: "image/png"}},
		"a part without a type":        {llm.Unknown{Type: "", Raw: []byte(`{}`)}},
		"something opaque":             {llm.Opaque{Native: llm.Native{Provider: "acme", Data: []byte(`{"a":1}`)}}},
		"an opaque part without data":  {llm.Opaque{}},
		"an unknown part without data": {llm.Unknown{Type: "new"}},
		"opaque data that is no JSON":  {llm.Opaque{Native: llm.Native{Provider: "acme", Data: []byte(`{`)}}},
		"native data that is no JSON":  {llm.Text{Text: "a", Native: &llm.Native{Provider: "acme", Data: []byte("\xff")}}},
		"two calls with one id":        {look, look},
		"a call without arguments":     {llm.ToolCall{Name: "look"}},
		"a call with an id of its own": {llm.ToolCall{ID: "mine", Name: "look", Arguments: text("a")}},
		"a call without a name":        {llm.ToolCall{Arguments: text("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r := newRig(t, agent.Config{
				Model: messages(parts, says("Well."), says("Hello."), says("Hello.")), Tools: []tool.Tool{instant("look", tool.Once, &n)},
				Retry: agent.Retry{Failures: -1},
			}, nil)
			run := r.say("Go.")
			if (run.end.Finish == event.FinishFailed) != (run.err != nil) || run.err != nil && r.transcript().Finish != event.FinishFailed {
				t.Errorf("the run ended as %q with %v; the session is shown as %q", run.end.Finish, run.err, r.transcript().Finish)
			}
			r.acceptable()
			r.restart()
			r.acceptable()
			if run.err == nil {
				r.say("Hello?").finished(run.end.Finish) // of a message with nothing in it nothing is stored: the model says it again
				r.acceptable()
			}
		})
	}
}

// TestCutOffCall: a call whose arguments the limit of tokens has cut off is not run with what there is of them.
func TestCutOffCall(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Model: fakellm.New(fakellm.Calls("look", `{"text":"a`).Stop(llm.StopLength), fakellm.Says("Once more.").Stop(llm.StopLength)),
		Tools: []tool.Tool{instant("look", tool.Once, &n)},
	}, nil)
	run := r.say("Go.").finished(event.FinishLength)
	if res := of[event.Result](run); n.get("look") != 0 || len(res) != 1 || !strings.Contains(string(res[0].Result.Output), "arguments must be one JSON object") {
		t.Errorf("the body was entered %d times; the result is %v", n.get("look"), res)
	}
	r.acceptable()
}

// TestModelIsLeftInTheMiddle: of a stream, by the end of the context. Nothing of it is stored.
func TestModelIsLeftInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, agent.Config{
			Model: fakellm.New(fakellm.Says("A long story.").Chunks(2).Delay(time.Second, time.Second)),
		}, &rigOptions{memory: true})
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		run := watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil))
		if run.end.Finish != event.FinishInterrupted || !errors.Is(run.err, context.DeadlineExceeded) || len(r.transcript().History) != 1 {
			t.Errorf("the run ended as %q with %v; %d messages are stored", run.end.Finish, run.err, len(r.transcript().History))
		}
		r.carryOn().finished(event.FinishStop)
		if got := r.transcript().History[1].Text(); got != "A long story." {
			t.Errorf("the model said %q", got)
		}
	})
}

// TestWhatUsersSayIsAcceptable: a message that providers would refuse is refused before it is stored, and leaves no session.
func TestWhatUsersSayIsAcceptable(t *testing.T) {
	for name, parts := range map[string][]llm.Part{
		"nothing": {}, "an empty text": {llm.Text{}}, "white space": {llm.Text{Text: " \n"}}, "a blank beside a word": {llm.Text{Text: "Hi."}, llm.Text{}},
		"a picture without data": {llm.Media{MediaType: "image/png"}}, "a picture without a type": {llm.Media{Data: []byte{1}}},
		"a call": {llm.ToolCall{Name: "look"}}, "a result": {llm.ToolResult{Call: "c1"}}, "reasoning": {llm.Reasoning{Text: "Hm."}}, "nil": {nil},
	} {
		r := newRig(t, agent.Config{Model: fakellm.Echo()}, &rigOptions{memory: true})
		run := watch(t, r.Run(t.Context(), user, chat, llm.Message{Role: llm.RoleUser, Parts: parts}, nil))
		if !errors.Is(run.err, session.ErrInvalidMessage) {
			t.Errorf("%s: %v", name, run.err)
		}
		if _, err := r.Show(t.Context(), chat, user); !errors.Is(err, session.ErrUnknownSession) {
			t.Errorf("%s: there is a session: %v", name, err)
		}
	}
	r := newRig(t, agent.Config{Model: fakellm.Echo()}, &rigOptions{memory: true})
	for _, role := range []llm.Role{"", llm.RoleAssistant, llm.RoleTool, "system"} {
		if err := watch(t, r.Run(t.Context(), user, chat, llm.Message{Role: role, Parts: says("Hi.")}, nil)).err; !errors.Is(err, session.ErrInvalidMessage) {
			t.Errorf("role %q: %v", role, err)
		}
	}
	watch(t, r.Run(t.Context(), user, chat, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{
		llm.Text{Text: "Look at this."}, llm.Media{MediaType: "image/png", Data: []byte{1}}, llm.Media{MediaType: "image/png", URL: "https://example.com/a.png"},
	}}, nil)).finished(event.FinishStop)
	r.acceptable()
}

// TestATurnIsShownInOneOrder: what waited, what came of it, and then what the
// model says of it, to the driver as to those who follow.
func TestATurnIsShownInOneOrder(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n), instant("weather", tool.ReadOnly, &n)},
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`).And("weather", `{"text":"Oslo"}`), fakellm.Says("Done.")),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
	kinds := func(events []event.Event) (kinds []string) {
		for _, ev := range events {
			if m, ok := ev.(event.Message); ok {
				kinds = append(kinds, fmt.Sprint(m.Number, " ", m.Message.Role))
			} else {
				kinds = append(kinds, strings.TrimPrefix(fmt.Sprintf("%T", ev), "event."))
			}
		}
		return kinds
	}
	run := r.answer(runner.Complete(p.ID, "ci", text("v2"))).finished(event.FinishStop)
	if diff := cmp.Diff([]string{"Result", "2 tool", "TextDelta", "3 assistant", "End"}, kinds(run.events)); diff != "" {
		t.Errorf("its driver is shown (-want +got):\n%s", diff)
	}
	follower := watch(t, r.Follow(t.Context(), chat, user, &runner.FollowOptions{From: 2}))
	if diff := cmp.Diff([]string{"2 tool", "3 assistant", "End"}, kinds(follower.events)); diff != "" {
		t.Errorf("a follower is shown (-want +got):\n%s", diff)
	}
}
