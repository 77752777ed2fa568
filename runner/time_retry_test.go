package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/retry"
)

// shaky is a tool that fails the first tries of each entry. It notes what each
// try was told, and the token that it made.
type shaky struct {
	fails  int
	asks   bool // its first entry asks a question
	seen   []string
	tokens []string
}

func (s *shaky) tool(spec tool.Spec) tool.Tool {
	spec.Name, spec.MayPause = "fetch", s.asks
	return tool.Must(retry.Tool(tool.Must(tool.Func(spec,
		func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
			c := tool.CallFrom(ctx)
			answer := "nothing"
			if c.Answer != nil {
				answer = string(c.Answer.Payload)
			}
			s.seen = append(s.seen, fmt.Sprint(c.Tried.Count, " ", answer, " ", c.IdempotencyKey("x")))
			s.tokens = append(s.tokens, c.Token())
			switch {
			case c.Tried.Count < s.fails:
				return nil, retry.Transient(errors.New("the network is down"))
			case s.asks && c.Answer == nil:
				return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter}), nil
			}
			return tool.Done(textOut(in)), nil
		})), &retry.Policy{Tries: 4, Initial: time.Hour, Max: 24 * time.Hour, Jitter: -1}))
}

func (s *shaky) rig(t *testing.T, spec tool.Spec, cl *clock) *rig {
	t.Helper()
	return newRig(t, agent.Config{
		Tools: []tool.Tool{s.tool(spec)},
		Model: fakellm.New(fakellm.Calls("fetch", `{"text":"a"}`), fakellm.Says("I see.")),
	}, at(cl))
}

// A tool that fails is tried again at its times, across restarts. All tries are
// one entry: they have one key, and the answer that the first has.
func TestATryIsOfTheSameEntry(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(fmt.Sprint(effect), func(t *testing.T) {
			s, cl := &shaky{fails: 2, asks: true}, newClock()
			r := s.rig(t, tool.Spec{Effect: effect}, cl)
			p := r.say("Fetch.").finished(event.FinishPaused).pause("fetch")
			waits := func(d time.Duration) {
				t.Helper()
				if p.Await.Reason != tool.ReasonRetry || !p.Deadline.Equal(cl.now().Add(d)) {
					t.Fatalf("it waits as %+v until %v, want until %v", p.Await, p.Deadline,
						cl.now().Add(d))
				}
				cl.pass(d - time.Millisecond)
				r.restart()
				r.carryOn().finished(event.FinishPaused)
				cl.pass(time.Millisecond)
				r.restart()
			}
			waits(time.Hour)
			p = r.carryOn().finished(event.FinishPaused).pause("fetch")
			waits(2 * time.Hour)
			p = r.carryOn().finished(event.FinishPaused).pause("fetch")
			p = r.answer(runner.Complete(p.ID, "ci", text("go"))).finished(event.FinishPaused).pause("fetch")
			waits(time.Hour)
			p = r.carryOn().finished(event.FinishPaused).pause("fetch")
			waits(2 * time.Hour)
			r.carryOn().finished(event.FinishStop)

			key := func(entry int) string {
				return tool.Call{ID: p.Call,
					Answer: &tool.Answer{Pause: entry}}.IdempotencyKey("x")
			}
			var want []string
			for entry, answer := range map[int]string{0: "nothing", 3: `{"text":"go"}`} {
				for n := range 3 {
					want = append(want, fmt.Sprint(n, " ", answer, " ", key(entry)))
				}
			}
			slices.Sort(want)
			got := slices.Sorted(slices.Values(s.seen))
			if !slices.Equal(got, want) {
				t.Errorf("the tries are told\n%q, want\n%q", got, want)
			}
			if !slices.IsSortedFunc(s.seen[:3], strings.Compare) {
				t.Errorf("the tries come as %q", s.seen)
			}
			must(t, r.Close())
			r.sound()
		})
	}
}

// No caller ends the wait for the next try, by whatever name and with whatever
// answer: neither while it is open, nor before it is written. It goes on at its
// time.
func TestNothingAnswersForATry(t *testing.T) {
	s, cl := &shaky{fails: 1}, newClock()
	r := s.rig(t, tool.Spec{Effect: tool.Idempotent}, cl)
	p := r.say("Fetch.").finished(event.FinishPaused).pause("fetch")
	refused := func(who string, err error) {
		t.Helper()
		if !errors.Is(err, session.ErrNotPaused) {
			t.Errorf("%s is told %v", who, err)
		}
	}
	for name, in := range map[string]runner.Resumption{
		"an output":   {Payload: text("mine")},
		"null":        {Payload: json.RawMessage("null")},
		"a failure":   {Failure: "no"},
		"a decision":  {Decision: &tool.Decision{Approved: true}},
		"run again":   {Again: true},
		"by its call": {Payload: text("mine"), Pause: p.Call},
	} {
		if in.Actor = "eve"; in.Pause == "" {
			in.Pause = p.ID
		}
		_, err := r.Resume(t.Context(), chat, in)
		refused(name, err)
	}
	_, err := r.deliver(s.tokens[0], "mine")
	refused("the token that the try made", err)
	if err := r.Extend(t.Context(), chat, p.ID, user, time.Time{}); !errors.Is(err,
		session.ErrInvalidDeadline) {
		t.Errorf("to take its time away is told %v", err)
	}
	if again := r.transcript().Pending; len(again) != 1 || again[0].ID != p.ID ||
		!again[0].Deadline.Equal(p.Deadline) {
		t.Errorf("it waits as %+v", again)
	}
	cl.pass(time.Hour)
	_, err = r.Resume(t.Context(), chat, runner.Complete(p.ID, "eve", text("mine")))
	refused("an answer behind its time", err)
	r.carryOn().finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != string(text("a")) || len(s.seen) != 2 {
		t.Errorf("the result is %s after %d tries", got, len(s.seen))
	}
	must(t, r.Close())
	r.sound()
}

// An answer that came while the try ran was for a pause that doesn't take one.
// It is refused then, also if it is a failure.
func TestAnEarlyAnswerIsNoneForATry(t *testing.T) {
	for name, in := range map[string]runner.Resumption{
		"an output": {Payload: text("mine")}, "a failure": {Failure: "no"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newClock()
			var r *rig
			n := 0
			fetch := tool.Must(retry.Tool(tool.Must(tool.Func(tool.Spec{Name: "fetch",
				Effect: tool.Idempotent},
				func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
					if n++; n > 1 {
						return tool.Done(textOut{"own"}), nil
					}
					in.Pause, in.Actor = tool.CallFrom(ctx).ID+".1", "eve"
					if _, err := r.Resume(ctx, chat, in); err != nil {
						return nil, retry.Permanent(err)
					}
					return nil, errors.New("the network is down")
				})), &retry.Policy{Initial: time.Hour, Jitter: -1}))
			r = newRig(t, agent.Config{Tools: []tool.Tool{fetch},
				Model: fakellm.New(fakellm.Calls("fetch", `{"text":"a"}`), fakellm.Says("I see."))},
				at(cl))
			p := r.say("Fetch.").finished(event.FinishPaused).pause("fetch")
			if rc := r.receipt(p.Call, 1); rc.Fate != session.Refused {
				t.Errorf("its receipt is %+v", rc)
			}
			cl.pass(time.Hour)
			r.carryOn().finished(event.FinishStop)
			if got := string(r.result(p.Call).Output); got != string(text("own")) {
				t.Errorf("the result is %s", got)
			}
		})
	}
}

// A wait for the next try can be cancelled, and hurried by its time. After the
// last try the model reads why, and how often it was tried.
func TestHowTriesEnd(t *testing.T) {
	t.Run("cancelled", func(t *testing.T) {
		s, cl := &shaky{fails: 9}, newClock()
		r := s.rig(t, tool.Spec{}, cl)
		p := r.say("Fetch.").finished(event.FinishPaused).pause("fetch")
		_, err := r.Cancel(t.Context(), chat, p.ID, "bob", "no need")
		must(t, err)
		cl.pass(24 * time.Hour)
		r.carryOn().finished(event.FinishStop)
		if got := string(r.result(p.Call).Output); !strings.Contains(got, "The work had begun") ||
			len(s.seen) != 1 {
			t.Errorf("the result is %s after %d tries", got, len(s.seen))
		}
	})
	t.Run("hurried", func(t *testing.T) {
		s, cl := &shaky{fails: 1}, newClock()
		r := s.rig(t, tool.Spec{}, cl)
		p := r.say("Fetch.").finished(event.FinishPaused).pause("fetch")
		must(t, r.Extend(t.Context(), chat, p.ID, user, cl.now().Add(time.Minute)))
		cl.pass(time.Minute)
		r.carryOn().finished(event.FinishStop)
	})
	t.Run("in vain", func(t *testing.T) {
		s, cl := &shaky{fails: 9}, newClock()
		r := s.rig(t, tool.Spec{}, cl)
		p := r.say("Fetch.").finished(event.FinishPaused).pause("fetch")
		for range 2 {
			cl.pass(10 * time.Hour)
			r.carryOn().finished(event.FinishPaused)
		}
		cl.pass(10 * time.Hour)
		r.carryOn().finished(event.FinishStop)
		if got := string(r.result(p.Call).Output); len(s.seen) != 4 ||
			!strings.Contains(got, "the network is down (it was tried 4 times)") {
			t.Errorf("the result is %s after %d tries", got, len(s.seen))
		}
	})
}
