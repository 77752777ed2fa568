package runner_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
)

// flaky fails as often as told, in a way that may pass, and then answers. It
// notes when it was asked.
type flaky struct {
	failures int
	after    time.Duration // that the provider asks for

	mu    sync.Mutex
	asked []time.Time
}

func (f *flaky) Generate(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		f.mu.Lock()
		f.asked = append(f.asked, time.Now())
		fails := len(f.asked) <= f.failures
		f.mu.Unlock()
		if fails {
			yield(nil, &llm.Error{Kind: llm.ErrRateLimited, RetryAfter: f.after})
			return
		}
		if yield(llm.TextDelta{Text: "Here I am."}, nil) {
			yield(llm.Finish{Reason: llm.StopEnd}, nil)
		}
	}
}

func (f *flaky) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

// TestLongDelayGivesTheSessionUp: a drive doesn't hold a session for hours
// because a provider asks for them. It ends, and says until when; the session
// is listed so, no drive holds it, and it is due then, and not before.
func TestLongDelayGivesTheSessionUp(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := &flaky{failures: 1, after: 3 * time.Hour}
				r := newRig(t, agent.Config{Model: model}, &rigOptions{memory: true, wrap: wrap})
				begun := time.Now()
				run := r.say("Go.").finished(event.FinishDelayed)
				at := begun.Add(3 * time.Hour).Truncate(time.Millisecond)
				if !run.end.Until.Equal(at) || run.end.Why == "" ||
					time.Since(begun) > time.Minute {
					t.Errorf("after %v the run is delayed until %v, because %q", time.Since(begun),
						run.end.Until, run.end.Why)
				}
				listed := func(s runner.Session) {
					t.Helper()
					if s.Finish != event.FinishDelayed || !s.Again.Equal(at) ||
						s.Why != run.end.Why || s.Driven {
						t.Errorf("the session is listed as %+v", s)
					}
				}
				listed(r.transcript().Session)
				for s, err := range r.Sessions(t.Context(), session.Filter{}, user) {
					must(t, err)
					listed(s)
				}
				time.Sleep(time.Hour)
				if run := watch(t, r.another().Continue(t.Context(),
					chat, user)).finished(event.FinishDelayed); !run.end.Until.Equal(at) {
					t.Errorf("Continue, too early, is delayed until %v", run.end.Until)
				}
				if due, _, next, err := r.store.Due(t.Context(), "ops", nil); err != nil ||
					len(due) > 0 || !next.Equal(at) {
					t.Errorf("due are %v, and next at %v, %v", due, next, err)
				}
				r.works(func(ev event.Event) bool { _, over := ev.(event.End); return over })
				if took := time.Since(begun); model.times() != 2 || took < 3*time.Hour ||
					took > 3*time.Hour+time.Minute {
					t.Errorf("after %v the model was called %d times", took, model.times())
				}
				if tr := r.transcript(); tr.Finish != event.FinishStop || !tr.Again.IsZero() ||
					tr.Why != "" {
					t.Errorf("at the end, the session is listed as %+v", tr.Session)
				}
			})
		})
	}
}

// A drive waits itself for what is short: for the cap, and no longer.
func TestShortDelayIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		after, hold time.Duration
		finish      event.Finish
	}{
		"less than the default":    {5 * time.Minute, 0, event.FinishStop},
		"more than the default":    {5*time.Minute + time.Second, 0, event.FinishDelayed},
		"less than the agent's":    {time.Hour, time.Hour, event.FinishStop},
		"more than the agent's":    {time.Minute, time.Second, event.FinishDelayed},
		"a doubling wait of hours": {0, time.Nanosecond, event.FinishDelayed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, agent.Config{Model: &flaky{failures: 1, after: c.after},
					Retry: agent.Retry{Hold: c.hold}}, &rigOptions{memory: true})
				r.say("Go.").finished(c.finish)
			})
		})
	}
}

// A message while the model is delayed asks it at once: the wait was for the
// message before.
func TestMessageWhileTheModelIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, agent.Config{Model: &flaky{failures: 1, after: time.Hour}},
			&rigOptions{memory: true})
		r.say("Go.").finished(event.FinishDelayed)
		r.say("Go on.").finished(event.FinishStop)
	})
}

// TestPatienceOutlastsFailures: with patience, the model is called again for
// days, by one worker after another, and then the run fails.
func TestPatienceOutlastsFailures(t *testing.T) {
	t.Parallel()
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const patience = 72 * time.Hour
				model := &flaky{failures: 1 << 30}
				seldom := rigOptions{memory: true,
					wrap:    wrap, // a worker looks every third of a lease
					session: &session.Options{Lease: 30 * time.Minute}}
				r := newRig(t, agent.Config{
					Model: model, Retry: agent.Retry{Patience: patience, Most: 30 * time.Minute},
				}, &seldom)
				begun := time.Now()
				r.say("Go.").finished(event.FinishDelayed)
				for range 2 { // another process takes over
					time.Sleep(time.Minute)
					must(t, r.Close())
					if m, ok := r.engine.(*kvstore.Memory); ok {
						r.engine = m.Reopen()
					}
					r.open()
				}
				r.works(func(ev event.Event) bool {
					end, over := ev.(event.End)
					return over && end.Finish == event.FinishFailed
				})
				if took := time.Since(begun); took < patience || took > patience+time.Hour {
					t.Errorf("the run failed after %v and %d calls", took, model.times())
				}
				if n := model.times(); n < 100 || n > 400 {
					t.Errorf("in three days, the model was called %d times", n)
				}
				if tr := r.transcript(); tr.Finish != event.FinishFailed || tr.Why == "" {
					t.Errorf("the session is listed as %+v", tr.Session)
				}
			})
		})
	}
}

// What is waited for counts from the first failure in a row: a call that went
// well begins anew.
func TestPatienceBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &flaky{failures: 3, after: time.Minute}
		r := newRig(t, agent.Config{
			Model: model, Retry: agent.Retry{Failures: -1, Patience: 4 * time.Minute},
		}, &rigOptions{memory: true})
		r.say("Go.").finished(event.FinishStop)
		time.Sleep(time.Hour)
		model.failures = 7
		r.say("Go on.").finished(event.FinishStop)
		model.failures = 13
		if run := r.say("Go on."); run.end.Finish != event.FinishFailed || model.times() != 13 {
			t.Errorf("with %d calls, the run ended as %q", model.times(), run.end.Finish)
		}
	})
}
