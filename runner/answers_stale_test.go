package runner_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// Whoever looks at a pause just before it is answered, and at the clock just after its deadline, isn't told that it has expired.
func TestRefusalsRestOnWhatIsStored(t *testing.T) {
	for name, act := range map[string]func(late *runner.Runner, p tool.Pause) error{
		"extend": func(late *runner.Runner, p tool.Pause) error {
			return late.Extend(t.Context(), chat, p.ID, "ada", time.Time{})
		},
		"cancel": func(late *runner.Runner, p tool.Pause) error {
			_, err := late.Cancel(t.Context(), chat, p.Call, "ada", "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			at := newClock()
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{waiting("deploy", tool.Once, &n)}, Model: messages(calls("deploy", `{"text":"job-1"}`), says("I see.")),
			}, &rigOptions{memory: true, session: &session.Options{Now: at.now}})
			p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
			answered := false
			now := func() time.Time {
				if !answered {
					answered = true
					_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v2")))
					must(t, err)
					at.pass(2 * time.Hour)
				}
				return at.now()
			}
			late, err := runner.New(nil, public.NewStore(r.kv, &session.Options{Now: now}), nil)
			must(t, err)
			defer late.Close()
			if err := act(late, p); !answered || errors.Is(err, session.ErrExpired) {
				t.Errorf("it is told %v", err)
			}
		})
	}
}
