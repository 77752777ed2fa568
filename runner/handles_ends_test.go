package runner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// statusOf is how a handle has ended, as the session knows it; empty: it is
// open.
func (r *rig) statusOf(name string) event.Status {
	r.t.Helper()
	h, err := r.store.Handle(r.t.Context(), chat, name)
	must(r.t, err)
	return h.Status
}

// minutes is a tool of that name and policy whose body takes a minute.
func minutes(t *testing.T, name string, end tool.AtEnd) tool.Tool {
	return underPolicy(t, name, tool.Idempotent, tool.HandlePolicy{AtEnd: end},
		func(ctx context.Context, in target) (tool.Result[string], error) {
			select {
			case <-time.After(time.Minute):
				return tool.Done("built " + in.Target), nil
			case <-ctx.Done():
				return tool.Done(""), ctx.Err()
			}
		})
}

// What is aborted ends first. Then what is awaited is waited for and told. The
// model is asked about the others at last, and about no more than those.
func TestAbortsComeBeforeAwaitsAndInquiriesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, asked := time.Now(), time.Duration(0)
		var r *rig
		var known []event.Status
		inquiry := fakellm.When(fakellm.UserSays("about to end your turn"),
			fakellm.From(func(req llm.Request) fakellm.Turn {
				asked = time.Since(start)
				for _, name := range []string{"gone", "built", "open"} {
					known = append(known, r.statusOf(name))
				}
				if text := req.Messages[0].Text(); !strings.Contains(text, `"id":"open"`) ||
					strings.Contains(text, `"id":"built"`) || strings.Contains(text, `"id":"gone"`) {
					t.Errorf("it is asked %s", text)
				}
				return fakellm.Says(fate("open", "abort"))
			}))
		model := fakellm.New(inquiry,
			fakellm.Calls("drops", `{"action":"spawn","id":"gone","target":"x"}`).
				And("waits", `{"action":"spawn","id":"built","target":"y"}`).
				And("asks", `{"action":"spawn","id":"open","target":"z"}`),
			fakellm.Says("Begun."), fakellm.Says("I see."))
		outside := underPolicy(t, "asks", tool.Idempotent, tool.HandlePolicy{},
			func(context.Context, target) (tool.Result[string], error) {
				return tool.Pending[string](tool.Await{}), nil
			})
		r = newRig(t, agent.Config{Tools: []tool.Tool{outside, minutes(t, "drops", tool.AbortAtEnd),
			minutes(t, "waits", tool.AwaitAtEnd)}, Model: model}, &rigOptions{memory: true})
		r.say("Go.").finished(event.FinishStop)
		if !slices.Equal(known, []event.Status{event.Cancelled, event.Done, ""}) {
			t.Errorf("when the model is asked they are %q", known)
		}
		if asked < time.Minute || asked > time.Minute+5*time.Second {
			t.Errorf("it is asked after %v", asked)
		}
		if n := len(model.Requests()); n != 4 {
			t.Errorf("the model had %d requests", n)
		}
		time.Sleep(time.Minute)
		if got := r.statusOf("open"); got != event.Cancelled {
			t.Errorf("what the model gave up is %q", got)
		}
		must(t, r.Close())
		r.sound()
	})
}

// An inquiry goes to the agent's Inquirer, without tools and outside the
// history, and what it uses counts. An answer that can't be read is asked for
// three times. Without one, the handles are waited for.
func TestTheInquirerIsAsked(t *testing.T) {
	answers := func(texts ...string) (all []fakellm.Turn) {
		for _, text := range texts {
			all = append(all, fakellm.Says(text))
		}
		return all
	}
	for name, test := range map[string]struct {
		replies  []fakellm.Turn
		requests int
		want     event.Status
	}{
		"at once":             {answers(fate("a", "abort")), 1, event.Cancelled},
		"no JSON, then right": {answers("abort", fate("a", "abort")), 2, event.Cancelled},
		"another fate, twice": {answers(fate("a", "kill"), fate("a", "stop")), 3, event.Done},
		"of nothing, twice":   {answers(`{"handles":[]}`, `{}`), 3, event.Done},
		"it fails":            {[]fakellm.Turn{fakellm.Fails(errors.New("down"))}, 3, event.Done},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := fakellm.New(begin("a"), fakellm.Says("Begun."), fakellm.Says("I see."))
				for i := range test.replies {
					test.replies[i] = test.replies[i].Usage(llm.Usage{Input: 7})
				}
				inquirer := fakellm.New(test.replies...)
				r := newRig(t, agent.Config{Tools: []tool.Tool{minute(t, tool.HandlePolicy{})}, Model: model,
					Inquirer: inquirer}, &rigOptions{memory: true})
				r.say("Go.").finished(event.FinishStop)
				time.Sleep(time.Minute)
				if got := r.statusOf("a"); got != test.want {
					t.Errorf("the handle is %q", got)
				}
				all := inquirer.Requests()
				if len(all) != test.requests {
					t.Errorf("the inquirer was asked %d times", len(all))
				}
				for _, req := range all {
					if len(req.Tools) > 0 || !strings.Contains(req.Messages[0].Text(), "Go.") {
						t.Errorf("it is asked %+v", req)
					}
				}
				for _, m := range r.transcript().History {
					if strings.Contains(m.Text(), "about to end your turn") {
						t.Error("the inquiry is in the history")
					}
				}
				st, err := r.store.Load(t.Context(), chat)
				must(t, err)
				if used := st.Run.Usage.Input; (used > 0) != (name != "it fails") {
					t.Errorf("the run has used %d", used)
				}
				must(t, r.Close())
				r.sound()
			})
		})
	}
}

// CancelSession during an inquiry ends the run and its handles. A worker that is
// told to stop then leaves the decision to the next one.
func TestWhatComesDuringAnInquiry(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(r *rig, stop context.CancelFunc)
		finish    event.Finish
		inquiries int
	}{
		"nothing": {func(*rig, context.CancelFunc) {}, event.FinishStop, 1},
		"CancelSession": {func(r *rig, _ context.CancelFunc) {
			must(r.t, r.CancelSession(r.t.Context(), chat, user, "no"))
		}, event.FinishCancelled, 1},
		"the worker's end": {func(_ *rig, stop context.CancelFunc) { stop() }, event.FinishStop, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			var n counter
			inquiries := 0
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			inquiry := fakellm.Says(fate("a", "abort")).Hook(func(ctx context.Context, n int) error {
				if n > 0 {
					return nil
				}
				if inquiries++; inquiries == 1 {
					test.meanwhile(r, stop)
				}
				if test.inquiries > inquiries { // it is cut off
					<-ctx.Done()
				}
				return ctx.Err()
			})
			model := fakellm.New(fakellm.When(fakellm.UserSays("about to end your turn"), inquiry),
				begin("a").And("job", `{"text":"j"}`), fakellm.Says("Begun."))
			r = newRig(t, agent.Config{Model: model, Tools: []tool.Tool{waiting("job", tool.Once, &n),
				waitsOutside(t, tool.HandlePolicy{})}}, &rigOptions{memory: true})
			p := r.say("Go.").finished(event.FinishPaused).pause("job")
			_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", []byte(`{"text":"k"}`)))
			must(t, err)
			_ = r.Work(ctx, &runner.WorkOptions{Poll: time.Millisecond,
				OnEvent: func(id string, ev event.Event, _ error) {
					if _, over := ev.(event.End); over && id == chat {
						stop()
					}
				}})
			r.settled()
			st, err := r.store.Load(t.Context(), chat)
			must(t, err)
			if st.Finish != test.finish || inquiries != test.inquiries {
				t.Errorf("it ends as %q, after %d inquiries", st.Finish, inquiries)
			}
			if got := r.statusOf("a"); got != event.Cancelled {
				t.Errorf("the handle is %q", got)
			}
			must(t, r.Close())
			r.sound()
		})
	}
}

// A caller that leaves during an inquiry, and says something else then, goes on
// with the conversation. The handle goes on, and is asked about anew.
func TestAMessageAfterAnInquiryThatWasLeft(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	inquiries := 0
	inquiry := fakellm.Says(fate("a", "abort")).Hook(func(ctx context.Context, n int) error {
		if n > 0 {
			return nil
		}
		if inquiries++; inquiries == 1 {
			leave()
			<-ctx.Done()
		}
		return ctx.Err()
	})
	model := fakellm.New(fakellm.When(fakellm.UserSays("about to end your turn"), inquiry),
		begin("a"), fakellm.Says("Begun."), fakellm.Says("Hello."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{waitsOutside(t, tool.HandlePolicy{})},
		Model: model}, &rigOptions{memory: true})
	if s := watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil)); s.err == nil {
		t.Fatalf("the run ends as %+v", s.end)
	}
	if got := r.statusOf("a"); got != "" {
		t.Errorf("by the inquiry that was left, the handle is %q", got)
	}
	r.say("Hello?").finished(event.FinishStop)
	r.settled()
	if got := r.statusOf("a"); got != event.Cancelled || inquiries != 2 {
		t.Errorf("after %d inquiries the handle is %q", inquiries, got)
	}
	must(t, r.Close())
	r.sound()
}
