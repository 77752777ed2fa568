package runner_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// Several calls may come to have one outside key, in one session or in many: while one is open it is meant, and afterwards the one
// that ended last. With several open the key is refused, and by their own ids they are answered.
func TestOneKeyOfManyCalls(t *testing.T) {
	var n counter
	cl := newClock()
	job := fakellm.Calls("job", `{"text":"job-1"}`)
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: fakellm.New(job, fakellm.Says("ok"), job, fakellm.Says("ok"), job, job, fakellm.Says("ok"), fakellm.Says("ok"))}, at(cl))
	key := runner.Ref{Tool: "job", Key: "job-1"}
	begin := func(id string) tool.Pause {
		cl.pass(time.Minute)
		return watch(t, r.Run(t.Context(), user, id, llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("job")
	}
	end := func(p tool.Pause) {
		cl.pass(time.Minute)
		res, err := r.Resume(t.Context(), p.Session, runner.Complete(p.ID, text("v"), "ci"))
		must(t, err)
		watch(t, res.Events(t.Context())).finished(event.FinishStop)
	}
	named := func(want tool.Pause) {
		t.Helper()
		if got, err := r.Find(t.Context(), key, user); err != nil || got.ID != want.ID {
			t.Errorf("the key names %s of session %q, not %s of %q: %v", got.ID, got.Session, want.ID, want.Session, err)
		}
	}
	first := begin("z")
	named(first)
	end(first)
	second := begin("a") // the session sorts before, and the call comes after
	named(second)
	end(second)
	named(second)

	third, fourth := begin("m"), begin("b")
	if _, err := r.Find(t.Context(), key, user); !errors.Is(err, session.ErrAmbiguousKey) {
		t.Errorf("with two open: %v", err)
	}
	end(fourth)
	named(third)
	end(third)
	named(third)
}
