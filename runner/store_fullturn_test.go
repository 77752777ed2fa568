package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/agentcore"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// The longest names that are taken: as they are, and of what JSON makes six
// times as long.
var longNames = []struct{ name, actor string }{
	{"control characters", strings.Repeat("\x01", 256)}, {"plain", strings.Repeat("x", 256)}}

// full asks for as many calls of a tool as a turn may have.
func full(name string) fakellm.Turn {
	turn := fakellm.Turn{}
	for i := range agentcore.MaxCalls {
		turn = turn.And(name, fmt.Sprintf(`{"text":"order-%d"}`, i))
	}
	return turn
}

// inBatches answers many pauses.
func (r *rig) inBatches(pauses []tool.Pause, answer func(tool.Pause) runner.Resumption) {
	r.t.Helper()
	for i := 0; i < len(pauses); i += 16 {
		var batch []runner.Resumption
		for _, p := range pauses[i:min(i+16, len(pauses))] {
			batch = append(batch, answer(p))
		}
		_, err := r.Resume(r.t.Context(), chat, batch...)
		must(r.t, err)
	}
}

// headSize is how large the value is that stands for the session's head.
func (r *rig) headSize() int {
	e, err := r.kv.Get(r.t.Context(), kvstore.Key("h", chat))
	must(r.t, err)
	return len(e.Value)
}

// All calls of a turn are decided, at any length and by actors of any name:
// what their bodies ask for then can be written.
func TestFullTurnPausesAfterLongDecisions(t *testing.T) {
	t.Parallel()
	for i := range testlength.EachNth(2, len(longNames)) {
		actor := longNames[i].actor
		t.Run(longNames[i].name, func(t *testing.T) {
			var n counter
			deploy := tool.Must(tool.Func(tool.Spec{Name: "deploy", MayPause: true},
				func(_ context.Context, in textIn) (tool.Result[textOut], error) {
					n.add("deploy")
					return tool.Pending[textOut](tool.Await{Key: in.Text + strings.Repeat(`"`, 180),
						Prompt: strings.Repeat("p", 900), Timeout: time.Hour}), nil
				}))
			c := agent.Config{Tools: []tool.Tool{deploy}, Interceptors: interceptor.Chain{
				interceptor.Approval(&interceptor.ApprovalOptions{Name: "clerk"}),
				interceptor.Approval(&interceptor.ApprovalOptions{Name: "boss"})},
				Model: fakellm.New(full("deploy"), fakellm.Says("ok"))}
			r := newRig(t, c, &rigOptions{memory: true})
			s := r.say("Go.").finished(event.FinishPaused)
			for range 2 {
				r.inBatches(s.end.Pending, func(p tool.Pause) runner.Resumption {
					return runner.Approve(p.ID, runner.Actor(actor), strings.Repeat(`"`, 900))
				})
				r.restart()
				s = r.carryOn().finished(event.FinishPaused)
			}
			if n.get("deploy") != agentcore.MaxCalls || len(s.end.Pending) != agentcore.MaxCalls {
				t.Fatalf("%d bodies were entered, %d calls wait",
					n.get("deploy"), len(s.end.Pending))
			}
			if size := r.headSize(); size > 1024 {
				t.Errorf("the head, which lies aside, takes %d bytes", size)
			}
			r.sound()
			r.restart()
			p := s.end.Pending[7]
			st, err := r.Call(t.Context(), chat, p.Call, user)
			if err != nil || len(st.Decisions) != 2 || st.Decisions[1].Actor != actor {
				t.Errorf("what was decided is kept as %+v, %v", st.Decisions, err)
			}
			r.inBatches(s.end.Pending, func(p tool.Pause) runner.Resumption {
				in := runner.Complete(p.ID, runner.Actor(actor), text("v"))
				in.Delivery = actor
				return in
			})
			_, err = r.store.Sweep(t.Context(), &session.Retention{Orphans: time.Nanosecond})
			must(t, err)
			r.carryOn().finished(event.FinishStop)
			if size := r.headSize(); size > 1024 {
				t.Errorf("the head takes %d bytes at the end", size)
			}
			r.acceptable()
			r.sound()
		})
	}
}

// All that runs can be told to end at once, at any length.
func TestFullTurnIsCancelledAtLength(t *testing.T) {
	t.Parallel()
	in, release := make(chan struct{}, agentcore.MaxCalls), make(chan struct{})
	act := tool.Must(tool.Func(tool.Spec{Name: "act"},
		func(context.Context, textIn) (tool.Result[textOut], error) {
			in <- struct{}{}
			<-release
			return nil, errors.New("stopped")
		}))
	r := newRig(t, agent.Config{Tools: []tool.Tool{act}, Concurrency: agentcore.MaxCalls,
		Model: fakellm.New(full("act"), fakellm.Says("ok"))},
		&rigOptions{memory: true})
	ended := r.begin("Go.")
	for range agentcore.MaxCalls {
		<-in
	}
	st, err := r.store.Load(t.Context(), chat)
	must(t, err)
	for _, c := range st.Calls {
		_, err := r.Cancel(t.Context(), chat, c.ID, runner.Actor(longNames[0].actor),
			strings.Repeat("\x01", 1000))
		must(t, err)
	}
	close(release)
	ended().finished(event.FinishStop)
	for _, c := range st.Calls {
		if got, err := r.Call(t.Context(), chat, c.ID, user); err != nil ||
			got.Status != session.Settled {
			t.Errorf("call %s is %s, %v", c.ID, got.Status, err)
		}
	}
	r.sound()
}

// A head that lies aside is read whole, while others put the next one in its
// place.
func TestLargeHeadIsReadWhole(t *testing.T) {
	t.Parallel()
	r, pauses := many(t, agentcore.MaxCalls)
	read := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				read <- nil
				return
			default:
			}
			if st, err := r.store.Load(t.Context(), chat); err != nil ||
				len(st.Calls) != agentcore.MaxCalls {
				read <- fmt.Errorf("it is read as %v, %w", st, err)
				return
			}
		}
	}()
	for _, p := range pauses {
		in := runner.Complete(p.ID, runner.Actor(longNames[0].actor), text("v"))
		in.Delivery = longNames[0].actor
		_, err := r.Resume(t.Context(), chat, in)
		must(t, err)
	}
	close(stop)
	must(t, <-read)
	if size := r.headSize(); size > 1024 {
		t.Errorf("the head, which lies aside, takes %d bytes", size)
	}
	r.restart()
	for st, err := range r.store.List(t.Context(), session.Filter{User: user}) {
		if err != nil || len(st.Calls) != agentcore.MaxCalls {
			t.Errorf("it is listed as %v, %v", st, err)
		}
	}
	r.say("More.").finished(event.FinishStop)
	r.acceptable()
}

// A layer may hold one call again and again, and the answers may be long. A
// call about which no more can be kept ends, and its body isn't entered.
func TestLayerHoldsForEver(t *testing.T) {
	for i := range testlength.EachNth(2, len(longNames)) {
		actor := longNames[i].actor
		t.Run(longNames[i].name, func(t *testing.T) {
			var n counter
			r := newRig(t, oneCall(instant("act", tool.Once, &n),
				toolLayer(strings.Repeat(actor[:1], 200),
					func(context.Context, tool.Call, interceptor.ToolHandler) (tool.Execution, error) {
						return tool.Execution{Await: &tool.Await{}}, nil
					})), &rigOptions{memory: true})
			s := r.say("Go.")
			var call string
			held := 0
			for ; s.end.Finish == event.FinishPaused && held < 1000; held++ {
				p := s.end.Pending[0]
				call = p.Call
				why := strings.Repeat("y", 1000)
				s = r.answer(runner.ApproveEdited(p.ID, runner.Actor(actor), why,
					textIn{strings.Repeat("x", 900)}))
			}
			s.finished(event.FinishStop)
			st, err := r.Call(t.Context(), chat, call, user)
			if err != nil || len(st.Decisions) != held || held < 8 || n.get("act") != 0 ||
				!strings.Contains(string(st.Output), "was held by layers") {
				t.Errorf("held %d times, decided %d times, entered %d times: %s, %v", held,
					len(st.Decisions), n.get("act"), st.Output, err)
			}
			r.acceptable()
			r.sound()
		})
	}
}

// many is a rig with n calls that wait, and their pauses in call order.
func many(t *testing.T, n int) (*rig, []tool.Pause) {
	t.Helper()
	turn := fakellm.Turn{}
	for i := range n {
		turn = turn.And("deploy", fmt.Sprintf(`{"text":"job-%d"}`, i))
	}
	var entered counter
	r := newRig(t, agent.Config{
		Tools: []tool.Tool{starting(tool.Idempotent, &entered,
			func(context.Context, tool.Call) (tool.Result[textOut], error) {
				return tool.Pending[textOut](tool.Await{}), nil
			})},
		Model: fakellm.New(turn, fakellm.Says("All done.")),
	}, nil)
	pauses := r.say("Deploy them.").finished(event.FinishPaused).end.Pending
	if len(pauses) != n {
		t.Fatalf("%d calls wait, not %d", len(pauses), n)
	}
	return r, pauses
}

// All the calls that a turn may have can be answered before a drive looks;
// their results fit what is written then.
func TestFullTurnIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 1, "of 30 KB": 30 << 10} {
		t.Run(name, func(t *testing.T) {
			r, pauses := many(t, agentcore.MaxCalls)
			for i := 0; i < len(pauses); i += 16 {
				var batch []runner.Resumption
				for _, p := range pauses[i : i+16] {
					batch = append(batch,
						runner.Complete(p.ID, "ci", text(strings.Repeat("x", size))))
				}
				_, err := r.Resume(t.Context(), chat, batch...)
				must(t, err)
			}
			r.carryOn().finished(event.FinishStop)
			results := r.outputs()
			if len(results) != len(pauses) {
				t.Fatalf("%d calls have %d results", len(pauses), len(results))
			}
			for _, got := range results {
				if len(got) != len(text(""))+size {
					t.Fatalf("a result has %d bytes", len(got))
				}
			}
		})
	}
}

// The head stays small: long words of the actors don't make it too large to be
// written.
func TestFullTurnIsDecidedAtLength(t *testing.T) {
	turn := fakellm.Turn{}
	for i := range agentcore.MaxCalls {
		turn = turn.And("refund", fmt.Sprintf(`{"text":"order-%d"}`, i))
	}
	var n counter
	r := newRig(t, agent.Config{
		Tools:        []tool.Tool{instant("refund", tool.Once, &n)},
		Interceptors: approval(),
		Model:        fakellm.New(turn, fakellm.Says("All done.")),
	}, nil)
	pauses := r.say("Refund them.").finished(event.FinishPaused).end.Pending
	why := strings.Repeat(`"`, 900)
	for i := 0; i < len(pauses); i += 16 {
		var batch []runner.Resumption
		for _, p := range pauses[i : i+16] {
			batch = append(batch, runner.Approve(p.ID, "ada", why))
		}
		_, err := r.Resume(t.Context(), chat, batch...)
		must(t, err)
	}
	r.carryOn().finished(event.FinishStop)
	if n.get("refund") != agentcore.MaxCalls {
		t.Errorf("the body was entered %d times", n.get("refund"))
	}
	st, err := r.Call(t.Context(), chat, pauses[7].Call, user)
	if err != nil || len(st.Decisions) != 1 || st.Decisions[0].Reason != why {
		t.Errorf("what was said is kept as %+v, %v", st.Decisions, err)
	}
	r.acceptable()
}
