package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// gathering is a tool that waits until each of its events has come, and asks
// again at each time-out. Its result is all that its entries were shown.
func gathering(names ...string) tool.Tool {
	spec := tool.Spec{Name: "gather", Effect: tool.Idempotent, MayPause: true}
	for _, name := range names {
		spec.Mailbox = append(spec.Mailbox, tool.MailboxEvent{Name: name})
	}
	return does(spec, func(ctx context.Context, _ string) (tool.Result[textOut], error) {
		call := tool.CallFrom(ctx)
		var missing []string
		for _, name := range names {
			if !slices.ContainsFunc(call.Mail, func(m tool.Mail) bool { return m.Name == name }) {
				missing = append(missing, name)
			}
		}
		if len(missing) == 0 {
			return tool.Done(textOut{entryOf(call)}), nil
		}
		a := tool.AllOf(missing...)
		a.Data, a.Timeout, a.OnTimeout = text(entryOf(call)), time.Hour, tool.ReenterOnTimeout
		return tool.Pending[textOut](a), nil
	})
}

// Events come at the instant at which their pause times out, each of them
// twice, through two runners: each is accepted once, and shown once as new.
func TestEventsAgainstTimeouts(t *testing.T) {
	var rounds, timeouts int
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			names := []string{"a", "b", "c"}
			cl := newClock()
			r := newRig(t, agent.Config{Tools: []tool.Tool{gathering(names...)},
				Model: messages(calls("gather", `{"text":"a"}`), says("I see."))},
				&rigOptions{memory: true, wrap: wrap, session: &session.Options{Now: cl.now}})
			runners := []*runner.Runner{r.Runner, r.another()}
			for n := range testlength.Rounds.Rounds(0.5) {
				again := gathered(t, cl, runners, fmt.Sprint("chat-", n), names)
				rounds++
				timeouts += again
				if t.Failed() {
					return
				}
			}
			r.sound()
		})
	}
	t.Logf("counted: %d rounds of events against time-outs, %d violations", rounds,
		map[bool]int{true: 1}[t.Failed()])
	t.Logf("counted: %d time-outs that were faster than an event, 0 violations", timeouts)
	if timeouts == 0 || rounds > 1000 && timeouts >= rounds {
		t.Errorf("of %d rounds, the time-out was faster in %d", rounds, timeouts)
	}
}

// gathered plays one round, and returns how often the tool asked again.
func gathered(
	t *testing.T, cl *clock, runners []*runner.Runner, id string, names []string,
) (again int) {
	t.Helper()
	ctx := context.Background()
	s := watch(t, runners[0].Run(ctx, user, id, llm.UserText("Go."), nil))
	call := s.finished(event.FinishPaused).pause("gather").Call
	start := make(chan struct{})
	var mu sync.Mutex
	accepted := map[string]int{}
	var acts []func()
	for i := range 2 * len(names) {
		acts = append(acts, func() {
			m := runner.Mail{Call: call, Name: names[i%3], ID: "1", Payload: json.RawMessage(`1`)}
			<-start
			res, err := runners[i%2].Deliver(ctx, id, m)
			if err != nil {
				t.Errorf("%s: %v", id, err)
				return
			}
			if !res.Receipts[0].Duplicate {
				mu.Lock()
				accepted[m.Name]++
				mu.Unlock()
			}
		})
	}
	acts = append(acts, func() {
		<-start
		for range rand.IntN(50) {
			runtime.Gosched()
		}
		cl.pass(time.Hour)
		for _, err := range runners[0].Continue(ctx, id, user) {
			if err != nil && !errors.Is(err, session.ErrBusy) {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
	var all sync.WaitGroup
	for _, i := range rand.Perm(len(acts)) { // which of them is the first
		all.Go(acts[i])
	}
	close(start)
	all.Wait()
	end := watch(t, runners[1].Continue(ctx, id, user))
	if end.err != nil || end.end.Finish != event.FinishStop {
		t.Fatalf("%s ends as %q: %v", id, end.end.Finish, end.err)
	}
	for n := range accepted {
		if accepted[n] != 1 {
			t.Errorf("%s: %s was accepted %d times", id, n, accepted[n])
		}
	}
	details, err := runners[0].Call(ctx, id, call, user)
	must(t, err)
	shown := string(details.Output)
	for _, name := range names {
		if strings.Count(shown, name+" 1*") != 1 {
			t.Errorf("%s: %s was shown as new other than once: %s", id, name, shown)
		}
	}
	if details.Mail.Count != len(names) || details.Mail.Shown != len(names) {
		t.Errorf("%s: it has %+v", id, details.Mail)
	}
	return details.Pauses - 1
}

// A time-out enters the tool with what has come by then. What comes at the
// deadline, or after it, is for the next pause.
func TestTimeOutShowsWhatHasCome(t *testing.T) {
	var timedOut []bool
	cl := newClock()
	buy := does(tool.Spec{Name: "buy", MayPause: true,
		Mailbox: []tool.MailboxEvent{offer.Spec(), note}},
		func(ctx context.Context, _ string) (tool.Result[textOut], error) {
			call := tool.CallFrom(ctx)
			if call.Answer != nil {
				timedOut = append(timedOut, call.Answer.TimedOut)
			}
			if call.Pauses == 2 {
				return tool.Done(textOut{entryOf(call)}), nil
			}
			a := tool.CountOf(2, "offer")
			a.Data, a.Timeout, a.OnTimeout = text(entryOf(call)), time.Hour, tool.ReenterOnTimeout
			return tool.Pending[textOut](a), nil
		})
	r := newRig(t, oneCall(buy), &rigOptions{session: &session.Options{Now: cl.now}})
	p := r.say("Go.").finished(event.FinishPaused).pause("buy")
	r.sent(sends(p.Call, "offer", "1")).finished(event.FinishPaused)
	cl.pass(time.Hour)
	_, err := r.Deliver(t.Context(), chat, sends(p.Call, "offer", "2"))
	must(t, err)
	r.restart()
	r.carryOn().finished(event.FinishPaused)
	r.sent(sends(p.Call, "offer", "3")).finished(event.FinishStop)
	if got := r.shown(p.Call); got != "(offer 1*)(offer 1, offer 2*, offer 3*)" {
		t.Errorf("the entries were shown %s", got)
	}
	if !slices.Equal(timedOut, []bool{true, false}) {
		t.Errorf("the entries were told of a time-out: %v", timedOut)
	}
	r.sound()

	// Without OnTimeout the call expires, and what came is superseded.
	var n counter
	await := tool.AllOf("offer", "done")
	await.Timeout = time.Hour
	r, p = bought(t, &rigOptions{session: &session.Options{Now: cl.now}}, &n, await)
	r.sent(sends(p.Call, "offer", "1")).finished(event.FinishPaused)
	cl.pass(time.Hour)
	if _, err := r.Deliver(t.Context(), chat, sends(p.Call, "done", "1")); !errors.Is(err,
		session.ErrExpired) {
		t.Errorf("an event at the deadline is told %v", err)
	}
	if rc := r.redelivered(sends(p.Call, "offer", "1"), 1); rc.Fate != session.Superseded {
		t.Errorf("the one before it is told %+v", rc)
	}
}
