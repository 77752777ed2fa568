package runner_test

import (
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A layer that asks for actions holds a spawn. What awaits it, in the same turn,
// waits for the decision, over a restart too, and then for the handle. One that
// is denied begins nothing, and its await doesn't hang.
func TestAnAwaitWaitsForASpawnThatIsHeld(t *testing.T) {
	layers := approval()
	for i := range layers {
		layers[i].Actions = true
	}
	for _, c := range []struct {
		name   string
		answer func(pause string) runner.Resumption
		want   string
	}{
		{"approved", func(p string) runner.Resumption { return runner.Approve(p, user, "") }, "built x"},
		{"denied", func(p string) runner.Resumption { return runner.Deny(p, user, "No.") }, "not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			model := fakellm.New(
				fakellm.Calls("await", `{"all":["a"]}`).
					And("build", `{"action":"spawn","id":"a","target":"x"}`),
				fakellm.Says("Done."))
			r := newRig(t, agent.Config{Concurrency: 1, Tools: []tool.Tool{builds(t)}, Model: model,
				Interceptors: layers}, nil)
			p := r.say("Go.").finished(event.FinishPaused).pause("build")
			if r.restart(); len(r.carryOn().finished(event.FinishPaused).end.Pending) != 1 {
				t.Error("the await doesn't wait for the decision")
			}
			r.answer(c.answer(p.ID))
			if s := r.carryOn(); s.end.Finish == event.FinishPaused { // its call is held as well
				p := s.pause("build")
				_, err := r.Resume(t.Context(), p.Session, c.answer(p.ID))
				must(t, err)
			}
			s := r.carryOn().finished(event.FinishStop)
			if got := r.outputs(); len(got) != 2 || !strings.Contains(got[0], c.want) {
				t.Errorf("%v %v: %q", s.end.Finish, s.err, got)
			}
			must(t, r.Close())
			r.sound()
		})
	}
}
