package runner_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// echoing is a model that calls one of the tools with the user's text: the one
// that the text begins with, or else the first.
func echoing(tools ...string) *fakellm.Model {
	return fakellm.New(fakellm.From(func(req llm.Request) fakellm.Turn {
		said, name := fakellm.LastUserText(req), tools[0]
		for _, other := range tools {
			if strings.HasPrefix(said, other) {
				name = other
			}
		}
		return fakellm.Calls(name, string(text(said)))
	}), fakellm.Says("Done."))
}

// What a model can't do to handles of a wider scope it is told, and its run goes
// on.
func TestAModelIsToldWhatItCantDoToWideHandles(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct{ tool, arguments, words string }{
		{"list_wait_handles", `{"cursor":"garbage!"}`, "cursor"},
		{"complete_wait_handle", `{"handleId":"a","error":""}`, "tell why"},
		{"complete_wait_handle", `{"handleId":"a","result":"` + long(40<<10) + `"}`, "at most 32768"},
		{"complete_wait_handle", `{"handleId":"a","error":"` + long(20<<10) + `"}`, "at most 9216"},
		{"update_task_status", `{"taskId":"t","status":"completed","result":"` + long(40<<10) + `"}`,
			"at most 32768"},
		{"update_task_status", `{"taskId":"t","status":"failed","note":"` +
			strings.Repeat("\u65e5", 1900) + `"}`, ""},
	} {
		set, err := wait.New(wait.Config{Scope: tool.StoreScope})
		must(t, err)
		r := newRig(t, agent.Config{Tools: append(set.Tasks(), set.Tools()...), Model: fakellm.New(
			fakellm.Calls("create_wait_handle", `{"handleId":"a","type":"custom"}`).
				And("create_task", `{"taskId":"t","title":"x"}`),
			fakellm.Calls(c.tool, c.arguments), fakellm.Says("Done."))}, &rigOptions{memory: true})
		s := r.saysIn("one", "Go.")
		out := r.outputsOf("one")
		if s.err != nil || len(out) != 3 {
			t.Fatalf("%s: %v %.200s", c.tool, s.err, out)
		}
		text := out[2]
		_ = json.Unmarshal([]byte(text), &text)
		if refused := strings.HasSuffix(text, `"isError":true}`); refused != (c.words != "") ||
			!strings.Contains(text, c.words) {
			t.Errorf("%s: %.300s", c.tool, out[2])
		}
		must(t, r.Close())
	}
}

// A program makes no handle that a model couldn't have made. No model ends a
// handle that gives permits.
func TestWideHandlesThatCantBe(t *testing.T) {
	r := wideRig(t, tool.StoreScope, nil,
		fakellm.Calls("complete_wait_handle", `{"handleId":"gpu","result":1}`), fakellm.Says("Done."))
	for id, n := range map[string]runner.NewWait{
		"odd": {Type: "bogus"}, "": {}, "with space": {}, "\u00e9": {},
		"meta": {Metadata: json.RawMessage(`[1]`)},
	} {
		if _, err := r.CreateWait(t.Context(), ofStore(id), n, "ops"); !errors.Is(err, runner.ErrInvalidWait) {
			t.Errorf("%q: %v", id, err)
		}
	}
	_, err := r.CreateWait(t.Context(), ofStore("gpu"), runner.NewWait{Permits: 1}, "ops")
	must(t, err)
	r.saysIn("one", "Go.")
	if got := r.outputsOf("one"); len(got) != 1 || !strings.Contains(got[0], "no model ends it") {
		t.Errorf("a model ends it: %s", got)
	}
	w, err := r.CompleteWait(t.Context(), ofStore("gpu"), runner.WaitEnd{Error: "closed"}, "ops")
	if must(t, err); w.Status != tool.WaitFailed {
		t.Errorf("a program ends it: %+v", w)
	}
	must(t, r.Close())
}

// The patience of a call ends no handle that gives permits. The call reads that
// its time is over, and not an error.
func TestAnImpatientCallEndsNoHandleWithPermits(t *testing.T) {
	r := newRig(t, agent.Config{
		Tools: waitTools(t, wait.Config{Scope: tool.StoreScope, TimeoutEnds: true}),
		Model: fakellm.New(fakellm.Calls("wait_for", `{"handleId":"gpu","timeoutMs":0}`),
			fakellm.Says("Done."))}, &rigOptions{memory: true})
	_, err := r.CreateWait(t.Context(), ofStore("gpu"), runner.NewWait{Permits: 1}, "ops")
	must(t, err)
	r.saysIn("one", "Go.")
	if got := r.outputsOf("one"); len(got) != 1 ||
		fields(t, got[0], "status", "error", "isError") != `"timeout" "Wait timed out after 0ms" ` {
		t.Errorf("the call reads %s", got)
	}
	w, err := r.Wait(t.Context(), ofStore("gpu"), "ops")
	if must(t, err); w.Status != tool.WaitPending {
		t.Errorf("the handle is %s", w.Status)
	}
	must(t, r.Close())
}

// A drive that was stopped, and goes on after another one has taken its session
// over, takes from no call of that one what it waits for. What waits no more is
// forgotten.
func TestALateRegistrationKeepsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := wideRig(t, tool.StoreScope, nil,
			fakellm.Calls("create_wait_handle", `{"handleId":"go","type":"custom"}`),
			fakellm.Calls("wait_for", `{"handleId":"go"}`).
				And("wait_for", `{"handleId":"go","timeoutMs":60000}`), fakellm.Says("Done."))
		r.say("Go.").finished(event.FinishPaused)
		late := wide.New(r.store, nil)
		register := func() string {
			call := session.WaitingCall{Call: "call_of_before", Pause: 1, All: true}
			_, err := late.Register(t.Context(), wide.ID{Scope: "store", Name: "go"}, chat, call)
			must(t, err)
			e, err := r.kv.Get(t.Context(), kvstore.Key("W", "w", "store", "go", chat))
			must(t, err)
			return string(e.Value)
		}
		if got := strings.Count(register(), `"call":`); got != 3 {
			t.Errorf("%d calls wait, and not 3", got)
		}
		r.working()
		time.Sleep(2 * time.Minute)
		if got := strings.Count(register(), `"call":`); got != 2 {
			t.Errorf("once one waits no more, %d calls wait, and not 2", got)
		}
		_, err := r.CompleteWait(t.Context(), ofStore("go"), runner.WaitEnd{Result: json.RawMessage(`1`)},
			"ops")
		must(t, err)
		time.Sleep(time.Minute)
		if got := r.outputs(); len(got) != 3 || fields(t, got[1], "status") != `"completed"` {
			t.Errorf("%q", got)
		}
		must(t, r.Close())
		r.sound()
		r.soundWaits()
	})
}

// Of two sessions that wait for a handle, one was written by a newer program, and
// is left to that. The other one is damaged, which the log tells all the same, of
// the process that has ended the handle and of the worker that tries again.
func TestDamageBesideANewerSessionIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log journal
		r := wideRig(t, tool.StoreScope, &runner.Options{Logger: log.logger()},
			fakellm.Calls("wait_for", `{"handleId":"go"}`), fakellm.Says("Done."))
		_, err := r.CreateWait(t.Context(), ofStore("go"), runner.NewWait{}, "ops")
		must(t, err)
		r.saysIn("newer", "Go.")
		r.saysIn("broken", "Go.")
		logged := func(what string, level slog.Level) {
			t.Helper()
			if s := log.String(); !strings.Contains(s, "level="+level.String()) ||
				!strings.Contains(s, session.ErrCorrupt.Error()) {
				t.Errorf("the log of %s says %q", what, s)
			}
			log.reset()
		}
		leave, mend := r.overwrite("newer", `{"v":99}`), r.damage("broken")
		_, err = r.CompleteWait(t.Context(), ofStore("go"), runner.WaitEnd{Error: "over"}, "ops")
		must(t, err)
		synctest.Wait()
		logged("who has ended it", slog.LevelWarn)
		r.restart()
		r.working()
		time.Sleep(2 * time.Minute)
		logged("a worker", slog.LevelError)
		leave()
		mend()
		time.Sleep(2 * time.Minute)
		must(t, r.Close())
		if got := append(r.outputsOf("newer"), r.outputsOf("broken")...); len(got) != 2 {
			t.Errorf("the calls read %q", got)
		}
		r.sound()
		r.soundWaits()
	})
}
