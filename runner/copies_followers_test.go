package runner_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/scribble"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestFollowersGetTheirOwn: several follow a session and write over all that
// they are shown; who reports progress goes on with its data. Each is shown
// what was reported.
func TestFollowersGetTheirOwn(t *testing.T) {
	var n counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
		Model: fakellm.New(fakellm.Calls("deploy", `{"text":"job-1"}`), fakellm.Says("Deployed.")),
	}, &rigOptions{memory: true})
	p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
	const followers = 3
	shown := make(chan string, followers)
	ctx, leave := context.WithCancel(t.Context())
	var watching, ended sync.WaitGroup
	watching.Add(followers)
	for range followers {
		ended.Go(func() {
			for ev, err := range r.Follow(ctx, chat, user, &runner.FollowOptions{ThroughWaits: true}) {
				if err != nil {
					return
				}
				switch ev := ev.(type) {
				case event.Pause:
					if string(ev.Pause.Arguments) != `{"text":"job-1"}` {
						t.Errorf("the pause is of %s", ev.Pause.Arguments)
					}
					scribble.Over(ev)
					watching.Done()
				case event.Progress:
					shown <- string(ev.Progress.Data)
					scribble.Over(ev)
				default:
					scribble.Over(ev)
				}
			}
		})
	}
	watching.Wait()
	report := tool.Progress{Message: "half", Data: json.RawMessage(`{"done":0.5}`)}
	must(t, r.Progress(t.Context(), chat, p.Call, user, report))
	scribble.Over(report)
	for range followers {
		if got := <-shown; got != `{"done":0.5}` {
			t.Errorf("a follower is shown %s", got)
		}
	}
	leave()
	ended.Wait()
	if len(shown) > 0 {
		t.Errorf("the same progress was shown twice, as %s", <-shown)
	}
}
