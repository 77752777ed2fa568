package runner_test

import (
	"context"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestLostCallIsUnknown(t *testing.T) {
	entered := 0
	r := crash(t, tool.Spec{Name: "pay"}, func(tool.Call) tool.Result[textOut] {
		entered++
		return tool.Done(textOut{"paid"})
	})
	var log journal
	r.o.runner = &runner.Options{Logger: log.logger()}
	r.restart()
	res := of[event.Result](r.carryOn().finished(event.FinishStop))
	if len(res) != 1 || res[0].Status != event.Unknown || !res[0].Result.Error ||
		!strings.Contains(string(res[0].Result.Output), "unknown") {
		t.Errorf("it settled as %v", res)
	}
	if entered != 1 {
		t.Errorf("the body was entered %d times", entered)
	}
	if !strings.Contains(log.String(), "outcome is unknown\" session=chat-1 tool=pay call=") {
		t.Errorf("the log has %q", log.String())
	}
	r.acceptable()
}

func TestIdempotentCallRunsAgain(t *testing.T) {
	for _, effect := range []tool.Effect{tool.Idempotent, tool.ReadOnly} {
		var keys []string
		r := crash(t, tool.Spec{Name: "pay", Effect: effect},
			func(c tool.Call) tool.Result[textOut] {
				keys = append(keys, c.IdempotencyKey()+" "+c.IdempotencyKey("part"))
				return tool.Done(textOut{"paid"})
			})
		r.carryOn().finished(event.FinishStop)
		if len(keys) != 2 || keys[0] != keys[1] {
			t.Errorf("%s: the entries' keys are %q", effect, keys)
		}
		r.acceptable()
	}
}

func TestIdempotencyKey(t *testing.T) {
	var keys []string
	which := tool.NewQuestion[textOut, int, int]("which")
	again := tool.Must(tool.Resumable(tool.Spec{Name: "book",
		Description: "b", Effect: tool.Idempotent},
		func(ctx context.Context, _ struct{}) (tool.Result[textOut], error) {
			c := tool.CallFrom(ctx)
			keys = append(keys, c.IdempotencyKey(), c.IdempotencyKey("a"), c.IdempotencyKey("b"),
				c.IdempotencyKey("a", "b"), c.IdempotencyKey("ab"))
			return which.Ask("Which?", 1), nil
		},
		tool.On(which, func(ctx context.Context, _ struct{}, re tool.Reply[int, int]) (tool.Result[textOut], error) {
			keys = append(keys, tool.CallFrom(ctx).IdempotencyKey())
			if re.Answer == 0 {
				return which.Ask("Really?", 2), nil
			}
			return tool.Done(textOut{"booked"}), nil
		})))
	r := newRig(t, agent.Config{Concurrency: 1, Tools: []tool.Tool{again},
		Model: messages(calls("book", `{}`, "book", `{}`), says("Done."))}, nil)
	for _, p := range r.say("Go.").finished(event.FinishPaused).end.Pending {
		p = r.answer(runner.Complete(p.ID,
			user, []byte("0"))).finished(event.FinishPaused).pauseOf(p.Call)
		r.answer(runner.Complete(p.ID, user, []byte("1")))
	}
	seen := map[string]bool{}
	for _, k := range keys {
		if seen[k] {
			t.Errorf("the key %s comes twice in %q", k, keys)
		}
		seen[k] = true
	}
	if len(keys) != 2*7 {
		t.Errorf("%d keys", len(keys))
	}
}

// pauseOf is the open pause of a call, by the run's last event.
func (s *seen) pauseOf(call string) tool.Pause {
	s.t.Helper()
	for _, p := range s.end.Pending {
		if p.Call == call {
			return p
		}
	}
	s.t.Fatalf("call %s does not wait", call)
	return tool.Pause{}
}

// A tool is declared anew while a call of it waits: where a second entry is
// harmful now, the call is claimed, and not entered again.
func TestEffectThatWasDeclaredAnew(t *testing.T) {
	var inj *faultkv.Injector
	var attempts []int
	pay := func(effect tool.Effect) []tool.Tool {
		return []tool.Tool{tool.Must(tool.Func(tool.Spec{Name: "pay", Effect: effect},
			func(ctx context.Context, in textIn) (tool.Result[textOut], error) {
				attempts = append(attempts, tool.CallFrom(ctx).Attempt)
				inj.Kill()
				return tool.Done(textOut(in)), nil
			}))}
	}
	for _, was := range []tool.Effect{tool.ReadOnly, tool.Idempotent} {
		t.Run(string(was), func(t *testing.T) {
			attempts = nil
			gate := interceptor.Approval(&interceptor.ApprovalOptions{Tools: []string{"pay"}})
			r := newRig(t, agent.Config{Tools: pay(was), Interceptors: interceptor.Chain{gate},
				Model: messages(calls("pay", `{"text":"5"}`), says("Done."))},
				&rigOptions{wrap: func(kv kvstore.Store) kvstore.Store {
					inj = faultkv.New(kv)
					return inj.Store
				}})
			p := r.say("Pay.").finished(event.FinishPaused).pause("pay")
			r.config.Tools = pay(tool.Once)
			r.restart()
			r.answer(runner.Approve(p.ID, "bob", ""))
			r.restart()
			res := of[event.Result](r.carryOn().finished(event.FinishStop))
			if len(attempts) != 1 || attempts[0] != 1 || len(res) != 1 ||
				res[0].Status != event.Unknown {
				t.Errorf("it was entered as attempts %v, and settled as %v", attempts, res)
			}
		})
	}
}
