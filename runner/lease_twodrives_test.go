package runner_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	public "github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// overtaken is a rig on an engine that processes share, and another runner on it.
func overtaken(t *testing.T, m llm.Model) (r *rig, second *runner.Runner) {
	r = newRig(t, agent.Config{Model: m}, &rigOptions{memory: true, wrap: hidden})
	return r, r.another()
}

// before has f run before the next write.
func (r *rig) before(f func()) {
	first := true
	r.faults.Before(func(faultkv.Call) {
		if first {
			first = false
			f()
		}
	})
}

// A run of a message that another process brings at the same time takes it once.
func TestOneMessageThroughTwoProcesses(t *testing.T) {
	asked := 0
	script := messages(says("Hello."), says("Hello again."))
	r, second := overtaken(t, modelFunc(func(req llm.Request) []llm.Event { asked++; return script(req) }))
	o := &runner.RunOptions{MessageID: "m1"}
	r.before(func() { watch(t, r.Run(t.Context(), user, chat, llm.UserText("Hi."), o)).finished(event.FinishStop) })
	watch(t, second.Run(t.Context(), user, chat, llm.UserText("Hi."), o)).finished(event.FinishStop)
	if got := r.transcript().History; len(got) != 2 || asked != 1 {
		t.Errorf("the history is %v, and the model was asked %d times", got, asked)
	}
}

// interrupted is a session whose model's answer is due, and which nobody carries on.
func interrupted(t *testing.T, asked *int) (r *rig, second *runner.Runner) {
	script := messages(says("Hello."), says("Hello once more."))
	r, second = overtaken(t, modelFunc(func(req llm.Request) []llm.Event { *asked++; return script(req) }))
	ctx, cancel := context.WithCancel(t.Context())
	r.before(cancel)
	watch(t, r.Run(ctx, user, chat, llm.UserText("Hi."), nil))
	if got := r.transcript(); got.Finish != event.FinishInterrupted || *asked != 0 {
		t.Fatalf("it is %q, and the model was asked %d times", got.Finish, *asked)
	}
	return r, second
}

// The model's answer was due when a drive began, and is there when the drive has its lease: the model isn't asked again.
func TestModelIsNotAskedForWhatIsThere(t *testing.T) {
	asked := 0
	r, second := interrupted(t, &asked)
	r.before(func() { r.carryOn().finished(event.FinishStop) })
	watch(t, second.Continue(t.Context(), chat, user)).finished(event.FinishStop)
	if got := r.transcript().History; len(got) != 2 || asked != 1 {
		t.Errorf("the history is %v, and the model was asked %d times", got, asked)
	}
}

// A caller leaves what somebody else has just finished: it stays finished.
func TestLeavingWhatIsFinished(t *testing.T) {
	asked := 0
	r, _ := interrupted(t, &asked)
	ctx, cancel := context.WithCancel(t.Context())
	reading := &reader{Store: r.kv, after: cancel} // before the drive does anything
	ag, err := agent.New(r.config)
	must(t, err)
	second, err := runner.New(ag, public.NewStore(reading, nil), nil)
	must(t, err)
	t.Cleanup(func() { second.Close() })
	r.before(func() { r.carryOn().finished(event.FinishStop) })
	watch(t, second.Continue(ctx, chat, user))
	if got := r.transcript(); got.Finish != event.FinishStop || asked != 1 {
		t.Errorf("it is %q, and the model was asked %d times", got.Finish, asked)
	}
}

// reader has something happen after each Get.
type reader struct {
	kvstore.Store
	after func()
}

func (r *reader) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	defer r.after()
	return r.Store.Get(ctx, key)
}

// looked has something happen before or after a head is read, once.
type looked struct {
	kvstore.Exclusive
	before, after func()
}

func (l *looked) Get(ctx context.Context, key []byte) (kvstore.Entry, error) {
	if f := l.before; f != nil && strings.HasPrefix(string(key), "h\x00") {
		l.before = nil
		f()
	}
	e, err := l.Exclusive.Get(ctx, key)
	if f := l.after; f != nil && strings.HasPrefix(string(key), "h\x00") {
		l.after = nil
		f()
	}
	return e, err
}

// An answer comes when a drive has found nothing to do, and before it looks once more: nobody else would take it up.
func TestAnswerBetweenTwoLooks(t *testing.T) {
	var n counter
	l := new(looked)
	r := newRig(t, agent.Config{Tools: []tool.Tool{waiting("job", tool.Once, &n)}, Model: messages(calls("job", `{"text":"j"}`), says("Done."))},
		&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store { l.Exclusive = kv.(kvstore.Exclusive); return l }})
	var end event.Finish
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
		must(t, err)
		switch ev := ev.(type) {
		case event.Pause:
			l.before = func() {
				_, err := r.Resume(context.Background(), chat, runner.Complete(ev.Pause.ID, "ci", text("v")))
				must(t, err)
			}
		case event.End:
			end = ev.Finish
		}
	}
	if end != event.FinishStop {
		t.Errorf("the run ended as %q", end)
	}
}

// A call, or its session, is cancelled when a drive has read its head, and does not watch it yet: the body is told to end all the same.
func TestCancelledBeforeTheDriveWatches(t *testing.T) {
	for name, cancel := range map[string]func(*rig, tool.Pause) error{
		"a call": func(r *rig, p tool.Pause) error {
			_, err := r.Cancel(context.Background(), chat, p.Call, "bob", "enough")
			return err
		},
		"a session": func(r *rig, p tool.Pause) error { return r.CancelSession(context.Background(), chat, "bob", "enough") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(looked)
				look := tool.Must(tool.Func(tool.Spec{Name: "look", Effect: tool.ReadOnly, MayPause: true}, func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
					if tool.CallFrom(ctx).Answer == nil {
						return tool.Pending[textOut](tool.Await{Mode: tool.ModeReenter}), nil
					}
					select {
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					case <-time.After(time.Hour):
						return tool.Done(textOut{"nobody told it to end"}), nil
					}
				}))
				r := newRig(t, agent.Config{Tools: []tool.Tool{look}, Model: messages(calls("look", `{"text":"a"}`), says("Done."))},
					&rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store { l.Exclusive = kv.(kvstore.Exclusive); return l }})
				p := r.say("Look.").finished(event.FinishPaused).pause("look")
				_, err := r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", []byte(`1`)))
				must(t, err)
				l.after = func() { must(t, cancel(r, p)) }
				r.carryOn()
				if c, err := r.Call(t.Context(), chat, p.Call, user); err != nil || c.Settled != event.Cancelled || c.By != "bob" {
					t.Errorf("it settled as %s by %q with %s, %v", c.Settled, c.By, c.Output, err)
				}
			})
		})
	}
}

// A call of an interrupted session is cancelled: somebody wants the session to go on, and a worker carries it on.
func TestCancelLetsAnInterruptedSessionGoOn(t *testing.T) {
	var n counter
	r := newRig(t, jobs(&n, 1), nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("job")
	must(t, r.store.Update(t.Context(), chat, func(tx *session.Tx) error { tx.Stop(event.FinishInterrupted, ""); return nil }))
	_, err := r.Cancel(t.Context(), chat, p.Call, user, "no longer needed")
	must(t, err)
	r.work(runner.WorkOptions{}, 1)
	if got := r.transcript().Finish; got != event.FinishStop {
		t.Errorf("it is %q", got)
	}
}
