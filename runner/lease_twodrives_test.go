package runner_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// The model's answer was due when a drive began, and is there when the drive
// has its lease: the model isn't asked again.
func TestModelIsNotAskedForWhatIsThere(t *testing.T) {
	asked := 0
	r, second := interrupted(t, &asked)
	r.before(func() { r.carryOn().finished(event.FinishStop) })
	watch(t, second.Continue(t.Context(), chat, user)).finished(event.FinishStop)
	if got := r.transcript().History; len(got) != 2 || asked != 1 {
		t.Errorf("the history is %v, and the model was asked %d times", got, asked)
	}
}

// A caller leaves what another process has just finished: it stays finished.
func TestLeavingWhatIsFinished(t *testing.T) {
	asked := 0
	r, _ := interrupted(t, &asked)
	ctx, cancel := context.WithCancel(t.Context())
	// before the drive does anything
	reading := &hooked{Store: r.kv, got: func(key []byte) {
		if bytes.Contains(key, []byte(chat)) {
			cancel()
		}
	}}
	ag, err := agent.New(r.config)
	must(t, err)
	second, err := runner.New(ag, public.NewStore(reading, nil), nil)
	must(t, err)
	t.Cleanup(func() { second.Close() })
	r.before(func() { r.carryOn().finished(event.FinishStop) })
	watch(t, second.Continue(ctx, chat, user))
	if got := r.transcript(); got.Finish != event.FinishStop || asked != 1 {
		t.Errorf("it is %q, and the model was asked %d times", got.Finish, asked)
	}
}

// An answer comes when a drive has found nothing to do, and before it looks
// once more. The drive takes it up: no other would.
func TestAnswerBetweenTwoLooks(t *testing.T) {
	var n counter
	h := new(hooked)
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: messages(calls("job", `{"text":"j"}`), says("Done."))},
		&rigOptions{memory: true, wrap: h.exclusive})
	var end event.Finish
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		must(t, err)
		switch ev := ev.(type) {
		case event.Pause:
			h.get = func(key []byte) error {
				if isHead(key) {
					h.get = nil
					_, err := r.Resume(context.Background(), chat,
						runner.Complete(ev.Pause.ID, "ci", text("v")))
					must(t, err)
				}
				return nil
			}
		case event.End:
			end = ev.Finish
		}
	}
	if end != event.FinishStop {
		t.Errorf("the run ended as %q", end)
	}
}

func TestDrivenElsewhere(t *testing.T) {
	entered, release := make(chan string, 9), make(chan struct{})
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{stubborn(entered, release), waiting("job", tool.Idempotent, &n)},
		Model: messages(calls("job", `{"text":"j"}`, "slow", `{"text":"a"}`), says("Done.")),
	}, nil)
	first := make(chan *seen)
	paused := make(chan tool.Pause, 1)
	go func() {
		s := &seen{t: t}
		for ev, err := range r.Run(context.Background(), user, chat, llm.UserText("Go."), nil) {
			if s.err = err; err != nil {
				break
			}
			switch ev := ev.(type) {
			case event.Pause:
				paused <- ev.Pause
			case event.End:
				s.end = ev
			}
			s.events = append(s.events, ev)
		}
		first <- s
	}()
	<-entered
	p := <-paused
	for _, rn := range []*runner.Runner{r.Runner, r.another()} {
		run := watch(t, rn.Run(t.Context(), user, chat, llm.UserText("And?"), nil))
		var busy *session.BusyError
		if !errors.As(run.err, &busy) || busy.Session != chat {
			t.Errorf("Run on a driven session: %v", run.err)
		}
		res, err := rn.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v")))
		must(t, err)
		watch(t, res.Events(t.Context())).finished(event.FinishElsewhere)
	}
	close(release)
	(<-first).finished(event.FinishStop)
	if got := r.transcript().History; len(got) != 4 {
		t.Errorf("%d messages are stored", len(got))
	}
	r.acceptable()
}
