package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// hooked is an engine with something to do at its calls.
type hooked struct {
	kvstore.Store
	before func(kvstore.Batch) // each Apply
	after  func(kvstore.Range) // each Scan
}

func (h *hooked) Apply(ctx context.Context, b kvstore.Batch) (kvstore.Revision, error) {
	if f := h.before; f != nil {
		f(b)
	}
	return h.Store.Apply(ctx, b)
}

func (h *hooked) Scan(ctx context.Context, r kvstore.Range) (kvstore.Page, error) {
	p, err := h.Store.Scan(ctx, r)
	if f := h.after; f != nil {
		f(r)
	}
	return p, err
}

func (h *hooked) wrap(kv kvstore.Store) kvstore.Store {
	h.Store = kv
	return h
}

// streams is a model by its method.
type streams func(context.Context, llm.Request) iter.Seq2[llm.Event, error]

func (f streams) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	return f(ctx, r)
}

// An accepted answer is taken up, and cancelled while the model reads it; the model then fails in a way that passes. What it reads
// next is how the call really ended, once.
func TestModelIsRetriedAfterTheAnswerWasCancelled(t *testing.T) {
	var n counter
	var r *rig
	var call string
	var last llm.Request
	asked := 0
	first := fakellm.New(fakellm.Calls("job", `{"text":"k"}`))
	r = newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &n)}, Retry: agent.Retry{First: time.Millisecond},
		Model: streams(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
			switch asked++; asked {
			case 1:
				return first.Generate(ctx, req)
			case 2:
				_, err := r.Cancel(context.Background(), chat, call, "bob", "stop")
				must(t, err)
				return func(yield func(llm.Event, error) bool) { yield(nil, &llm.Error{Kind: llm.ErrOverloaded}) }
			}
			last = req
			return fakellm.Echo().Generate(ctx, req)
		}),
	}, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	call = p.Call
	r.answer(runner.Complete(p.ID, "ci", text("v"))).finished(event.FinishStop)
	must(t, fakellm.Check(last))
	if got := r.result(call); !got.Error || !strings.Contains(string(got.Output), "Cancelled") {
		t.Errorf("the call ended with %s", got.Output)
	}
	r.acceptable()
}

// The user's message and a cancellation come at the same time: both count.
func TestMessageOutrunByACancellation(t *testing.T) {
	var n counter
	h := &hooked{}
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{waiting("job", tool.Once, &n)},
		Model: fakellm.New(fakellm.Calls("job", `{"text":"k"}`), fakellm.Says("Well.")),
	}, &rigOptions{memory: true, wrap: h.wrap})
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v")))
	must(t, err)
	h.before = func(b kvstore.Batch) {
		for _, put := range b.Puts {
			if h.before != nil && bytes.Contains(put.Value, []byte("And now?")) {
				h.before = nil
				_, err := r.Cancel(context.Background(), chat, p.Call, "bob", "no")
				must(t, err)
			}
		}
	}
	r.say("And now?").finished(event.FinishStop)
	if got := r.result(p.Call); !got.Error {
		t.Errorf("the call ended with %s", got.Output)
	}
	if got := r.transcript().History; len(got) != 5 || got[3].Text() != "And now?" {
		t.Errorf("the history is %v", got)
	}
	r.acceptable()
}

// A pause that is overdue is over, for whoever comes, also where more are overdue than one commit ends.
func TestOverdueForEverybody(t *testing.T) {
	for name, late := range map[string]func(*rig, tool.Pause, time.Time) error{
		"extend": func(r *rig, p tool.Pause, now time.Time) error {
			return r.Extend(context.Background(), chat, p.ID, user, now.Add(time.Hour))
		},
		"cancel": func(r *rig, p tool.Pause, _ time.Time) error {
			_, err := r.Cancel(context.Background(), chat, p.Call, user, "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			cl := newClock()
			r := newRig(t, jobs(&n, 20), &rigOptions{session: &session.Options{Now: cl.now}})
			pending := r.say("Go.").finished(event.FinishPaused).end.Pending
			cl.pass(2 * time.Hour)
			last := pending[len(pending)-1]
			if err := late(r, last, cl.now()); err == nil {
				t.Error("it is taken")
			}
			got, err := r.Call(t.Context(), chat, last.Call, user)
			must(t, err)
			if got.Settled != event.Expired {
				t.Errorf("the call is %s %s", got.Status, got.Settled)
			}
		})
	}
}

// The caller has left, and the body goes on. Whoever cancels its call doesn't wait for it for ever.
func TestCancelAfterTheCallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan string, 1), make(chan struct{})
		r := newRig(t, agent.Config{Tools: []tool.Tool{stubborn(entered, release)}, Model: messages(calls("slow", `{"text":"a"}`), says("Done."))},
			&rigOptions{memory: true})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var call string
		for ev := range r.Run(ctx, user, chat, llm.UserText("Go."), nil) {
			if e, ok := ev.(event.Call); ok {
				call = e.Call.ID
				time.AfterFunc(time.Second, cancel)
			}
		}
		_, err := r.Cancel(context.Background(), chat, call, user, "enough")
		must(t, err)
		time.Sleep(11 * time.Second)
		got, err := r.Call(context.Background(), chat, call, user)
		must(t, err)
		if got.Settled != event.Unknown {
			t.Errorf("after the grace the call is %s %s", got.Status, got.Settled)
		}
		watch(t, r.Continue(context.Background(), chat, user)).finished(event.FinishStop)
		close(release)
		synctest.Wait()
		r.acceptable()
	})
}

// A message that is refused leaves an interrupted session interrupted, although what was accepted before is settled for it.
func TestRefusedMessageLiftsNothing(t *testing.T) {
	for lease, wrap := range map[string]func(kvstore.Store) kvstore.Store{"exclusive": nil, "shared": hidden} {
		for _, was := range []session.Halt{{Finish: event.FinishInterrupted}, {Finish: event.FinishCancelled, By: "bob", Why: "enough"}} {
			t.Run(fmt.Sprint(was.Finish, " ", lease), func(t *testing.T) {
				var n counter
				r := newRig(t, jobs(&n, 2), &rigOptions{wrap: wrap})
				p := r.say("Go.").finished(event.FinishPaused).end.Pending
				_, err := r.Resume(t.Context(), chat, runner.Complete(p[0].ID, "ci", text("v")))
				must(t, err)
				must(t, r.store.Update(t.Context(), chat, func(tx *session.Tx) error {
					tx.Stop(was.Finish, was.Why)
					tx.Halt.By = was.By
					return nil
				}))
				if err := r.say("And?").err; err == nil {
					t.Fatal("it is taken")
				}
				if got := r.transcript(); got.Finish != was.Finish || got.Why != was.Why || len(got.Pending) != 1 {
					t.Errorf("it is %q, and %d calls wait", got.Finish, len(got.Pending))
				}
				if got := must2(r.store.Load(t.Context(), chat)).Halt; got == nil || got.By != was.By {
					t.Errorf("it was ended by %q, and is kept as %+v", was.By, got)
				}
			})
		}
	}
}

// An answer that comes while a refused message is given up lifts the interruption, as it does before and after.
func TestAnswerBesideARefusedMessage(t *testing.T) {
	var n counter
	h := new(hooked)
	r := newRig(t, jobs(&n, 3), &rigOptions{wrap: h.wrap})
	p := r.say("Go.").finished(event.FinishPaused).end.Pending
	_, err := r.Resume(t.Context(), chat, runner.Complete(p[0].ID, "ci", text("v")))
	must(t, err)
	must(t, r.store.Update(t.Context(), chat, func(tx *session.Tx) error { tx.Stop(event.FinishInterrupted, ""); return nil }))
	h.before = func(b kvstore.Batch) {
		if slices.ContainsFunc(b.Puts, func(put kvstore.Put) bool { return bytes.Contains(put.Value, []byte(`"halt":{`)) }) {
			h.before = nil
			_, err := r.Resume(t.Context(), chat, runner.Complete(p[1].ID, "ci", text("w")))
			must(t, err)
		}
	}
	if err := r.say("And?").err; !errors.Is(err, session.ErrPending) || h.before != nil {
		t.Fatalf("the message is taken, or the session was not halted again: %v", err)
	}
	st, err := r.store.Load(t.Context(), chat)
	must(t, err)
	if step := session.Next(st, r.store.Now()); !step.Working() {
		t.Errorf("an answer is accepted, and what comes next is %q", step.Kind)
	}
}

// A sweep that looked at a session before it was used again leaves it alone.
func TestSweepSparesWhatIsUsedAgain(t *testing.T) {
	cl, h := newClock(), &hooked{}
	r := newRig(t, agent.Config{Model: fakellm.Echo()}, &rigOptions{memory: true, wrap: h.wrap, session: &session.Options{Now: cl.now}})
	r.say("Hi.").finished(event.FinishStop)
	cl.pass(48 * time.Hour)
	h.after = func(rg kvstore.Range) {
		if bytes.Equal(rg.Prefix, kvstore.Key("h")) {
			h.after = nil
			r.say("Back again.").finished(event.FinishStop)
		}
	}
	keep := &session.Retention{Sessions: 24 * time.Hour}
	swept, err := r.store.Sweep(t.Context(), keep)
	must(t, err)
	if got := len(r.transcript().History); got != 4 || swept.Sessions != 0 {
		t.Errorf("%d messages are left, and %+v swept", got, swept)
	}
	cl.pass(48 * time.Hour)
	if swept, err = r.store.Sweep(t.Context(), keep); err != nil || swept.Sessions != 1 {
		t.Errorf("later: %+v, %v", swept, err)
	}
}

// A sweep sees a payload that moves from the head to a record while it looks.
func TestSweepSparesPayloadsThatMove(t *testing.T) {
	for at := 1; at <= 4; at++ {
		t.Run(fmt.Sprint("before scan ", at), func(t *testing.T) {
			var n counter
			cl, h := &clock{at: time.Now()}, &hooked{}
			r := newRig(t, agent.Config{
				Tools: []tool.Tool{instant("act", tool.Once, &n)}, Interceptors: interceptor.Chain{interceptor.Approval(nil)},
				Model: fakellm.New(fakellm.Calls("act", `{"text":"a"}`), fakellm.Says("ok")),
			}, &rigOptions{memory: true, wrap: h.wrap, session: &session.Options{Now: cl.now}})
			p := r.say("Go.").finished(event.FinishPaused).pause("act")
			_, err := r.Resume(t.Context(), chat, runner.ApproveEdited(p.ID, "bob", "", textIn{strings.Repeat("x", 5000)}))
			must(t, err)
			cl.pass(2 * time.Hour)
			scans := 0
			h.after = func(kvstore.Range) {
				if scans++; scans == at {
					h.after = nil
					r.carryOn().finished(event.FinishStop)
				}
			}
			_, err = r.store.Sweep(t.Context(), nil)
			must(t, err)
			status, err := r.Call(t.Context(), chat, p.Call, user)
			must(t, err)
			if len(status.Decisions) != 1 || len(status.Decisions[0].Arguments) < 5000 {
				t.Errorf("the decision is %.100v", status.Decisions)
			}
		})
	}
}
