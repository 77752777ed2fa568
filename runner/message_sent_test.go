package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/fakellm"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// colour is a tool that asks for one of two colours, by the user's next message.
func colour() tool.Tool {
	return tool.Must(tool.Func(tool.Spec{Name: "colour", MayPause: true,
		Output: []byte(`{"enum":["red","blue"]}`)},
		func(context.Context, textIn) (tool.Result[string], error) {
			return tool.Pending[string](asksByMessage), nil
		}))
}

// A message that is sent while one question waits for it is the answer, in the
// one commit of Send. What doesn't fit is refused there and then, and so is what
// its user may not answer.
func TestSentMessageIsTheAnswer(t *testing.T) {
	r := echoRig(t, nil, colour())
	p := r.say("use colour").finished(event.FinishPaused).pause("colour")
	for _, m := range []llm.Message{llm.UserText("green"), {Role: llm.RoleUser,
		Parts: []llm.Part{llm.Text{Text: "red"}, llm.Media{MediaType: "image/png", Data: []byte{1}}}}} {
		_, err := r.Send(t.Context(), user, chat, m, nil)
		if !errors.Is(err, session.ErrInvalidResumePayload) && !errors.Is(err, session.ErrInvalidMessage) {
			t.Errorf("%s is told %v", m.Text(), err)
		}
	}
	before := r.faults.Applies()
	for i, while := range []runner.While{runner.WhileRefuse, ""} { // and once more
		if got := r.send("blue", while); got != (runner.Sent{ID: "blue", Taken: true}) {
			t.Errorf("try %d: it is %+v", i, got)
		}
	}
	if n := r.faults.Applies() - before; n != 1 {
		t.Errorf("it takes %d commits", n)
	}
	r.carryOn().finished(event.FinishStop)
	if got := string(r.result(p.Call).Output); got != `"blue"` {
		t.Errorf("the result is %s", got)
	}
	r.reads("use colour | so")
	r.rest()

	no := errors.New("not yours")
	r = echoRig(t, &rigOptions{runner: refuses(no, runner.AnswerMessage)}, colour())
	r.say("use colour").finished(event.FinishPaused)
	_, err := r.Send(t.Context(), user, chat, llm.UserText("blue"), nil)
	if !errors.Is(err, no) || !errors.Is(err, runner.ErrNotAllowed) || r.queue() != "" {
		t.Errorf("it is told %v, and %q wait", err, r.queue())
	}
	r.rest()
}

// A message that waits isn't refused since the process ends while it asks whether
// its user may answer: it stays where it is.
func TestQueuedMessageIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		r := echoRig(t, &rigOptions{runner: &runner.Options{Logger: slog.New(slog.DiscardHandler),
			Authorizer: func(ctx context.Context, op runner.Operation) error {
				if !hangs.Load() || op.Answer != runner.AnswerMessage {
					return nil
				}
				<-ctx.Done()
				return errors.New("the directory can't be asked")
			}}}, colour())
		r.send("use colour", "")
		r.send("blue", "")
		hangs.Store(true)
		r.closesAmidWork()
		hangs.Store(false)
		r.restart()
		if got := r.sentAs("blue"); got.Place != 1 {
			t.Fatalf("it stands so: %+v", got)
		}
		r.work(runner.WorkOptions{}, 1)
		r.reads("use colour | so")
	})
}

// An Authorizer whose directory is out of reach refuses nothing: who asks is told
// to come again, and a message that waits stays where it is.
func TestAuthorizerThatCannotTell(t *testing.T) {
	for name, why := range map[string]error{
		"undecided": fmt.Errorf("the directory is closed: %w", runner.ErrUndecided),
		"network":   &net.OpError{Op: "dial", Err: errors.New("connection refused")},
		"time-out":  fmt.Errorf("asking the directory: %w", context.DeadlineExceeded),
		"refusal":   errors.New("not yours"),
	} {
		t.Run(name, func(t *testing.T) {
			var away atomic.Bool
			r := echoRig(t, &rigOptions{runner: &runner.Options{
				Logger: slog.New(slog.DiscardHandler),
				Authorizer: func(_ context.Context, op runner.Operation) error {
					if away.Load() && op.Answer == runner.AnswerMessage {
						return why
					}
					return nil
				}}}, colour())
			r.send("use colour", "")
			r.send("blue", "")
			away.Store(true)
			_ = r.carryOn()
			away.Store(false)
			refused := name == "refusal"
			if got := r.sentAs("blue"); got.Taken || (got.Refused != "") != refused {
				t.Fatalf("it stands so: %+v", got)
			}
			if !refused {
				r.carryOn().finished(event.FinishStop)
				r.reads("use colour | so")
				r.say("use colour").finished(event.FinishPaused)
			}
			away.Store(true)
			_, err := r.Send(t.Context(), user, chat, llm.UserText("red"), nil)
			away.Store(false)
			if errors.Is(err, runner.ErrNotAllowed) != refused || !errors.Is(err, why) ||
				webhook.Status(err) != map[bool]int{true: 403, false: 503}[refused] {
				t.Errorf("the sender is told %v, with status %d", err, webhook.Status(err))
			}
			r.send("red", "")
			r.carryOn().finished(event.FinishStop)
			r.rest()
		})
	}
}

// A message that waits is judged when its place comes. The one question that the
// turn comes to wait for then is answered by it. If it doesn't fit, it is taken
// off the queue with a note, and the next one is judged.
func TestQueuedMessageIsTheAnswer(t *testing.T) {
	slow, entered, let := heldUp("slow", "done")
	r := echoRig(t, nil, slow, colour())
	ended := r.begin("use slow colour")
	<-entered
	r.send("green", "")
	r.send("red", "")
	r.send("thanks", "")
	close(let)
	ended().finished(event.FinishStop) // it is of the Run's own run
	r.carryOn().finished(event.FinishStop)
	r.reads("use slow colour | so | thanks | re: thanks")
	if got := r.outputs(); got[1] != `"red"` {
		t.Errorf("the results are %s", got)
	}
	if got := r.sentAs("green"); got.Taken || !strings.Contains(got.Refused, "does not fit") {
		t.Errorf("what doesn't fit is %+v", got)
	}
	if got := r.sentAs("red"); !got.Taken {
		t.Errorf("the answer is %+v", got)
	}
	r.rest()
}

// A message that waits since two calls do is judged again once one of them is
// over, also where a caller ended it and no drive was there.
func TestQueuedMessageIsJudgedAgain(t *testing.T) {
	var n counter
	r := echoRig(t, nil, colour(), asking("form", &n))
	p := r.say("use colour form").finished(event.FinishPaused).pause("form")
	r.send("red", "")
	r.carryOn().finished(event.FinishPaused)
	before := r.faults.Applies()
	r.carryOn().finished(event.FinishPaused)
	if n := r.faults.Applies() - before; n > 0 {
		t.Errorf("with nothing new to judge, a drive makes %d commits", n)
	}
	must2(r.Cancel(t.Context(), chat, p.Call, user, "never mind"))
	r.works(func(ev event.Event) bool {
		end, ok := ev.(event.End)
		return ok && end.Finish == event.FinishStop
	})
	r.reads("use colour form | so")
	if got := r.outputs(); got[0] != `"red"` {
		t.Errorf("the results are %s", got)
	}
	r.rest()
}

// A question below the session is answered by a driver. Killed at any write, the
// message arrives there once, and nowhere else.
func TestSentMessageAnswersBelow(t *testing.T) {
	for _, fault := range []func(int) faultkv.Fault{faultkv.FailAt, faultkv.LoseAt} {
		for n, struck := 1, true; struck; n++ {
			t.Run(fault(n).String(), func(t *testing.T) {
				r := treeRig(t, nil, awaits{"q": asksByMessage}, awaits{"w": asksAMachine})
				r.faults.Add(fault(r.faults.Applies() + n).AndDie())
				_, err := r.Send(t.Context(), user, chat, llm.UserText("The blue one."),
					&runner.SendOptions{MessageID: "m"})
				if err == nil {
					r.carryOn()
				}
				struck = r.faults.Struck() > 0
				r.restart()
				must2(r.Send(t.Context(), user, chat, llm.UserText("The blue one."),
					&runner.SendOptions{MessageID: "m"}))
				r.carryOn()
				if got := r.sentAs("m"); !got.Taken {
					t.Errorf("it is %+v", got)
				}
				if got := r.answeredBy(child(0), "q"); len(got) != 1 {
					t.Errorf("the question's receipts are %v", got)
				}
				r.untold()
				must(t, r.Close())
				r.sound()
			})
		}
	}
}

// The same message that comes several times at once, by way of several
// processes, waits once; and others that come at the same time all wait.
func TestMessagesSentAtOnce(t *testing.T) {
	r := echoRig(t, &rigOptions{wrap: hidden})
	others := []*runner.Runner{r.Runner, r.another(), r.another()}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			id := fmt.Sprint("m-", i/3)
			sent, err := others[i%3].Send(t.Context(), user, chat, llm.UserText(id),
				&runner.SendOptions{MessageID: id})
			if err != nil || sent.ID != id {
				t.Errorf("%s is %+v, %v", id, sent, err)
			}
		})
	}
	wg.Wait()
	for range 2 { // two drive at once
		wg.Go(func() { r.carryOn() })
	}
	wg.Wait()
	r.carryOn().finished(event.FinishStop)
	counts := map[string]int{}
	for _, text := range r.texts() {
		counts[text]++
	}
	for i := range 4 {
		if id := fmt.Sprint("m-", i); counts[id] != 1 || counts["re: "+id] != 1 {
			t.Errorf("%s is said %d times, and answered %d", id, counts[id], counts["re: "+id])
		}
	}
	for _, rn := range others {
		must(t, rn.Close())
	}
	r.sound()
}

// A session that is deleted while messages wait leaves none of them, and a
// driver that was about to take one stops.
func TestSessionDeletedWhileMessagesWait(t *testing.T) {
	r := echoRig(t, nil)
	r.send("a", "")
	r.send("b", "")
	deleted := false
	for ev, err := range r.Continue(t.Context(), chat, user) {
		if m, ok := ev.(event.Message); ok && m.Message.Text() == "re: a" && !deleted {
			deleted = true
			must(t, r.Delete(t.Context(), chat, user))
		}
		if err != nil && !errors.Is(err, session.ErrDeleted) {
			t.Error(err)
		}
	}
	if _, err := r.Sent(t.Context(), chat, "b", user); !errors.Is(err, session.ErrDeleted) {
		t.Errorf("what waited is told %v", err)
	}
	must(t, r.Close())
	r.sound()
}

// A message interrupts calls that only await handles, which go on.
func TestSentMessageInterruptsAwaits(t *testing.T) {
	asks := stateful(t, "build", tool.Idempotent,
		func(context.Context, target) (tool.Result[string], error) {
			return tool.NeedInput[string]("Which compiler?"), nil
		})
	model := fakellm.New(
		fakellm.Calls("build", `{"action":"spawn","id":"a","target":"x"}`),
		fakellm.Calls("await", `{"all":["a"]}`),
		fakellm.Calls("build", `{"action":"abort","id":"a"}`), fakellm.Says("Aborted."))
	r := newRig(t, agent.Config{Tools: []tool.Tool{asks}, Model: model}, nil)
	r.say("Go.").finished(event.FinishPaused)
	if got := r.send("Stop it.", ""); got.Place != 1 {
		t.Errorf("it is %+v", got)
	}
	r.carryOn().finished(event.FinishStop)
	if got := r.outputs(); !strings.Contains(got[1], `"interrupted":true`) {
		t.Errorf("%q", got)
	}
	r.rest()
}

// A drive that has said its last has given its lease up, and so a message is
// stored without it. What the drive then asks its model has that message.
func TestMessageSentWhileADriveRests(t *testing.T) {
	r := newRig(t, agent.Config{Model: messages(says("Hello."), says("Hello once more."))},
		&rigOptions{wrap: hidden})
	sent := false
	for ev, err := range r.Run(t.Context(), user, chat, llm.UserText("Hi."), nil) {
		must(t, err)
		if _, spoke := ev.(event.Message); spoke && !sent {
			sent = true
			at, err := r.Send(t.Context(), user, chat, llm.UserText("Are you there?"), nil)
			must(t, err)
			if !at.Taken {
				t.Fatalf("it waits: %+v", at)
			}
		}
	}
	r.carryOn().finished(event.FinishStop)
	want := []string{"Hi.", "Hello.", "Are you there?", "Hello once more."}
	if got := r.texts(); !slices.Equal(got, want) {
		t.Errorf("the history is %q", got)
	}
}
