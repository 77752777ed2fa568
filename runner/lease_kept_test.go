package runner_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// TestSlowDrivesKeepTheirLease: where leases are stored and end by time, a
// drive that lives keeps its own, however long the model thinks, a body runs, a
// listener looks at an event, or a body that was left takes to end.
func TestSlowDrivesKeepTheirLease(t *testing.T) {
	const long = 10 * time.Minute
	for name, test := range map[string]struct {
		model, body, listener time.Duration
		leave                 bool // as soon as the body runs
	}{
		"the model is slow":     {model: long},
		"a body is slow":        {body: long},
		"the listener is slow":  {listener: long},
		"a body was left alone": {body: long, leave: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				act := does(tool.Spec{Name: "act"},
					func(ctx context.Context, _ string) (tool.Result[textOut], error) {
						n.add("act")
						must(t, tool.CallFrom(ctx).Report(ctx, tool.Progress{Message: "begun"}))
						time.Sleep(test.body) // and ignores its context
						return tool.Done(textOut{"done"}), nil
					})
				model := fakellm.New(fakellm.Calls("act", `{"text":"a"}`).Delay(test.model, 0),
					fakellm.Says("Done."))
				r := newRig(t, agent.Config{Model: model, Tools: []tool.Tool{act}},
					&rigOptions{memory: true, wrap: hidden})
				ran := make(chan *seen, 1)
				go func() {
					s := &seen{t: t}
				run:
					for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
						s.events, s.err = append(s.events, ev), err
						switch ev := ev.(type) {
						case event.Call:
							time.Sleep(test.listener)
						case event.End:
							s.end = ev
						}
						if _, ok := ev.(event.Progress); ok && test.leave {
							break run
						}
					}
					ran <- s
				}()
				other := r.another()
				for range 8 {
					time.Sleep(time.Minute)
					if err := watch(t,
						other.Continue(t.Context(), chat, user)).err; !errors.Is(err,
						session.ErrBusy) {
						t.Fatalf("another driver gets %v", err)
					}
				}
				run := <-ran
				if test.leave {
					time.Sleep(long)
					run = watch(t, other.Continue(t.Context(), chat, user))
				}
				run.finished(event.FinishStop)
				if n.get("act") != 1 || len(model.Requests()) != 2 {
					t.Errorf("the body was entered %d times, the model called %d times",
						n.get("act"), len(model.Requests()))
				}
				r.acceptable()
			})
		})
	}
}

// TestAnsweredWhileItsPauseIsShown: the commit of a pause has given the stored
// lease up. The caller that ranges over the events answers the pause there and
// then, or after a long time. The drive takes the lease again before it goes
// on, and keeps it, however long the model or a body takes.
func TestAnsweredWhileItsPauseIsShown(t *testing.T) {
	const long = 10 * session.DefaultLease
	for name, test := range map[string]struct {
		tool                  string
		listener, model, body time.Duration
	}{
		"the model is slow":                         {tool: "deploy", model: long},
		"the body is slow":                          {tool: "look", body: long},
		"who answers takes his time":                {tool: "look", listener: long},
		"all take their time":                       {tool: "look", listener: long, model: long, body: long},
		"who answers takes his time, and the model": {tool: "deploy", listener: long, model: long},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				look := does(tool.Spec{Name: "look", Effect: tool.Idempotent},
					func(ctx context.Context, s string) (tool.Result[textOut], error) {
						n.add("look")
						select {
						case <-time.After(test.body):
							return tool.Done(textOut{s}), nil
						case <-ctx.Done():
							return nil, context.Cause(ctx)
						}
					})
				model := fakellm.New(fakellm.Calls(test.tool, `{"text":"a"}`),
					fakellm.Says("Done.").Delay(test.model, 0))
				r := newRig(t, agent.Config{Model: model,
					Tools: []tool.Tool{look, waiting("deploy", tool.Once, &n)},
					Interceptors: interceptor.Chain{
						interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"look"}}),
					}},
					&rigOptions{memory: true, wrap: hidden})
				other := r.another()
				answered, ran := make(chan struct{}), make(chan *seen, 1)
				go func() {
					s := &seen{t: t}
					for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
						s.events, s.err = append(s.events, ev), err
						switch ev := ev.(type) {
						case event.Pause:
							time.Sleep(test.listener)
							in := runner.Approve(ev.Pause.ID, user, "ok")
							if test.tool == "deploy" {
								in = runner.Complete(ev.Pause.ID, "ci", text("v2"))
							}
							if _, err := r.Resume(t.Context(), chat, in); err != nil {
								t.Error(err)
							}
							close(answered)
						case event.End:
							s.end = ev
						}
					}
					ran <- s
				}()
				<-answered
				synctest.Wait()
				for passed := time.Duration(0); passed < test.body+
					test.model; passed += session.DefaultLease {
					if err := watch(t,
						other.Continue(t.Context(), chat, user)).err; !errors.Is(err,
						session.ErrBusy) {
						t.Fatalf("%v after the answer another driver gets %v", passed, err)
					}
					time.Sleep(session.DefaultLease)
				}
				(<-ran).finished(event.FinishStop)
				if test.tool == "look" && n.get("look") != 1 {
					t.Errorf("the body was entered %d times", n.get("look"))
				}
				r.acceptable()
			})
		})
	}
}

// TestAnsweredFromElsewhereWhileItsPauseIsShown: the caller that ranges over
// the events takes a long time over a pause. Another process answers it and
// carries the session on. The drive leaves it to that one.
func TestAnsweredFromElsewhereWhileItsPauseIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		r := newRig(t, agent.Config{Tools: []tool.Tool{instant("act", tool.Once, &n)},
			Interceptors: interceptor.Chain{interceptor.Approval(nil)},
			Model:        messages(calls("act", `{"text":"a"}`), says("Done."))},
			&rigOptions{memory: true, wrap: hidden})
		other := r.another()
		s := &seen{t: t}
		for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Go."), nil) {
			s.events, s.err = append(s.events, ev), err
			switch ev := ev.(type) {
			case event.Pause:
				time.Sleep(10 * session.DefaultLease)
				res, err := other.Resume(t.Context(), chat, runner.Approve(ev.Pause.ID, user, "ok"))
				must(t, err)
				watch(t, res.Events(t.Context())).finished(event.FinishStop)
			case event.End:
				s.end = ev
			}
		}
		if s.err != nil || n.get("act") != 1 {
			t.Errorf("the run ended as %s with %v, and the body was entered %d times", s.end.Finish,
				s.err, n.get("act"))
		}
		r.acceptable()
	})
}

// TestLeaseTakenAgainIsLost: a drive has given its lease up, and taken the
// session again, since an answer came from another process just then. Then the
// store hangs. The body is told when that lease is over.
func TestLeaseTakenAgainIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		var at time.Time
		running := make(chan struct{})
		act := does(tool.Spec{Name: "act", Effect: tool.Idempotent},
			func(ctx context.Context, _ string) (tool.Result[textOut], error) {
				close(running)
				<-ctx.Done()
				told, at = context.Cause(ctx), time.Now()
				return tool.Done(textOut{"late"}), nil
			})
		var disk *faultkv.Injector
		r := newRig(t, oneCall(act, interceptor.Approval(nil)), &rigOptions{memory: true,
			wrap: func(kv kvstore.Store) kvstore.Store {
				disk = faultkv.New(hidden(kv))
				return disk.Store
			}})
		other := r.another()
		ran := make(chan *seen, 1)
		go func() {
			s := &seen{t: t}
			for ev, err := range r.Run(context.Background(), user, chat, llm.UserText("Go."), nil) {
				s.err = err
				switch ev := ev.(type) {
				case event.Pause:
					if _, err := other.Resume(context.Background(), chat,
						runner.Approve(ev.Pause.ID, user, "ok")); err != nil {
						t.Error(err)
					}
				case event.End:
					s.end = ev
				}
			}
			ran <- s
		}()
		<-running
		time.Sleep(time.Second)
		synctest.Wait()
		begun := time.Now()
		disk.Stall(false)
		(<-ran).finished(event.FinishElsewhere)
		synctest.Wait()
		if took := at.Sub(begun); !errors.Is(told, session.ErrFenced) ||
			took > session.DefaultLease {
			t.Errorf("after %v the body was told %v", took, told)
		}
		disk.Heal()
		must(t, r.Close())
		must(t, other.Close())
	})
}
