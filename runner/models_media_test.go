package runner_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func picture(name string, size int) llm.Media {
	return llm.Media{MediaType: "image/png", Name: name, Data: bytes.Repeat([]byte{0xff}, size)}
}

// Media that a tool makes goes to the model with the result: what it made
// before its pause, in another process, too. Artifacts don't.
func TestMediaGoesToTheModelWithTheResult(t *testing.T) {
	show := func(m llm.Media) tool.Action { return tool.Action{Media: &m} }
	file := tool.Action{
		Artifact: &tool.Artifact{Name: "raw.dat",
			MediaType: "application/octet-stream", Data: []byte("raw")},
	}
	shoot := tool.Must(tool.Func(tool.Spec{Name: "shoot", Description: "Takes a picture."},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.With(tool.Done("shot"), file, show(picture("now.png", 10))), nil
		}))
	which := tool.NewQuestion[string, int, bool]("which")
	scan := tool.Must(tool.Resumable(tool.Spec{Name: "scan",
		Description: "Scans a page, if somebody turns it."},
		func(_ context.Context, _ struct{}) (tool.Result[string], error) {
			return tool.With(which.Ask("Turned?", 1), show(picture("one.png", 3000))), nil
		},
		tool.On(which, func(_ context.Context, _ struct{}, re tool.Reply[int, bool]) (tool.Result[string], error) {
			if !re.Answer {
				return nil, errors.New("the page was not turned")
			}
			return tool.With(tool.Done("scanned"), show(picture("two.png", 20)), file), nil
		})))
	for turned, want := range map[bool][]llm.Media{
		true: {picture("one.png", 3000), picture("two.png", 20)}, false: nil,
	} {
		model := fakellm.New(fakellm.Calls("shoot", `{}`).And("scan", `{}`), fakellm.Says("I see."))
		r := newRig(t, agent.Config{Tools: []tool.Tool{shoot, scan}, Model: model}, nil)
		seen := r.say("Look.").finished(event.FinishPaused)
		p := seen.pause("scan")
		if got := of[event.Result](seen); len(got) != 1 || !cmp.Equal(got[0].Result.Media,
			[]llm.Media{picture("now.png", 10)}) {
			t.Errorf("the result that was shown is %v", got)
		}
		if got := of[event.Artifact](seen); len(got) != 1 {
			t.Errorf("the artifacts that were shown are %v", got)
		}
		r.restart()
		answer := "false"
		if turned {
			answer = "true"
		}
		r.answer(runner.Complete(p.ID, user, []byte(answer))).finished(event.FinishStop)
		asked := model.Requests()[1].Messages[2]
		var got [][]llm.Media
		for _, part := range asked.Parts {
			got = append(got, part.(llm.ToolResult).Media)
		}
		if d := cmp.Diff([][]llm.Media{{picture("now.png", 10)}, want}, got); d != "" {
			t.Errorf("turned %v: the model saw (-want +got):\n%s", turned, d)
		}
		if d := cmp.Diff(asked, r.transcript().History[2]); d != "" {
			t.Errorf("the transcript differs from what the model saw:\n%s", d)
		}
		status, err := r.Call(t.Context(), chat, p.Call, user)
		must(t, err)
		if len(status.Media) == 0 || len(status.Artifacts) > 1 || turned &&
			!cmp.Equal(status.Media, want) {
			t.Errorf("the call has made %v and %v", status.Media, status.Artifacts)
		}
		r.acceptable()
	}
}

// Likewise where the answer is the output, whose commit rides with a later one.
func TestMediaOfAPauseGoesToTheModel(t *testing.T) {
	scan := tool.Must(tool.Func(tool.Spec{Name: "scan",
		Description: "Scans a page.", MayPause: true},
		func(context.Context, struct{}) (tool.Result[string], error) {
			m := picture("page.png", 3000)
			return tool.With(tool.NeedInput[string]("What does it say?"), tool.Action{Media: &m}), nil
		}))
	for _, restart := range []bool{false, true} {
		model := fakellm.New(fakellm.Calls("scan", `{}`), fakellm.Says("I see."))
		r := newRig(t, agent.Config{Tools: []tool.Tool{scan}, Model: model}, nil)
		p := r.say("Look.").finished(event.FinishPaused).pause("scan")
		if restart {
			r.restart()
		}
		seen := r.answer(runner.Complete(p.ID,
			user, []byte(`"fermata"`))).finished(event.FinishStop)
		want := []llm.Media{picture("page.png", 3000)}
		if got := of[event.Result](seen); len(got) != 1 || !cmp.Equal(got[0].Result.Media, want) {
			t.Errorf("the result that was shown is %v", got)
		}
		asked := model.Requests()[1].Messages[2]
		if got := asked.Parts[0].(llm.ToolResult).Media; !cmp.Equal(got, want) {
			t.Errorf("the model saw %v", got)
		}
		if d := cmp.Diff(asked, r.transcript().History[2]); d != "" {
			t.Errorf("the transcript differs from what the model saw:\n%s", d)
		}
		r.acceptable()
	}
}

// TestMediaWithStrangeTexts: what a tool makes is text that every provider
// parses.
func TestMediaWithStrangeTexts(t *testing.T) {
	shoot := tool.Must(tool.Func(tool.Spec{Name: "shoot", Description: "Takes a picture."},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.With(tool.Done("shot"),
				tool.Action{Media: &llm.Media{MediaType: "image/png",
					Name: "a\xffb<&>", Data: []byte{1}}},
				tool.Action{Media: &llm.Media{MediaType: "image/png",
					URL: "https://x/\xff?a=1&b=<2>"}}), nil
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

// TestManyLargeMedia: a turn's results may be large together, and are still one
// message.
func TestManyLargeMedia(t *testing.T) {
	t.Parallel()
	shoot := tool.Must(tool.Func(tool.Spec{Name: "shoot", Description: "Takes a picture."},
		func(context.Context, struct{}) (tool.Result[string], error) {
			return tool.With(tool.Done("shot"),
				tool.Action{Media: &llm.Media{MediaType: "image/png",
					Data: make([]byte, testlength.Part(4, 1<<20)-100)}}), nil
		}))
	calls := fakellm.Calls("shoot", `{}`)
	for range 15 {
		calls = calls.And("shoot", `{}`)
	}
	model := fakellm.New(calls, fakellm.Says("I see."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{shoot}, Model: model},
		&rigOptions{memory: true})
	r.say("Look.").finished(event.FinishStop)
	r.restart()
	if got := r.transcript().History[2].Parts; len(got) != 16 ||
		len(got[15].(llm.ToolResult).Media) != 1 {
		t.Errorf("%d results", len(got))
	}
}

// What a result has no room for is left out with a note, which the model reads
// once, as it is, with layers around the tool or without.
func TestModelIsToldWhatWasLeftOut(t *testing.T) {
	const limit = 1000
	first := picture("first.png", limit-len("first.png")-len("image/png"))
	second := picture("second.png", 500)
	draw := tool.Must(tool.Func(tool.Spec{Name: "draw"},
		func(context.Context, struct{}) (tool.Result[int], error) {
			file := &tool.Artifact{Name: "drawing.pdf",
				MediaType: "application/pdf", Data: second.Data}
			return tool.With(tool.Done(1), tool.Action{Media: &first}, tool.Action{Media: &second},
				tool.Action{Artifact: file}), nil
		}))
	same := func(next interceptor.ToolHandler) interceptor.ToolHandler { return next }
	for layers, chain := range []interceptor.Chain{nil, {{Name: "a", Tool: same}},
		{{Name: "a", Tool: same}, {Name: "b", Tool: same}}} {
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{draw}, Interceptors: chain, ToolLimits: tool.Limits{Result: limit},
			Model: fakellm.New(fakellm.Calls("draw", `{}`), fakellm.Says("Done.")),
		}, nil)
		seen := r.say("Go.").finished(event.FinishStop)
		got := of[event.Result](seen)[0].Result.Media
		if len(got) != 2 || !cmp.Equal(got[0], first) ||
			got[1].Name != `"second.png" was left out: 519 bytes, and at most 1000 are taken beside a result` {
			t.Errorf("with %d layers the model is shown %+v", layers, got)
		}
		files := of[event.Artifact](seen)
		if len(files) != 1 || !strings.HasPrefix(string(files[0].Artifact.Data),
			`"drawing.pdf" was left out: `) {
			t.Errorf("with %d layers the caller is shown %+v", layers, files)
		}
	}
}

// A call that pauses again and again with artifacts fails in the end, rather
// than making its session one that can't be stored.
func TestArtifactsOfManyPauses(t *testing.T) {
	c := newClock()
	r := newRig(t, agent.Config{Tools: []tool.Tool{polling{}},
		Model: messages(calls("poll", `{}`), says("Enough."))},
		&rigOptions{memory: true, session: &session.Options{Now: c.now}})
	end := r.say("Go.").finished(event.FinishPaused).end
	for n := 0; end.Finish == event.FinishPaused && n < 2000; n++ {
		c.pass(2 * time.Minute)
		end = r.carryOn().end
	}
	if end.Finish != event.FinishStop ||
		!r.result(r.transcript().History[1].ToolCalls()[0].ID).Error {
		t.Errorf("it ended as %q", end.Finish)
	}
	e, err := r.kv.Get(t.Context(), kvstore.Key("h", chat))
	must(t, err)
	if len(e.Value) > 32<<10 {
		t.Errorf("the head has %d bytes", len(e.Value))
	}
}

// polling looks every minute, and makes something each time.
type polling struct{}

func (polling) Spec() tool.Spec {
	return tool.Spec{Name: "poll", Description: "Polls.", Effect: tool.Idempotent, MayPause: true,
		Input: []byte(`{"type":"object","properties":{}}`)}
}

func (polling) Execute(context.Context, tool.Call) (tool.Execution, error) {
	return tool.Execution{
		Await: &tool.Await{Reason: tool.ReasonTimer, Timeout: time.Minute},
		Actions: []tool.Action{
			{Artifact: &tool.Artifact{Name: "log", MediaType: "text/plain",
				Data: []byte("still waiting")}},
		},
	}, nil
}
