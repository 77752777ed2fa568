package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/tool/retry"
	"github.com/fermata-ai/fermata/tool/wait"
)

// A call that ends before its body was ever entered, while it waits for permits,
// or to try that again, has begun nothing: it says so, and nothing is called off.
func TestACallThatWaitsForItsFirstPermitHasBegunNothing(t *testing.T) {
	cancel := func(r *rig) error {
		_, err := r.Cancel(r.t.Context(), "b", r.pauseIn("b").Call, user, "no")
		return err
	}
	for name, test := range map[string]struct {
		handles []string
		waits   time.Duration // before it ends
		ends    func(*rig) error
		says    string // empty: the session is gone
	}{
		"cancelled":            {[]string{"gpu"}, time.Second, cancel, "The tool was not run."},
		"at the second permit": {[]string{"gpu", "cpu"}, time.Second, cancel, "The tool was not run."},
		"after a wait in vain": {[]string{"gpu"}, 10 * time.Minute, cancel, "The tool was not run."},
		"at the second wait":   {[]string{"gpu"}, time.Hour + 90*time.Second, cancel, "The tool was not run."},
		"its session is cancelled": {[]string{"gpu"}, time.Second, func(r *rig) error {
			return r.CancelSession(r.t.Context(), "b", user, "no")
		}, "The tool was not run."},
		"its session is deleted": {[]string{"gpu"}, time.Second, func(r *rig) error {
			return r.Delete(r.t.Context(), "b", user)
		}, ""},
	} {
		for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
			if effect == tool.Once && test.waits > time.Minute {
				continue // it is not tried again
			}
			t.Run(name+" "+string(effect), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					off := newCallsOff(nil)
					b := build(off, effect)
					for _, handle := range test.handles {
						var err error
						b, err = wait.WithPermit(b, wait.PermitOptions{Scope: tool.StoreScope, Handle: handle, Most: 1,
							Timeout: time.Minute})
						must(t, err)
					}
					b, err := retry.Tool(b, &retry.Policy{Tries: 3, Initial: time.Hour, Max: time.Hour, Jitter: -1})
					must(t, err)
					r := contending(t, b)
					r.saysIn("a", "a")
					r.saysIn("b", "build")
					time.Sleep(test.waits)
					must(t, test.ends(r))
					time.Sleep(time.Minute)
					if all := off.seen(); len(all) > 0 {
						t.Errorf("it is called off: %+v", all)
					}
					if test.says != "" {
						if got := r.outputsOf("b"); len(got) != 1 || !strings.Contains(got[0], test.says) {
							t.Errorf("%q", got)
						}
					}
					must(t, r.Close())
					r.sound()
					r.soundWaits()
				})
			})
		}
	}
}

// A call that waits for a permit again, since its body has given the first one
// back, has begun its work.
func TestACallThatWaitsForItsPermitAgainHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := newCallsOff(nil)
		b, err := wait.WithPermit(tool.Must(tool.Func(tool.Spec{Name: "build", Description: "Build.",
			Effect: tool.Idempotent, MayPause: true, Cancel: tool.Cancel{Do: off.do}},
			func(ctx context.Context, _ textIn) (tool.Result[textOut], error) {
				must(t, wait.ReleasePermit(ctx, tool.StoreScope, "gpu"))
				return tool.Pending[textOut](tool.Await{Reason: tool.ReasonRetry, Timeout: time.Minute}), nil
			})), wait.PermitOptions{Scope: tool.StoreScope, Handle: "gpu", Most: 1})
		must(t, err)
		r := contending(t, b)
		r.saysIn("b", "build")
		r.saysIn("a", "a")
		time.Sleep(2 * time.Minute)
		_, err = r.Cancel(t.Context(), "b", r.pauseIn("b").Call, user, "no")
		must(t, err)
		time.Sleep(time.Minute)
		got := r.outputsOf("b")
		if len(got) != 1 || !strings.Contains(got[0], "The work had begun") || len(off.seen()) != 1 {
			t.Errorf("%q, and called off is %+v", got, off.seen())
		}
		must(t, r.Close())
		r.sound()
		r.soundWaits()
	})
}

// An event that comes while a call waits for its permit counts for the first
// pause of its body, as one does that comes before any other first pause.
func TestAnEventBeforeAPermitCountsForTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := wait.WithPermit(does(tool.Spec{Name: "quick", MayPause: true, Effect: tool.Idempotent,
			Mailbox: []tool.MailboxEvent{offer.Spec()}},
			func(ctx context.Context, _ string) (tool.Result[textOut], error) {
				if c := tool.CallFrom(ctx); c.Answer == nil || len(c.Mail) != 1 || !c.Mail[0].New {
					return tool.Pending[textOut](tool.AnyOf("offer")), nil
				}
				return tool.Done(textOut{"x"}), nil
			}), wait.PermitOptions{Scope: tool.StoreScope, Handle: "gpu", Most: 1})
		must(t, err)
		r := contending(t, p)
		r.saysIn("a", "a")
		r.saysIn("b", "quick")
		time.Sleep(time.Minute)
		_, err = r.Deliver(t.Context(), "b", sends(r.pauseIn("b").Call, "offer", "1"))
		must(t, err)
		_, err = r.Resume(t.Context(), "a", runner.Complete(r.pauseIn("a").ID, "ops", text("ok")))
		must(t, err)
		time.Sleep(time.Minute)
		if got := r.outputsOf("b"); len(got) != 1 || !strings.Contains(got[0], `"x"`) {
			t.Errorf("%q", got)
		}
		must(t, r.Close())
		r.sound()
		r.soundWaits()
	})
}

// A call whose permit can't be looked at just now has begun nothing, whatever its
// effect: it waits for the store, and is then carried out.
func TestAPermitThatCannotBeRead(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		t.Run(string(effect), func(t *testing.T) {
			var n counter
			var away atomic.Bool
			pay, err := wait.WithPermit(instant("pay", effect, &n),
				wait.PermitOptions{Scope: tool.StoreScope, Handle: "gpu", Most: 1})
			must(t, err)
			r := newRig(t, oneCall(pay), &rigOptions{memory: true,
				wrap: func(kv kvstore.Store) kvstore.Store {
					h := &hooked{get: func(key []byte) error {
						if away.Load() && bytes.HasPrefix(key, kvstore.Key("W")) {
							return errAway
						}
						return nil
					}}
					return h.exclusive(kv)
				}})
			away.Store(true)
			if s := r.say("Pay."); !errors.Is(s.err, errAway) {
				t.Errorf("the run ends with %v", s.err)
			}
			away.Store(false)
			r.carryOn().finished(event.FinishStop)
			if got := r.outputs(); n.get("pay") != 1 || len(got) != 1 || got[0] != string(text("a")) {
				t.Errorf("the body was entered %d times, and the model reads %q", n.get("pay"), got)
			}
			must(t, r.Close())
			r.sound()
			r.soundWaits()
		})
	}
}

// The same, where the call is cancelled, or the caller leaves, while the store is
// asked for its permit.
func TestAPermitThatIsNotWaitedFor(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Once, tool.Idempotent} {
		for _, cancelled := range []bool{false, true} {
			t.Run(fmt.Sprint(effect, ", cancelled ", cancelled), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { permitIsNotWaitedFor(t, effect, cancelled) })
			})
		}
	}
}

func permitIsNotWaitedFor(t *testing.T, effect tool.Effect, cancelled bool) {
	var n counter
	pay, err := wait.WithPermit(instant("pay", effect, &n),
		wait.PermitOptions{Scope: tool.StoreScope, Handle: "gpu", Most: 1})
	must(t, err)
	asked, answer := make(chan struct{}), make(chan struct{})
	var away atomic.Bool
	r := newRig(t, oneCall(pay), &rigOptions{memory: true,
		wrap: func(kv kvstore.Store) kvstore.Store {
			h := &hooked{get: func(key []byte) error {
				if bytes.HasPrefix(key, kvstore.Key("W")) && away.CompareAndSwap(true, false) {
					close(asked)
					<-answer
				}
				return nil
			}}
			return h.exclusive(kv)
		}})
	away.Store(true)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan error, 1)
	go func() {
		var last error
		for _, last = range r.Run(ctx, user, chat, llm.UserText("Pay."), nil) {
		}
		ended <- last
	}()
	<-asked
	if cancelled {
		call := r.transcript().History[1].ToolCalls()[0].ID
		_, err := r.Cancel(t.Context(), chat, call, "ada", "too slow")
		must(t, err)
	} else {
		leave()
	}
	must(t, <-ended)
	close(answer)
	synctest.Wait()
	want, entries := "too slow", 0
	if !cancelled {
		r.carryOn().finished(event.FinishStop)
		want, entries = string(text("a")), 1
	}
	got := r.outputs()
	if len(got) != 1 || !strings.Contains(got[0], want) || strings.Contains(got[0], "unknown") ||
		n.get("pay") != entries {
		t.Errorf("the body was entered %d times, and the model reads %q", n.get("pay"), got)
	}
	must(t, r.Close())
	r.sound()
	r.soundWaits()
}
