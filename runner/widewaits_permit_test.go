package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/wait"
)

// contending is a rig with a worker whose model calls renders, or another tool
// where the user's text begins with its name.
func contending(t *testing.T, other tool.Tool) *rig {
	t.Helper()
	r := newRig(t, agent.Config{Tools: []tool.Tool{renders(t), other},
		Model: echoing("render", other.Spec().Name)}, &rigOptions{memory: true})
	r.working()
	return r
}

// renders is a tool whose calls hold the one permit of "gpu", and wait for an
// outside answer.
func renders(t *testing.T) tool.Tool {
	t.Helper()
	inner := does(tool.Spec{Name: "render", MayPause: true, Effect: tool.Idempotent},
		func(context.Context, string) (tool.Result[textOut], error) {
			return tool.Pending[textOut](tool.Await{}), nil
		})
	p, err := wait.WithPermit(inner, wait.PermitOptions{Scope: tool.StoreScope, Handle: "gpu", Most: 1,
		Priority: func(args json.RawMessage) int {
			if strings.Contains(string(args), "urgent") {
				return 5
			}
			return 0
		}})
	must(t, err)
	return p
}

// holds returns the sessions whose calls are in the tool's body.
func (r *rig) holding() (sessions string) {
	r.t.Helper()
	synctest.Wait()
	for p, err := range r.Pending(r.t.Context(), session.PauseFilter{Tool: "render"}, user) {
		must(r.t, err)
		if p.Await.Reason == tool.ReasonExternal {
			sessions += p.Session + " "
		}
	}
	return strings.TrimSpace(sessions)
}

// pauseIn returns the open pause of a session.
func (r *rig) pauseIn(id string) tool.Pause {
	r.t.Helper()
	for p, err := range r.Pending(r.t.Context(), session.PauseFilter{Session: id}, user) {
		must(r.t, err)
		return p
	}
	r.t.Fatalf("session %s waits for nothing", id)
	return tool.Pause{}
}

// A permit is one call's at a time, in all sessions. It passes on by priority and
// then in order, however the call ends that has held it.
func TestAPermitPassesOnHoweverItsCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := fakellm.New(fakellm.From(func(req llm.Request) fakellm.Turn {
			return fakellm.Calls("render", string(text(fakellm.LastUserText(req))))
		}), fakellm.Says("Done."))
		r := newRig(t, agent.Config{Tools: []tool.Tool{renders(t)}, Model: model},
			&rigOptions{memory: true})
		r.working()
		for _, id := range []string{"a", "b", "c", "urgent", "d", "e"} {
			watch(t, r.Run(t.Context(), user, id, llm.UserText(id), nil))
			synctest.Wait()
		}
		for _, step := range []struct {
			holder string
			ends   func()
		}{
			{"a", func() { // by its answer
				p := r.pauseIn("a")
				_, err := r.Resume(t.Context(), "a", runner.Complete(p.ID, "ops", text("ok")))
				must(t, err)
			}},
			{"urgent", func() { // by a failure
				p := r.pauseIn("urgent")
				_, err := r.Resume(t.Context(), "urgent", runner.Fail(p.ID, "ops", "no", false))
				must(t, err)
			}},
			{"b", func() { // by a cancellation, and the next one waits no more
				for _, id := range []string{"c", "b"} {
					p := r.pauseIn(id)
					_, err := r.Cancel(t.Context(), id, p.Call, user, "no")
					must(t, err)
				}
			}},
			{"d", func() { must(t, r.Delete(t.Context(), "d", user)) }},
			{"e", func() { must(t, r.CancelSession(t.Context(), "e", user, "no")) }},
			{"", func() {}},
		} {
			if got := r.holding(); got != step.holder {
				t.Fatalf("%q holds the permit, and not %q", got, step.holder)
			}
			step.ends()
			time.Sleep(time.Minute)
		}
		w, err := r.Wait(t.Context(), ofStore("gpu"), user)
		if must(t, err); *w.Permits != (tool.WaitPermits{Most: 1}) {
			t.Errorf("at the end: %+v", w.Permits)
		}
		must(t, r.Close())
		r.sound()
		r.soundWaits()
	})
}

// Killed before and after each write, two waiters and one completion come to the
// same end, and so do calls that take turns in holding a permit.
func TestWideWaitsSurviveKills(t *testing.T) {
	t.Parallel()
	story := func(r *rig) []string {
		var all []string
		ctx, cancel := context.WithCancel(r.t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- r.Work(ctx, &runner.WorkOptions{Poll: 10 * time.Second}) }()
		for _, id := range []string{"one", "two"} {
			o := &runner.RunOptions{MessageID: "m-" + id}
			for _, err := range r.Run(ctx, user, id, llm.UserText(id), o) {
				_ = err // a dead store
			}
		}
		time.Sleep(time.Minute)
		_, _ = r.CompleteWait(ctx, ofStore("go"), runner.WaitEnd{Result: json.RawMessage(`"yes"`)}, "ops")
		time.Sleep(time.Minute)
		cancel()
		<-done
		for _, id := range []string{"one", "two"} {
			tr, err := r.Show(r.t.Context(), id, user)
			if err != nil {
				continue
			}
			for _, m := range tr.History {
				for _, p := range m.Parts {
					if res, ok := p.(llm.ToolResult); ok {
						all = append(all, id+" "+string(res.Output))
					}
				}
			}
		}
		_ = r.Close()
		return all
	}
	newStory := func(t *testing.T, kv kvstore.Store) *rig {
		t.Helper()
		inner := does(tool.Spec{Name: "render", MayPause: true, Effect: tool.Idempotent},
			func(context.Context, string) (tool.Result[textOut], error) {
				return tool.Done(textOut{"rendered"}), nil
			})
		p, err := wait.WithPermit(inner, wait.PermitOptions{Scope: tool.StoreScope, Handle: "gpu", Most: 1})
		must(t, err)
		model := fakellm.New(fakellm.Calls("create_wait_handle", `{"handleId":"go","type":"custom"}`),
			fakellm.Calls("wait_for", `{"handleId":"go"}`).
				And("render", `{"text":"a"}`).And("render", `{"text":"b"}`),
			fakellm.Says("Done."))
		r := &rig{t: t, config: agent.Config{Name: "ops", Model: model,
			Tools: append(waitTools(t, wait.Config{Scope: tool.StoreScope}), p)},
			o:      rigOptions{memory: true, runner: &runner.Options{Logger: slog.New(slog.DiscardHandler)}},
			engine: kv}
		r.open()
		return r
	}
	ends := func(t *testing.T, r *rig, all []string) string {
		t.Helper()
		r.sound()
		r.soundWaits()
		var short []string
		for _, s := range all {
			id, output, _ := strings.Cut(s, " ")
			switch { // either of the two makes the handle
			case strings.Contains(output, "exists already"):
				output = `"go" "pending" `
			case strings.Contains(output, `"handleId"`):
				output = fields(t, output, "handleId", "status", "result")
			}
			short = append(short, id+" "+output)
		}
		return strings.Join(short, "\n")
	}
	applies, want := 0, ""
	synctest.Test(t, func(t *testing.T) {
		faults := faultkv.New(kvstore.NewMemory())
		r := newStory(t, faults.Store)
		want = ends(t, r, story(r))
		applies = faults.Applies()
	})
	if n := strings.Count(want, "completed"); n != 2 || strings.Count(want, "rendered") != 4 {
		t.Fatalf("without a fault:\n%s", want)
	}
	cuts := faultkv.Cuts(applies)
	for i := range testlength.EachNth(11, len(cuts)) {
		cut := cuts[i]
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := kvstore.NewMemory()
				story(newStory(t, faultkv.New(memory, cut).Store))
				again := newStory(t, memory.Reopen())
				if got := ends(t, again, story(again)); got != want {
					t.Errorf("it comes to\n%s\nand not to\n%s", got, want)
				}
			})
		})
	}
}
