package handle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/tool"
)

// script is a Process whose bodies do what a test tells them.
type script struct {
	effect tool.Effect
	starts []Start
	body   *scriptBody
}

func (s *script) Spec() tool.Spec                  { return tool.Spec{Name: "script", Effect: s.effect} }
func (s *script) InputSchema() json.RawMessage     { return nil }
func (s *script) CheckInput(json.RawMessage) error { return nil }
func (s *script) Start(_ context.Context, start Start) (Body, error) {
	s.starts = append(s.starts, start)
	return s.body, nil
}

type scriptBody struct {
	updates chan Update     // closed: the body has ended
	stops   []time.Duration // written by Stop alone, which Live calls in turn
	inputs  []json.RawMessage
	refuses error
	panics  string // the method that does
	ended   Ended
	err     error
}

func (b *scriptBody) calls(method string) {
	if b.panics == method {
		panic("no " + method)
	}
}

func (b *scriptBody) Next(ctx context.Context) (Update, error) {
	select {
	case u, ok := <-b.updates:
		if b.calls("Next"); !ok {
			return Update{}, io.EOF
		}
		return u, nil
	case <-ctx.Done():
		return Update{}, context.Cause(ctx)
	}
}

func (b *scriptBody) Input(_ context.Context, in Input) error {
	b.calls("Input")
	b.inputs = append(b.inputs, in.Value)
	return b.refuses
}
func (b *scriptBody) Stop(grace time.Duration) {
	b.stops = append(b.stops, grace)
	b.calls("Stop")
}
func (b *scriptBody) Result() (Ended, error) { return b.ended, b.err }

func newScript() *script {
	return &script{body: &scriptBody{updates: make(chan Update)}}
}

func liveTool(t *testing.T, p Process, o *LiveOptions) tool.Tool {
	t.Helper()
	l, err := Live(p, o)
	must(t, err)
	return l
}

// What a body produces is shown in order, its input comes in order, and its
// result is the call's.
func TestLiveShowsFeedsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newScript(), newHost()
		s.body.ended = Ended{Output: raw(`{"n":1}`)}
		end := execute(t, t.Context(), liveTool(t, s, nil), tool.Call{ID: "c", Host: h})
		s.body.updates <- Update{Content: "one "}
		h.type1(t, `"a"`)
		s.body.updates <- Update{Content: "two"}
		h.type1(t, `"b"`)
		close(h.inputs)
		synctest.Wait()
		if got := s.body.inputs; len(got) != 3 || string(got[0]) != `"a"` || got[2] != nil {
			t.Errorf("the inputs are %q", got)
		}
		close(s.body.updates)
		e := end()
		if e.err != nil || string(e.execution.Output) != `{"n":1}` || h.shown != "one two" {
			t.Errorf("%+v; shown: %q", e, h.shown)
		}
	})
}

// When the call's context ends, the body is stopped, with the grace of the
// cause, and the call ends with that cause.
func TestLiveStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("the lease is lost")
		s, h := newScript(), newHost()
		ctx, cancel := context.WithCancelCause(t.Context())
		end := execute(t, ctx, liveTool(t, s, &LiveOptions{Grace: func(err error) time.Duration {
			if err == cause {
				return time.Minute
			}
			return time.Hour
		}}), tool.Call{Host: h})
		synctest.Wait()
		cancel(cause)
		if e := end(); e.err != cause {
			t.Errorf("%v", e.err)
		}
		if got := s.body.stops; !strings.Contains(durations(got), "1m0s") {
			t.Errorf("the graces are %v", got)
		}
	})
}

func durations(all []time.Duration) (s string) {
	for _, d := range all {
		s += d.String() + " "
	}
	return s
}

// Without a Host that shows, a call gets no input and its result all the same.
func TestLiveWithoutAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.body.err = errors.New("it failed")
		end := execute(t, t.Context(), liveTool(t, s, nil), tool.Call{})
		s.body.updates <- Update{Content: "unseen"}
		synctest.Wait()
		close(s.body.updates)
		if e := end(); e.err != s.body.err || len(s.body.inputs) != 1 || s.body.inputs[0] != nil {
			t.Errorf("%v, inputs %q", e.err, s.body.inputs)
		}
	})
}

// What can't be shown ends the body. An input that is refused doesn't.
func TestLiveAndFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newScript(), newHost()
		s.body.refuses = errors.New("no such key")
		end := execute(t, t.Context(), liveTool(t, s, nil), tool.Call{Host: h})
		h.type1(t, `"x"`)
		synctest.Wait()
		if !strings.Contains(h.shown, "no such key") {
			t.Errorf("shown: %q", h.shown)
		}
		h.mu.Lock()
		h.fails = errors.New("the store is full")
		h.mu.Unlock()
		s.body.updates <- Update{Content: "more"}
		if e := end(); e.err != h.fails || len(s.body.stops) == 0 {
			t.Errorf("%v, stops %v", e.err, s.body.stops)
		}
	})
}

// Whichever of its methods panics, the process lives, and the body is stopped.
func TestBodiesThatPanic(t *testing.T) {
	for _, method := range []string{"Next", "Input", "Stop"} {
		synctest.Test(t, func(t *testing.T) {
			s, h := newScript(), newHost()
			s.body.panics = method
			ctx, cancel := context.WithCancel(t.Context())
			end := execute(t, ctx, liveTool(t, s, nil), tool.Call{Host: h})
			h.type1(t, `"x"`)
			s.body.updates <- Update{Content: "one "}
			synctest.Wait()
			cancel()
			e := end()
			if told := fmt.Sprint(e.err, h.shown); !strings.Contains(told, "no "+method) ||
				len(s.body.stops) == 0 {
				t.Errorf("%s: it ends with %v, and shows %q; stops: %v", method, e.err, h.shown,
					s.body.stops)
			}
		})
	}
}

// A body that ends with a question is started again with all answers, where
// that does no harm.
func TestLiveStartsAgainWithAnswers(t *testing.T) {
	for _, effect := range []tool.Effect{tool.ReadOnly, tool.Idempotent} {
		s := newScript()
		s.effect = effect
		close(s.body.updates)
		s.body.ended = Ended{Question: &Question{ID: "q1", Text: "Which?",
			Schema: raw(`{"type":"string"}`), For: User}}
		l := liveTool(t, s, nil)
		first, err := l.Execute(t.Context(), tool.Call{})
		must(t, err)
		if a := first.Await; a == nil || a.Prompt != "Which?" || a.Mode != tool.ModeReenter {
			t.Fatalf("%+v", first)
		}
		if first.Await.Reason != tool.ReasonInput {
			t.Errorf("a question for the user has reason %q", first.Await.Reason)
		}
		s.body.ended.Question = &Question{ID: "q2", Text: "And?", For: Assistant}
		second, err := l.Execute(t.Context(), tool.Call{Answer: first.Await.Answered(raw(`"this"`))})
		must(t, err)
		if second.Await.Reason != tool.ReasonAssistant {
			t.Errorf("a question for the model has reason %q", second.Await.Reason)
		}
		s.body.ended = Ended{Output: raw("1")}
		third, err := l.Execute(t.Context(), tool.Call{Answer: second.Await.Answered(raw(`"that"`))})
		must(t, err)
		if string(third.Output) != "1" {
			t.Errorf("%+v", third)
		}
		got, err := json.Marshal(s.starts[2].Answers)
		must(t, err)
		if want := `[{"id":"q1","answer":"this"},{"id":"q2","answer":"that"}]`; string(got) != want {
			t.Errorf("the answers are %s", got)
		}
	}
}

// Otherwise the question is an error.
func TestLiveDoesNotRepeatAnEffect(t *testing.T) {
	s := newScript()
	close(s.body.updates)
	s.body.ended = Ended{Question: &Question{ID: "q1", Text: "Which?"}}
	e, err := liveTool(t, s, nil).Execute(t.Context(), tool.Call{})
	if e.Await != nil || err == nil || !strings.Contains(err.Error(), `"Which?"`) {
		t.Errorf("%+v, %v", e, err)
	}
}

// An input answers the question that it was given for, and a person's question
// if a person gave it.
func TestWhatAnInputAnswers(t *testing.T) {
	own, theirs := &Question{ID: "q", For: Assistant}, &Question{ID: "q", For: User}
	for _, c := range []struct {
		in   Input
		q    *Question
		want bool
	}{
		{Input{Question: "q"}, own, true},
		{Input{Question: "q", Person: true}, own, true},
		{Input{Question: "q", Person: true}, theirs, true},
		{Input{Question: "q"}, theirs, false},
		{Input{Question: "q"}, &Question{ID: "q"}, false},
		{Input{Question: "p", Person: true}, theirs, false},
		{Input{Person: true}, theirs, false},
		{Input{Question: "q", Person: true}, nil, false},
	} {
		if got := c.in.Answers(c.q); got != c.want {
			t.Errorf("%+v, %+v: %v", c.in, c.q, got)
		}
	}
}
