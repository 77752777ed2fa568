package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/internal/scribble"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// scribblers is a session in which each party writes over all that it was
// given, and over all that it gave, once that is no longer its own.
type scribblers struct {
	t    *testing.T
	over map[string]bool // the parties that do; the others behave
	r    *rig

	mu   sync.Mutex
	gave []func()            // write over what was given, once that is taken
	told map[string][]string // what each was told, as it came
}

// The parties of a session.
var parties = []string{
	"listener", "turn layer", "model layer", "model", "outer layer", "inner layer", "policy",
	"prompt", "raw body", "typed body",
	"argument's own method", "caller",
}

// got notes what a party was given, and writes over it.
func (s *scribblers) got(who string, v any) {
	s.note(who, v)
	s.used(who, v)
}

func (s *scribblers) note(who string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b = fmt.Appendf(nil, "%+v", v)
	}
	s.mu.Lock()
	s.told[who] = append(s.told[who], string(b))
	s.mu.Unlock()
}

// used writes over what a party was given, and has no further use for.
func (s *scribblers) used(who string, v any) {
	if s.over[who] {
		scribble.Over(v)
	}
}

// gives has what a party gave written over from the next event on, when it must
// have been taken.
func (s *scribblers) gives(who string, v any) {
	if !s.over[who] {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gave = append(s.gave, func() { scribble.Over(v) })
}

// taken writes over what was given so far.
func (s *scribblers) taken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.gave {
		f()
	}
	s.gave = nil
}

// toolLayer hands on its call, and what comes back, and goes on with both.
func (s *scribblers) toolLayer(name string) interceptor.Layer {
	return interceptor.Layer{Name: name,
		Tool: func(next interceptor.ToolHandler) interceptor.ToolHandler {
			return func(ctx context.Context, c tool.Call) (tool.Execution, error) {
				exec, err := next(ctx, c)
				if c.Tool == "look" && name == "outer layer" { // which may be repeated
					exec, err = next(ctx, c)
				}
				s.got(name, c)
				out := exec.Clone()
				s.gives(name, out)
				s.got(name, exec)
				return out, err
			}
		}}
}

// timeless returns an event without what is left to chance; nil: all of it is,
// as the moment in which a body begins beside others.
func timeless(ev event.Event) event.Event {
	switch own := ev.(type) {
	case event.Started:
		return nil
	case event.Result:
		own.Duration = 0
		return own
	}
	return ev
}

func (s *scribblers) turnLayer() interceptor.Layer {
	return interceptor.Layer{Name: "turn layer",
		Turn: func(next interceptor.TurnHandler) interceptor.TurnHandler {
			return func(ctx context.Context, turn interceptor.Turn) iter.Seq2[event.Event, error] {
				return func(yield func(event.Event, error) bool) {
					for ev, err := range next(ctx, turn) {
						if !yield(ev, err) {
							return
						}
						if ev = timeless(ev); ev != nil {
							s.got("turn layer", ev)
						}
					}
				}
			}
		}}
}

// around goes through what h says, and writes over its events and its request.
// That it shares with what is behind it: a request is copied once.
func (s *scribblers) around(who string, h interceptor.ModelHandler) interceptor.ModelHandler {
	return func(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			s.note(who, r)
			for ev, err := range h(ctx, r) {
				if !yield(ev, err) {
					return
				}
				s.used(who, ev)
			}
			s.used(who, r)
		}
	}
}

// ownModel is a model behind s.around.
type ownModel struct{ generate interceptor.ModelHandler }

func (m ownModel) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return m.generate(ctx, r)
}

// own reads itself, and keeps what it was read from, to write over it.
type own struct{ Text string }

var ownReads func([]byte)

func (o *own) UnmarshalJSON(b []byte) error {
	o.Text = string(b)
	ownReads(b)
	return nil
}

// tools are one of each kind: raw, typed, one that reads itself, one that asks,
// one that waits.
func (s *scribblers) tools() []tool.Tool {
	constant := json.RawMessage(`{"seen":"all"}`)
	look := rawTool{tool.Spec{Name: "look", Effect: tool.ReadOnly,
		Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)},
		func(_ context.Context, c tool.Call) (tool.Execution, error) {
			s.got("raw body", c)
			exec := tool.Execution{Output: constant, Actions: []tool.Action{
				{Artifact: &tool.Artifact{Name: "a", MediaType: "text/plain",
					Data: []byte("artifact")}},
				{Media: &llm.Media{MediaType: "image/png", Data: []byte("png")}},
			}}.Clone()
			s.gives("raw body", exec)
			return exec, nil
		}}
	job := rawTool{tool.Spec{Name: "job", MayPause: true,
		Output: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, c tool.Call) (tool.Execution, error) {
			p := tool.Progress{Message: "begun", Data: json.RawMessage(`{"n":1}`)}
			if err := c.Report(ctx, p); err != nil {
				return tool.Execution{}, err
			}
			s.gives("raw body", p)
			s.got("raw body", c)
			exec := tool.Execution{Await: &tool.Await{
				Reason: tool.ReasonExternal, Key: "job-1", Timeout: time.Hour,
				Schema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`),
				Data:   json.RawMessage(`{"d":1}`),
			}}
			s.gives("raw body", exec)
			return exec, nil
		}}
	pay := tool.Must(tool.Func(tool.Spec{Name: "pay"}, func(ctx context.Context, in struct {
		Cents int64           `json:"cents"`
		More  json.RawMessage `json:"more,omitempty"`
	}) (tool.Result[json.RawMessage], error) {
		s.got("typed body", tool.CallFrom(ctx))
		s.got("typed body", tool.CallFrom(ctx)) // which is another copy
		s.got("typed body", in)
		out := json.RawMessage(`{"paid":true}`)
		s.gives("typed body", out)
		return tool.Done(out), nil
	}))
	read := tool.Must(tool.Func(tool.Spec{Name: "read", Effect: tool.ReadOnly},
		func(ctx context.Context, in struct {
			Own own `json:"own"`
		}) (tool.Result[string], error) {
			s.got("typed body", tool.CallFrom(ctx))
			return tool.Done(in.Own.Text), nil
		}))
	which := tool.NewQuestion[textOut, textIn, textIn]("which")
	ask := tool.Must(tool.Resumable(tool.Spec{Name: "ask"},
		func(_ context.Context, in textIn) (tool.Result[textOut], error) {
			picture := tool.Action{
				Media: &llm.Media{MediaType: "image/png", Data: []byte("before")},
			}
			file := tool.Action{Artifact: &tool.Artifact{Name: "b", MediaType: "text/plain",
				Data: []byte("artifact")}}
			s.gives("typed body", picture)
			s.gives("typed body", file)
			return tool.With(which.Ask("Well?", in), picture, file), nil
		},
		tool.On(which, func(ctx context.Context, in textIn, re tool.Reply[textIn, textIn]) (tool.Result[textOut], error) {
			s.got("typed body", tool.CallFrom(ctx))
			return tool.Done(textOut{in.Text + re.State.Text + re.Answer.Text}), nil
		})))
	return []tool.Tool{look, job, pay, read, ask}
}

// enact runs the session, with those in over writing over everything, and
// returns what must not depend on them: what is stored, what the model was
// sent, and what each was told. Without layers, tools are called directly, and
// nothing is asked.
func enact(t *testing.T, layers bool, over ...string) map[string]any {
	s := &scribblers{t: t, over: map[string]bool{}, told: map[string][]string{}}
	for _, who := range over {
		s.over[who] = true
	}
	ownReads = func(b []byte) { s.gives("argument's own method", b) }
	native := &llm.Native{Provider: "fake", Data: json.RawMessage(`{"signed":1}`)}
	script := fakellm.New(
		fakellm.Turn{}.Part(llm.Reasoning{Text: "Hm.", Native: native}).Says("I look.").
			Part(llm.ToolCall{
				Name: "look", Arguments: json.RawMessage(`{"text":"here"}`), Native: native,
			}).
			And("pay", `{"cents":100,"more":{"a":[1]}}`).And("read", `{"own":{"x":1}}`).And("ask",
			`{"text":"a"}`).And("job", `{}`),
		fakellm.Calls("look", `{"text":"again"}`).And("pay", `{"cents":7}`).And("ask",
			`{"text":"c"}`),
		fakellm.Says("Done."),
	)
	approval := interceptor.Approval(&interceptor.ApprovalOptions{
		Policy: func(_ context.Context, c tool.Call) (interceptor.Verdict, error) {
			defer s.got("policy", c)
			if c.Tool == "pay" && string(c.Arguments) != `{"cents":7}` {
				return interceptor.Verdict{}, nil
			}
			return interceptor.Verdict{Ruling: interceptor.Allow}, nil
		},
		Prompt: func(c tool.Call) string {
			defer s.got("prompt", c)
			return "Pay " + string(c.Arguments) + "?"
		},
	})
	ids := 0
	clock := newClock()
	c := agent.Config{
		Model: ownModel{s.around("model", script.Generate)}, Tools: s.tools(), Concurrency: 1,
		Interceptors: interceptor.Chain{s.turnLayer(), s.toolLayer("outer layer"), approval,
			s.toolLayer("inner layer"),
			{Name: "model layer",
				Model: func(next interceptor.ModelHandler) interceptor.ModelHandler {
					return s.around("model layer", next)
				}}},
		ResponseFormat: llm.ResponseFormat{Name: "answer",
			Schema: json.RawMessage(`{"type":"object"}`)},
	}
	waiting := 3
	if !layers {
		c.Interceptors, waiting = nil, 2
	}
	s.r = newRig(t, c, &rigOptions{memory: true, session: &session.Options{Now: clock.now,
		NewID: func(kind string) string {
			ids++
			return fmt.Sprintf("%s_%d", kind, ids)
		}}})
	s.gives("caller", c.ResponseFormat)
	s.session(waiting)
	shown, err := s.r.Show(t.Context(), chat, user)
	must(t, err)
	out := map[string]any{"stored": shown, "sent": script.Requests(), "told": s.told}
	for i := 1; i <= 8; i++ {
		st, err := s.r.Call(t.Context(), chat, fmt.Sprintf("call_%d", i), user)
		must(t, err)
		for i := range st.Receipts {
			st.Receipts[i].Hash = ""
		}
		out[st.Call] = st
	}
	return out
}

// session is what the caller does.
func (s *scribblers) session(waiting int) {
	t, r := s.t, s.r
	m := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{
		llm.Text{Text: "Go."}, llm.Media{MediaType: "image/png", Data: []byte("mine")},
	}}
	o := &runner.RunOptions{MessageID: "m1"}
	events := r.Run(t.Context(), user, chat, m, o)
	s.used("caller", m)
	s.used("caller", o)
	end := s.listen(events)
	for _, p := range end.Pending {
		found, err := r.Find(t.Context(), runner.Ref{Pause: p.ID}, user)
		must(t, err)
		s.got("caller", found)
		again, err := r.Find(t.Context(), runner.Ref{Pause: p.ID}, user)
		must(t, err)
		s.got("caller", again)
	}
	for p, err := range r.Pending(t.Context(), session.PauseFilter{}, user) {
		must(t, err)
		s.got("caller", p)
	}
	shown, err := r.Show(t.Context(), chat, user)
	must(t, err)
	s.got("caller", shown)
	// it is refused, with what waits
	for range r.Run(t.Context(), user, chat, llm.UserText("And?"), nil) {
	}
	s.answer(waiting)
	s.answer(1)
	for ev, err := range r.Follow(t.Context(), chat, user, nil) {
		must(t, err)
		s.got("caller", ev)
	}
	for _, tl := range []string{"look", "job", "pay"} {
		ag, err := agent.New(r.config)
		must(t, err)
		spec, _ := hold.Of(ag).Tools.Spec(tl)
		s.got("caller", []json.RawMessage{spec.Input, spec.Output})
	}
}

// answer answers what waits.
func (s *scribblers) answer(waiting int) {
	t, r := s.t, s.r
	var answers []runner.Resumption
	for _, p := range r.transcript().Pending {
		switch p.Tool {
		case "pay":
			answers = append(answers, runner.ApproveEdited(p.ID, "bob", "less",
				json.RawMessage(`{"cents":50,"more":[2]}`)))
		case "ask":
			answers = append(answers, runner.Complete(p.ID, "bob", text("b")))
		case "job":
			answers = append(answers, runner.Complete(p.ID, "ci", json.RawMessage(`{"ok":true}`)))
		}
	}
	if len(answers) != waiting {
		t.Fatalf("%d calls wait", len(answers))
	}
	res, err := r.Resume(t.Context(), chat, answers...)
	must(t, err)
	s.used("caller", answers)
	s.got("caller", res.Receipts)
	s.listen(res.Events(t.Context()))
}

// listen ranges over events as a caller does that masks them for the screen.
func (s *scribblers) listen(events iter.Seq2[event.Event, error]) (end event.End) {
	for ev, err := range events {
		must(s.t, err)
		switch ev.(type) {
		case event.Progress, event.Started: // a body has not returned yet
		default:
			s.taken()
		}
		if e, ok := ev.(event.End); ok {
			end = event.Clone(e).(event.End)
		}
		if ev = timeless(ev); ev == nil {
			continue
		}
		s.got("listener", fmt.Sprintf("%T", ev))
		s.got("listener", ev)
	}
	return end
}

// TestWhatIsHandedOutIsItsReceivers: to write over all that was handed out, and
// all that was handed in, changes nothing of what is stored, what runs, what
// the model is sent, and what the others see.
func TestWhatIsHandedOutIsItsReceivers(t *testing.T) {
	t.Parallel()
	for name, layers := range map[string]bool{"with layers": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			want := enact(t, layers)
			there := parties
			if told := want["told"].(map[string][]string); !layers {
				there = slices.DeleteFunc(slices.Clone(parties), func(who string) bool {
					return len(told[who]) == 0 && who != "argument's own method"
				})
			} else {
				for _, who := range parties {
					if len(told[who]) == 0 && who != "argument's own method" {
						t.Errorf("the %s was told nothing", who)
					}
				}
			}
			for _, who := range there {
				t.Run("the "+who, func(t *testing.T) {
					if diff := cmp.Diff(want, enact(t, layers, who)); diff != "" {
						t.Errorf("it makes a difference (-without +with):\n%s", diff)
					}
				})
			}
			t.Run("all", func(t *testing.T) {
				if diff := cmp.Diff(want, enact(t, layers, parties...)); diff != "" {
					t.Errorf("it makes a difference (-without +with):\n%s", diff)
				}
			})
		})
	}
}
