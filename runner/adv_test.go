package runner_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// scripted answers with events.
type scripted [][]llm.Event

func (s *scripted) Generate(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		next := (*s)[0]
		*s = (*s)[1:]
		for _, e := range next {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestRefusedCallsAreNotRun: after a refusal, what the model asked for before is not what it, or the filter, means.
func TestRefusedCallsAreNotRun(t *testing.T) {
	ran := 0
	wipe := tool.Must(tool.Func(tool.Spec{Name: "wipe", Description: "Wipes the disk."},
		func(_ context.Context, in struct {
			Disk string `json:"disk"`
		}) (tool.Result[string], error) {
			ran++
			return tool.Done("wiped"), nil
		}))
	model := &scripted{
		{llm.TextDelta{Text: "I can't."}, llm.ToolCallDelta{ProviderID: "c", Name: "wipe", Arguments: `{"disk":"/"}`}, llm.Finish{Reason: llm.StopRefusal}},
		{llm.TextDelta{Text: "ok"}, llm.Finish{Reason: llm.StopEnd}},
	}
	r := newRig(t, agent.Config{Tools: []tool.Tool{wipe}, Model: model}, nil)
	for range r.Run(t.Context(), user, chat, llm.UserText("Wipe."), nil) {
	}
	if ran != 0 {
		t.Errorf("ran %d times after a refusal", ran)
	}
}

// TestMediaWithStrangeTexts: what a tool makes is text that every provider parses.
func TestMediaWithStrangeTexts(t *testing.T) {
	shoot := tool.Must(tool.Func(tool.Spec{Name: "shoot", Description: "Takes a picture."},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.With(tool.Done("shot"), tool.Action{Media: &llm.Media{MediaType: "image/png", Name: "a\xffb<&>", Data: []byte{1}}},
				tool.Action{Media: &llm.Media{MediaType: "image/png", URL: "https://x/\xff?a=1&b=<2>"}}), nil
		}))
	model := fakellm.New(fakellm.Calls("shoot", `{}`), fakellm.Says("I see."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{shoot}, Model: model}, nil)
	r.say("Look.").finished(event.FinishStop)
	r.acceptable()
	m := model.Requests()[1].Messages[2].Parts[0].(llm.ToolResult).Media
	if len(m) != 2 || !strings.Contains(m[1].URL, "&b=<2>") || !strings.Contains(m[0].Name, "<&>") {
		t.Errorf("%+v", m)
	}
}

// TestManyLargeMedia: a turn's results may be large together, and are still one message.
func TestManyLargeMedia(t *testing.T) {
	shoot := tool.Must(tool.Func(tool.Spec{Name: "shoot", Description: "Takes a picture."},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.With(tool.Done("shot"), tool.Action{Media: &llm.Media{MediaType: "image/png", Data: make([]byte, 1<<20-100)}}), nil
		}))
	calls := fakellm.Calls("shoot", `{}`)
	for range 15 {
		calls = calls.And("shoot", `{}`)
	}
	model := fakellm.New(calls, fakellm.Says("I see."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{shoot}, Model: model}, nil)
	r.say("Look.").finished(event.FinishStop)
	r.restart()
	if got := r.transcript().History[2].Parts; len(got) != 16 || len(got[15].(llm.ToolResult).Media) != 1 {
		t.Errorf("%d results", len(got))
	}
}

// TestMediaOfApprovedCall: what a call made before a gate's pause goes with it over a crash, and with an answer from outside.
func TestMediaOfACallThatWaitsForOutput(t *testing.T) {
	job := tool.Must(tool.Func(tool.Spec{Name: "job", Description: "Does it.", MayPause: true},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.With(tool.Pending[string](tool.Await{}), tool.Action{Media: &llm.Media{MediaType: "image/png", Data: []byte{1}}}), nil
		}))
	model := fakellm.New(fakellm.Calls("job", `{}`), fakellm.Says("I see."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{job}, Model: model}, nil)
	p := r.say("Look.").finished(event.FinishPaused).pause("job")
	r.restart()
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, []byte(`"done"`), user))
	must(t, err)
	r.restart()
	for _, err := range r.Continue(t.Context(), chat) {
		must(t, err)
	}
	if m := model.Requests()[1].Messages[2].Parts[0].(llm.ToolResult).Media; len(m) != 1 {
		t.Errorf("%+v", m)
	}
}
