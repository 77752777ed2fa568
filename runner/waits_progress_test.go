package runner_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// What an outside system tells of a hook by its token is shown by wait_for and by
// lists, until a call tells something newer.
func TestTheProgressOfAHookIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := wait.New(wait.Config{})
		must(t, err)
		list := fakellm.Calls("wait_for", `{"handleId":"h","timeoutMs":0}`).And("list_wait_handles", `{}`)
		r := newRig(t, agent.Config{Tools: append(set.Tools(), set.Report()), Model: fakellm.New(
			fakellm.Calls("create_wait_handle", `{"handleId":"h","type":"hook"}`), fakellm.Says("Made."),
			list, fakellm.Calls("report_wait_handle", `{"handleId":"h","progress":"newer"}`), list,
			fakellm.Says("Seen."))}, &rigOptions{memory: true})
		r.say("Go.").finished(event.FinishStop)
		var hook struct{ Token string }
		must(t, json.Unmarshal([]byte(r.outputs()[0]), &hook))
		tok, err := r.ReadToken(t.Context(), hook.Token)
		must(t, err)
		time.Sleep(time.Second)
		must(t, r.Progress(t.Context(), tok.Session, tok.PauseID(), "web",
			tool.Progress{Message: "half of it", Fraction: .5}))
		time.Sleep(time.Second)
		r.say("How far is it?").finished(event.FinishStop)
		got := r.outputs()
		if is := fields(t, got[1], "progress"); is != `{"message":"half of it","fraction":0.5}` {
			t.Error(got[1])
		}
		for i, want := range map[int]string{2: `"message":"half of it"`, 5: `"progress":"newer"`} {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s, without %s", got[i], want)
			}
		}
		if is := fields(t, got[4], "progress"); is != `"newer"` {
			t.Error(got[4])
		}
		must(t, r.Close())
		r.sound()
	})
}
