package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
)

// A message begins a session, and is said at once. Those that come before it is
// answered wait in order, one run each. A worker carries them on, or Continue.
func TestSentMessagesAreOneRunEach(t *testing.T) {
	for name, wrap := range engineKinds {
		t.Run(name, func(t *testing.T) {
			r := echoRig(t, &rigOptions{wrap: wrap})
			for i, want := range []runner.Sent{{ID: "a", Taken: true}, {ID: "b", Place: 1},
				{ID: "c", Place: 2}} {
				if got := r.send(want.ID, ""); got != want {
					t.Errorf("message %d is %+v", i, got)
				}
			}
			if got := r.queue(); got != "b, c" {
				t.Errorf("%s wait", got)
			}
			run := r.carryOn().finished(event.FinishStop)
			r.reads("a | re: a | b | re: b | c | re: c")
			if got := run.userTexts(); got != "b, c" {
				t.Errorf("shown are %q", got)
			}
			if got := r.send("b", ""); got != (runner.Sent{ID: "b", Taken: true}) {
				t.Errorf("sent once more, it is %+v", got)
			}
			r.send("d", "")
			r.send("e", "")
			r.works(func(ev event.Event) bool {
				m, ok := ev.(event.Message)
				return ok && m.Message.Text() == "re: e"
			})
			r.reads("a | re: a | b | re: b | c | re: c | d | re: d | e | re: e")
			r.rest()
		})
	}
}

// A message costs one commit where it is stored. One that waits costs another
// one when it is taken.
func TestSentMessageCostsOneCommit(t *testing.T) {
	r := echoRig(t, nil)
	commits := func(do func()) int {
		before := r.faults.Applies()
		do()
		return r.faults.Applies() - before
	}
	r.say("Hello.").finished(event.FinishStop) // which makes the store's own records
	if n := commits(func() { r.send("a", "") }); n != 1 {
		t.Errorf("the first message takes %d commits", n)
	}
	alone := commits(func() { r.carryOn().finished(event.FinishStop) })
	r.send("b", "")
	if n := commits(func() { r.send("c", "") }); n != 1 {
		t.Errorf("one that waits takes %d commits", n)
	}
	both := commits(func() { r.carryOn().finished(event.FinishStop) })
	if alone != 1 || both != 3 { // the two answers, and c as it is taken
		t.Errorf("a run takes %d commits, and two of which one waited %d", alone, both)
	}
	r.rest()
}

// A steering message is read by the model after all results of the turn, before
// what waits for runs of their own. It is of the run that goes on.
func TestSteeringMessage(t *testing.T) {
	slow, entered, let := heldUp("slow", "done")
	r := echoRig(t, nil, slow)
	ended := r.begin("use slow")
	<-entered
	r.send("later", "")
	if got := r.send("now", runner.WhileSteer); got.Place != 1 {
		t.Errorf("it stands at place %d", got.Place)
	}
	if got := r.sentAs("later"); got.Place != 2 {
		t.Errorf("the other stands at place %d", got.Place)
	}
	close(let)
	run := ended().finished(event.FinishStop)
	if got := run.userTexts(); got != "now" {
		t.Errorf("the Run shows %q", got)
	}
	r.reads("use slow | now | re: now")
	if got := r.queue(); got != "later" {
		t.Errorf("%q wait", got)
	}
	r.carryOn().finished(event.FinishStop)
	if got := r.send("alone", runner.WhileSteer); !got.Taken {
		t.Errorf("where nothing goes on, it is %+v", got)
	}
	r.carryOn().finished(event.FinishStop)
	r.reads("use slow | now | re: now | later | re: later | alone | re: alone")
	r.rest()
}

// A Run first drives what waits, one run each, and then its own message.
func TestRunAfterWhatWaits(t *testing.T) {
	r := echoRig(t, nil)
	r.send("a", "")
	r.send("b", "")
	r.say("c").finished(event.FinishStop)
	r.reads("a | re: a | b | re: b | c | re: c")
	r.rest()
}

// A Run whose message waits in the queue already says it once.
func TestRunOfAMessageThatWaits(t *testing.T) {
	r := echoRig(t, nil)
	r.send("a", "")
	r.send("b", "")
	r.tell("b", "b").finished(event.FinishStop)
	r.reads("a | re: a | b | re: b")
	r.rest()
}

// A run ends with its own answer, however much waits. If its caller leaves, a
// worker carries it on, since others wait for it.
func TestCallerLeavesWhileMessagesWait(t *testing.T) {
	for _, late := range []bool{false, true} {
		slow, entered, let := heldUp("slow", "done")
		r := echoRig(t, nil, slow)
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan *seen, 1)
		go func() { ended <- watch(t, r.Run(ctx, user, chat, llm.UserText("use slow"), nil)) }()
		<-entered
		if late { // the drive doesn't know of it when it ends
			r.before(func() { r.send("next", "") })
		} else {
			r.send("next", "")
		}
		leave()
		if end := (<-ended).end; end.Finish != event.FinishInterrupted {
			t.Errorf("the Run ended as %q", end.Finish)
		}
		if halted := r.transcript().Finish; halted != "" {
			t.Errorf("the session is halted as %q", halted)
		}
		close(let)
		r.works(func(ev event.Event) bool {
			m, ok := ev.(event.Message)
			return ok && m.Message.Text() == "re: next"
		})
		r.reads("use slow | so | next | re: next")
		r.rest()
	}
}

// Messages wait behind an approval. One that supersedes denies it, for those
// before it as well; the order stays.
func TestSupersedingMessageInTheQueue(t *testing.T) {
	var n counter
	r := payingRig(t, nil, &n)
	r.say("use pay").finished(event.FinishPaused)
	if got := r.send("first", ""); got.Place != 1 {
		t.Errorf("it is %+v", got)
	}
	r.carryOn().finished(event.FinishPaused)
	r.reads("use pay")
	if got := r.send("second", runner.WhileSupersede); got.Place != 2 {
		t.Errorf("it is %+v", got)
	}
	r.carryOn().finished(event.FinishStop)
	r.reads("use pay | first | re: first | second | re: second")
	if n.get("pay") != 0 || len(r.transcript().Pending) > 0 {
		t.Errorf("it was paid %d times", n.get("pay"))
	}
	r.rest()
}

// One that may not supersede is taken off the queue, with a note; a message
// before it only waits on.
func TestSupersedingMessageThatMayNot(t *testing.T) {
	var n counter
	no := errors.New("not by message")
	r := payingRig(t, &rigOptions{runner: refuses(no, runner.AnswerDeny)}, &n)
	p := r.say("use pay").finished(event.FinishPaused).pause("pay")
	r.send("first", "")
	r.send("second", runner.WhileSupersede)
	r.carryOn().finished(event.FinishPaused)
	if got := r.queue(); got != "first, second" {
		t.Errorf("%q wait", got)
	}
	r.answer(runner.Approve(p.ID, "eve", "")).finished(event.FinishStop)
	r.carryOn().finished(event.FinishStop)
	r.reads("use pay | so | first | re: first | second | re: second")

	r.say("use pay").finished(event.FinishPaused)
	r.send("third", runner.WhileSupersede)
	r.carryOn().finished(event.FinishPaused)
	if got := r.sentAs("third"); got.Taken || !strings.Contains(got.Refused, no.Error()) {
		t.Errorf("it is %+v", got)
	}
	r.rest()
}

// By option a message isn't stored unless it can be said at once.
func TestMessageThatIsNotToWait(t *testing.T) {
	var n counter
	r := payingRig(t, nil, &n)
	refused := func() error {
		t.Helper()
		_, err := r.Send(t.Context(), user, chat, llm.UserText("x"),
			&runner.SendOptions{While: runner.WhileRefuse})
		return err
	}
	r.send("use pay", runner.WhileRefuse)
	if err := refused(); !errors.Is(err, session.ErrBusy) {
		t.Errorf("while the model is to be asked: %v", err)
	}
	r.carryOn().finished(event.FinishPaused)
	var pending *session.PendingError
	if err := refused(); !errors.As(err, &pending) || len(pending.Pending) != 1 {
		t.Errorf("while an approval is waited for: %v", err)
	}
	_, err := r.Send(t.Context(), user, chat, llm.UserText("x"), &runner.SendOptions{While: "soon"})
	if !errors.Is(err, session.ErrInvalidMessage) {
		t.Errorf("with an option that is none: %v", err)
	}
	r.reads("use pay")
	r.rest()
}

// CancelSession ends the run and leaves what waits, until the next message or
// Continue.
func TestCancelledSessionKeepsWhatWaits(t *testing.T) {
	for name, next := range map[string]func(*rig){
		"a message": func(r *rig) { r.send("next", ""); r.carryOn() },
		"a Run":     func(r *rig) { r.say("next") },
		"Continue":  func(r *rig) { r.carryOn(); r.say("next") },
	} {
		t.Run(name, func(t *testing.T) {
			var n counter
			r := payingRig(t, nil, &n)
			r.say("use pay").finished(event.FinishPaused)
			r.send("first", "")
			must(t, r.CancelSession(t.Context(), chat, user, "stop"))
			if got := r.queue(); got != "first" {
				t.Errorf("%q wait", got)
			}
			if st := r.transcript(); st.Finish != event.FinishCancelled {
				t.Errorf("it stands as %q", st.Finish)
			}
			next(r)
			want := "use pay | first | re: first | next | re: next"
			if name == "Continue" { // which lets the model answer first
				want = "use pay | so | first | re: first | next | re: next"
			}
			r.reads(want)
			r.rest()
		})
	}
}

// What a queue holds is bounded, and so is what may be sent.
func TestQueueThatIsFull(t *testing.T) {
	r := echoRig(t, &rigOptions{runner: &runner.Options{Queue: 2}})
	r.send("a", "")
	r.send("b", "")
	r.send("c", "")
	_, err := r.Send(t.Context(), user, chat, llm.UserText("d"), nil)
	if !errors.Is(err, session.ErrQueueFull) {
		t.Errorf("the third that waits: %v", err)
	}
	_, err = r.Send(t.Context(), "mallory", chat, llm.UserText("d"), nil)
	if !errors.Is(err, session.ErrWrongUser) {
		t.Errorf("another user: %v", err)
	}
	_, err = r.Send(t.Context(), user, "child:x.1", llm.UserText("d"), nil)
	if !errors.Is(err, session.ErrInvalidID) {
		t.Errorf("a session that only a call may make: %v", err)
	}
	_, err = r.Send(t.Context(), user, "new", llm.UserText("d"), &runner.SendOptions{Agent: "none"})
	if !errors.Is(err, runner.ErrUnknownAgent) {
		t.Errorf("an agent that is not here: %v", err)
	}
	_, err = r.Sent(t.Context(), chat, "d", user)
	if !errors.Is(err, session.ErrUnknownMessage) {
		t.Errorf("one that was never stored: %v", err)
	}
	must(t, r.Delete(t.Context(), chat, user))
	_, err = r.Send(t.Context(), user, chat, llm.UserText("d"), nil)
	if !errors.Is(err, session.ErrDeleted) {
		t.Errorf("once it is deleted: %v", err)
	}
	must(t, r.Close())
	r.sound()
}
