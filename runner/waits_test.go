package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// waitTools are the tools of a set.
func waitTools(t *testing.T, c wait.Config) []tool.Tool {
	t.Helper()
	s, err := wait.New(c)
	must(t, err)
	return s.Tools()
}

// waitRig is a rig whose model waits, in memory.
func waitRig(t *testing.T, turns ...fakellm.Turn) *rig {
	t.Helper()
	return newRig(t, agent.Config{Tools: waitTools(t, wait.Config{}), Model: fakellm.New(turns...)},
		&rigOptions{memory: true})
}

// workUntilDone has a worker carry on what is due until the run of the session
// is over. It polls seldom, as days may pass meanwhile.
func (r *rig) workUntilDone() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_ = r.Work(ctx, &runner.WorkOptions{Poll: 10 * time.Minute,
		OnEvent: func(id string, ev event.Event, _ error) {
			if end, ok := ev.(event.End); ok && id == chat && end.Finish == event.FinishStop {
				cancel()
			}
		}})
}

// fields reads some members of a reply.
func fields(t *testing.T, reply string, names ...string) string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(reply), &all); err != nil {
		t.Fatalf("%v: %s", err, reply)
	}
	var got []string
	for _, name := range names {
		got = append(got, string(all[name]))
	}
	return strings.Join(got, " ")
}

// A handle is made, ended by another call of its turn, and waited for in the
// same turn.
func TestAWaitHandleIsMadeEndedAndAwaited(t *testing.T) {
	r := waitRig(t,
		fakellm.Calls("wait_for", `{"handleId":"a"}`).
			And("create_wait_handle", `{"handleId":"a","type":"custom","metadata":{"n":1}}`).
			And("complete_wait_handle", `{"handleId":"a","result":{"good":true}}`),
		fakellm.Calls("list_wait_handles", `{}`), fakellm.Says("Done."))
	if s := r.say("Go."); s.end.Finish != event.FinishStop {
		t.Fatalf("%+v, %v: %v", s.end, s.err, r.outputs())
	}
	got := r.outputs()
	for i, want := range []string{
		`"a" "custom" "completed" {"good":true}`, `"a" "custom" "pending" `,
		`"a" "custom" "completed" {"good":true}`,
	} {
		if is := fields(t, got[i], "handleId", "type", "status", "result"); is != want {
			t.Errorf("%d: %s, and not %s", i, got[i], want)
		}
	}
	if is := fields(t, got[3], "stats"); is != `{"total":1,"filtered":1,"byStatus":{"pending":0,`+
		`"completed":1,"failed":0,"timeout":0},"byType":{"agent":0,"workflow":0,"timer":0,"hook":0,`+
		`"custom":1}}` {
		t.Error(is)
	}
	must(t, r.Close())
	r.sound()
}

// A hook is ended by its token, days after the run has come to wait and the
// process was restarted.
func TestAHookIsEndedByItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := waitRig(t, fakellm.Calls("create_wait_handle", `{"handleId":"gate","type":"hook"}`),
			fakellm.Calls("wait_for", `{"handleId":"gate"}`), fakellm.Says("Through."))
		r.say("Go.").finished(event.FinishPaused)
		var hook struct{ Token string }
		must(t, json.Unmarshal([]byte(r.outputs()[0]), &hook))
		r.restart()
		time.Sleep(72 * time.Hour)
		tok, err := r.ReadToken(t.Context(), hook.Token)
		must(t, err)
		_, err = r.Resume(t.Context(), tok.Session, runner.Complete(tok.PauseID(), "web", text("ok")))
		must(t, err)
		if s := r.carryOn(); s.end.Finish != event.FinishStop {
			t.Fatalf("%+v, %v", s.end, s.err)
		}
		got := r.outputs()[1]
		if is := fields(t, got, "status", "result", "operationElapsedTime", "waitedMs"); is !=
			`"completed" {"text":"ok"} "3d" 259200000` {
			t.Error(got)
		}
		must(t, r.Close())
		r.sound()
	})
}

// What a call has patience for counts from its beginning, however often the
// process is restarted meanwhile.
func TestPatiencePassesOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := waitRig(t, fakellm.Calls("create_wait_handle", `{"handleId":"gate","type":"hook"}`),
			fakellm.Calls("wait_for", `{"handleId":"gate","timeoutMs":1000}`), fakellm.Says("Well."))
		begun := time.Now()
		r.say("Go.").finished(event.FinishPaused)
		for range 3 {
			time.Sleep(300 * time.Millisecond)
			r.restart()
			r.carryOn().finished(event.FinishPaused)
		}
		r.workUntilDone()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it took %v", took)
		}
		if is := fields(t, r.outputs()[1], "status", "waitedMs"); is != `"timeout" 1000` {
			t.Error(r.outputs()[1])
		}
		must(t, r.Close())
	})
}

// A handle that has ended is known for its retention. Then it is in no list, and
// its id may be used again.
func TestEndedWaitsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := waitRig(t, fakellm.Calls("create_wait_handle", `{"handleId":"a","type":"custom"}`).
			And("create_wait_handle", `{"handleId":"open","type":"custom"}`),
			fakellm.Calls("complete_wait_handle", `{"handleId":"a","result":1}`), fakellm.Says("Well."),
			fakellm.Calls("create_wait_handle", `{"handleId":"a","type":"hook"}`).
				And("create_wait_handle", `{"handleId":"open","type":"hook"}`),
			fakellm.Calls("list_wait_handles", `{}`), fakellm.Says("Well."))
		r.say("Go.").finished(event.FinishStop)
		time.Sleep(31 * 24 * time.Hour)
		swept, err := r.store.Sweep(t.Context(), nil)
		if err != nil || swept.Handles != 1 {
			t.Fatalf("%+v, %v", swept, err)
		}
		r.say("Again.").finished(event.FinishStop)
		got := r.outputs()
		if fields(t, got[3], "success", "type") != `true "hook"` ||
			!strings.Contains(got[4], "exists already") {
			t.Errorf("%q", got[3:5])
		}
		if is := fields(t, got[5], "stats"); !strings.Contains(is, `"total":2,"filtered":2,"byStatus":`+
			`{"pending":2,"completed":0`) {
			t.Error(is)
		}
		must(t, r.Close())
		r.sound()
	})
}
