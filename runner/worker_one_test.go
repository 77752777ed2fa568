package runner_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// A worker looks after one session, and after no other, until that is over.
func TestWorkOnOneSession(t *testing.T) {
	// start is a rig of two sessions, each with a call that waits.
	start := func(t *testing.T) (*rig, tool.Pause, tool.Pause) {
		var n counter
		r := newRig(t, agent.Config{
			Tools: []tool.Tool{waiting("deploy", tool.Once, &n)},
			Model: messages(calls("deploy", `{"text":"job"}`), says("Done.")),
		}, &rigOptions{memory: true})
		p := r.say("Go.").finished(event.FinishPaused).pause("deploy")
		other := watch(t, r.Run(t.Context(), user, "chat-2",
			llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("deploy")
		return r, p, other
	}
	untilOver := func(ends *[]string) *runner.WorkOptions {
		return &runner.WorkOptions{Session: chat, UntilOver: true,
			OnEvent: func(id string, ev event.Event, _ error) {
				if e, ok := ev.(event.End); ok {
					*ends = append(*ends, id+" "+string(e.Finish))
				}
			}}
	}
	stands := func(r *rig, id string, want event.Finish) {
		t.Helper()
		if s := must2(r.Show(r.t.Context(), id, user)); s.Finish != want {
			t.Errorf("%s is %q", id, s.Finish)
		}
	}
	t.Run("an answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, p, other := start(t)
			must2(r.Resume(t.Context(), "chat-2", runner.Complete(other.ID, "ci", text("v1"))))
			var ends []string
			worked := make(chan error, 1)
			go func() { worked <- r.Work(t.Context(), untilOver(&ends)) }()
			synctest.Wait() // it waits, and so does the call
			at := time.Now()
			must2(r.Resume(t.Context(), chat, runner.Complete(p.ID, "ci", text("v1"))))
			must(t, <-worked)
			if len(ends) != 1 || ends[0] != chat+" stop" || time.Since(at) != 0 {
				t.Errorf("it drove %q, in %v", ends, time.Since(at))
			}
			stands(r, "chat-2", "") // it has something to do, and no worker does it
			r.Close()
		})
	})
	t.Run("a deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, _, _ := start(t)
			at := time.Now()
			var ends []string
			must(t, r.Work(t.Context(), untilOver(&ends)))
			if got := time.Since(at); len(ends) != 1 || got < time.Hour ||
				got > time.Hour+time.Second {
				t.Errorf("it drove %q, after %v", ends, got)
			}
			stands(r, "chat-2", "") // overdue
			r.Close()
		})
	})
	t.Run("what others drive, and begin", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, _, _ := start(t)
			worked := make(chan error, 1)
			go func() {
				worked <- r.Work(t.Context(),
					&runner.WorkOptions{Session: "chat-3", UntilOver: true})
			}()
			synctest.Wait() // there is no such session
			p := watch(t, r.Run(t.Context(), user, "chat-3",
				llm.UserText("Go."), nil)).finished(event.FinishPaused).pause("deploy")
			synctest.Wait()
			select {
			case err := <-worked:
				t.Fatalf("while a call waits it ends, with %v", err)
			default:
			}
			must2(r.Cancel(t.Context(), "chat-3", p.Call, "ada", "no"))
			must(t, <-worked)
			stands(r, "chat-3", event.FinishStop)
			r.Close()
		})
	})
	t.Run("one that is halted has nothing for a worker", func(t *testing.T) {
		r, _, _ := start(t)
		must(t, r.CancelSession(t.Context(), chat, "ada", "no"))
		must(t, r.Work(t.Context(), &runner.WorkOptions{Session: chat, UntilOver: true}))
		stands(r, chat, event.FinishCancelled)
	})
	t.Run("one that was interrupted while a call waits goes on with the answer",
		func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n counter
				begun := make(chan struct{}, 1)
				slow := tool.Must(tool.Func(tool.Spec{Name: "slow",
					Description: "Begins anew.", Effect: tool.Idempotent},
					func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
						if n.add("slow") == 1 {
							begun <- struct{}{}
							<-ctx.Done()
							return nil, ctx.Err()
						}
						return tool.Done(textOut(in)), nil
					}))
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{waiting("deploy", tool.Once, &n), slow}, Concurrency: 1,
					Model: messages(calls("deploy", `{"text":"job"}`, "slow", `{"text":"a"}`,
						"slow", `{"text":"b"}`), says("Done.")),
				}, &rigOptions{memory: true})
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				go func() { <-begun; leave() }()
				watch(t, r.Run(ctx, user, chat, llm.UserText("Go."), nil))
				synctest.Wait()
				stands(r, chat, event.FinishInterrupted)
				worked := make(chan error, 1)
				go func() {
					worked <- r.Work(t.Context(),
						&runner.WorkOptions{Session: chat, UntilOver: true})
				}()
				synctest.Wait()
				select {
				case err := <-worked:
					t.Errorf("while a call waits it ends, with %v", err)
				default:
					must2(r.Resume(t.Context(), chat,
						runner.Complete(r.transcript().Pending[0].ID, "ci", text("v1"))))
					must(t, <-worked)
					stands(r, chat, event.FinishStop)
				}
				r.Close()
			})
		})
	t.Run("until its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, p, _ := start(t)
			r.answer(runner.Complete(p.ID, "ci", text("v1"))).finished(event.FinishStop)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if err := r.Work(ctx, &runner.WorkOptions{Session: chat}); !errors.Is(err,
				context.DeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
			r.Close()
		})
	})
	t.Run("one that can't be driven is an error", func(t *testing.T) {
		r, _, _ := start(t)
		taker, err := runner.New(nil, r.public, nil)
		must(t, err)
		defer taker.Close()
		if err := taker.Work(t.Context(),
			&runner.WorkOptions{Session: chat}); !errors.Is(err, runner.ErrUnknownAgent) {
			t.Errorf("without its agent: %v", err)
		}
		must(t, r.Delete(t.Context(), chat, "ada"))
		if err := r.Work(t.Context(),
			&runner.WorkOptions{Session: chat}); !errors.Is(err, session.ErrDeleted) {
			t.Errorf("deleted: %v", err)
		}
	})
}
