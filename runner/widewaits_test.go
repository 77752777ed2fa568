package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// wideRig is a rig whose models share the wait handles of a scope, in memory.
func wideRig(t *testing.T, scope tool.WaitScope, o *runner.Options, turns ...fakellm.Turn) *rig {
	t.Helper()
	return newRig(t, agent.Config{Tools: waitTools(t, wait.Config{Scope: scope}),
		Model: fakellm.New(turns...)}, &rigOptions{memory: true, runner: o})
}

// working has a worker work until the test is over.
func (r *rig) working() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	rn := r.Runner
	go func() { done <- rn.Work(ctx, &runner.WorkOptions{Poll: 5 * time.Second}) }()
	r.t.Cleanup(func() { cancel(); <-done })
}

// of returns the name of a handle of everyone on the store.
func ofStore(id string) runner.WaitName {
	return runner.WaitName{Scope: tool.StoreScope, ID: id}
}

// saysIn runs a user's message in a session to its end.
func (r *rig) saysIn(session, text string) *seen {
	r.t.Helper()
	return watch(r.t, r.Run(r.t.Context(), user, session, llm.UserText(text), nil))
}

// outputsOf returns the results of all calls of a session.
func (r *rig) outputsOf(session string) (texts []string) {
	r.t.Helper()
	tr, err := r.Show(r.t.Context(), session, user)
	must(r.t, err)
	for _, m := range tr.History {
		for _, p := range m.Parts {
			if res, ok := p.(llm.ToolResult); ok {
				texts = append(texts, string(res.Output))
			}
		}
	}
	return texts
}

// soundWaits fails the test if wait handles of wider scopes don't go together.
func (r *rig) soundWaits() {
	r.t.Helper()
	wrong, err := wide.New(r.store, nil).Check(r.t.Context())
	if must(r.t, err); len(wrong) > 0 {
		r.t.Errorf("wait handles:\n%s", strings.Join(wrong, "\n"))
	}
}

// Two sessions wait for a handle of the store that a third one has made, one of
// them for the first of two. A program ends it once, and all go on.
func TestSessionsWaitForAHandleOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := wideRig(t, tool.StoreScope, nil,
			fakellm.Calls("create_wait_handle", `{"handleId":"go","type":"custom"}`).
				And("wait_for", `{"handleId":"go"}`).
				And("wait_for_multiple", `{"handleIds":["go","go"],"mode":"any"}`),
			fakellm.Says("Done."))
		r.working()
		for _, session := range []string{"one", "two"} {
			if s := r.saysIn(session, "Go."); s.end.Finish != event.FinishPaused {
				t.Fatalf("%s: %+v %v", session, s.end, s.err)
			}
		}
		time.Sleep(time.Hour)
		w, err := r.CompleteWait(t.Context(), ofStore("go"), runner.WaitEnd{Result: json.RawMessage(`{"n":1}`)},
			"ops")
		if must(t, err); w.Status != tool.WaitCompleted {
			t.Errorf("%+v", w)
		}
		_, err = r.CompleteWait(t.Context(), ofStore("go"), runner.WaitEnd{Error: "no"}, "ops")
		if !errors.Is(err, runner.ErrWaitEnded) {
			t.Errorf("another end: %v", err)
		}
		synctest.Wait()
		for _, session := range []string{"one", "two"} {
			got := r.outputsOf(session)
			if len(got) != 3 {
				t.Fatalf("%s: %v", session, got)
			}
			if is := fields(t, got[1], "handleId", "status", "result", "waitedMs"); is !=
				`"go" "completed" {"n":1} 3600000` {
				t.Errorf("%s: %s", session, got[1])
			}
			if is := fields(t, got[2], "mode", "status", "totalCount", "completedCount"); is !=
				`"any" "completed" 1 1` {
				t.Errorf("%s: %s", session, got[2])
			}
		}
		if got := r.outputsOf("two")[0]; !strings.Contains(got, "already") {
			t.Errorf("the second one made it again: %s", got)
		}
		must(t, r.Close())
		r.sound()
		r.soundWaits()
	})
}
