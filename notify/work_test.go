package notify_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/notify"
	"github.com/fermata-ai/fermata/tool"
)

const week = 7 * 24 * time.Hour

// A session from its beginning to its end, and what is told of it.
func TestWhatHappensIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var to outside
		links := func(_ context.Context, p tool.Pause) ([]notify.Link, error) {
			return []notify.Link{{Label: "Decide", URL: "https://example.com/" + p.ID}}, nil
		}
		o := &notify.Options{Links: links}
		r.paused()
		r.work(time.Second, &to, o)
		is(t, to.lines(), "1 paused 1 ", "2 needs_person 1 ")
		n := to.all[1]
		if n.ID != "n2_chat-1" || n.Session != chat || n.User != "ada" || n.Agent != "ops" ||
			n.Tool != "refund" || n.Pause.Await.Prompt != "Refund <500> cents?" || n.Over ||
			n.At.IsZero() || n.Pause.Deadline.Sub(n.At) != week || len(n.Links) != 1 ||
			n.Links[0].URL != "https://example.com/"+n.Pause.ID ||
			n.Text != "A call of refund in session chat-1 waits for an approval" {
			t.Errorf("sent is %+v", n)
		}

		r.work(6*24*time.Hour, &to, o)
		is(t, to.lines()[2:], "3 reminder 1 ")
		if n := to.all[2]; n.Over || n.Links == nil ||
			n.Text != "A call of refund in session chat-1 still waits for an approval, until "+
				"2000-01-08 00:00 UTC at the latest" {
			t.Errorf("sent is %+v", n)
		}

		must(t, r.answer(tool.ReasonApproval))
		_, err := r.carryOn()
		must(t, err)
		r.work(time.Second, &to, o)
		is(t, to.lines()[3:], "4 paused 2 ")
		if n := to.all[3]; n.Links != nil { // no person ends it
			t.Errorf("sent is %+v", n)
		}
		must(t, r.answer(tool.ReasonExternal))
		_, err = r.carryOn()
		must(t, err)
		r.work(10*24*time.Hour, &to, o) // the reminder of the job was taken back
		is(t, to.lines()[4:], "5 finished stop")

		_, err = r.say("m2")
		must(t, err)
		r.work(8*24*time.Hour, &to, o)
		if finish, err := r.carryOn(); finish != event.FinishStop || err != nil {
			t.Errorf("the run ends as %q, %v", finish, err)
		}
		r.work(time.Second, &to, o)
		is(t, to.lines()[5:], "6 paused 1 ", "7 needs_person 1 ", "8 reminder 1 ",
			"9 failed expired", "10 finished stop")
		if len(to.all) != 10 || r.keys("N", "O", "L", "D") != 0 {
			t.Errorf("%d were sent, and %d keys are left", len(to.all), r.keys("N", "O", "L", "D"))
		}
		must(t, r.Close())
		r.sound()
	})
}

// What is over when it is sent says so, and has no links.
func TestWhatIsOverSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.paused()
		must(t, r.answer(tool.ReasonApproval))
		var to outside
		r.work(time.Second, &to, &notify.Options{
			Links: func(context.Context, tool.Pause) ([]notify.Link, error) {
				return nil, errors.New("there is nothing to decide")
			}})
		is(t, to.lines(), "1 paused 1 ", "2 needs_person 1 ")
		for _, n := range to.all {
			if !n.Over || n.Pause.Await.Reason != "" ||
				n.Text != "A call of refund in session chat-1 waited for an approval, and that is over" {
				t.Errorf("sent is %+v", n)
			}
		}
	})
}

// A reminder moves with its deadline, and goes with its pause.
func TestRemindersFollowTheirPauses(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.told.Kinds = []notify.Kind{notify.Reminder}
		r.reopen()
		r.paused()
		p, _ := r.waits(tool.ReasonApproval)
		must(t, r.Extend(t.Context(), chat, p.ID, "ada", time.Now().Add(2*week)))
		var to outside
		r.work(week+5*24*time.Hour, &to, nil)
		is(t, to.lines())
		r.work(25*time.Hour, &to, nil)
		is(t, to.lines(), "1 reminder 1 ")
		must(t, r.Extend(t.Context(), chat, p.ID, "ada", time.Now().Add(week)))
		must(t, r.answer(tool.ReasonApproval))
		if n := r.keys("N", "O"); n != 0 {
			t.Errorf("%d keys are left of a pause that is over", n)
		}
		r.work(2*week, &to, nil)
		is(t, to.lines(), "1 reminder 1 ")
	})
}

// What can't be sent is tried again, later and later, also in the next process,
// and what comes after it waits. Then it is a dead letter, and the next ones go
// on.
func TestWhatFailsIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var at []time.Duration
		begun := time.Now()
		to := &outside{fail: func(n notify.Notification) error {
			if n.Number > 1 {
				return nil
			}
			at = append(at, time.Since(begun))
			return errors.New("no line")
		}}
		o := &notify.Options{Tries: 6, FirstWait: 10 * time.Second, MaxWait: time.Minute}
		r.paused()
		r.work(20*time.Second, to, o)
		r.sound()
		r.reopen()
		r.work(10*time.Minute, to, o)
		is(t, to.lines(), "1 paused 1 ", "2 needs_person 1 ")
		waits := []time.Duration{0, 10, 20, 40, 60, 60}
		for i, want := range waits {
			want *= time.Second
			if i >= len(at) || i > 0 && (at[i]-at[i-1] < want || at[i]-at[i-1] > want*12/10+time.Second) {
				t.Fatalf("it is tried at %v, not after %v seconds", at, waits)
			}
		}
		if len(at) != len(waits) {
			t.Errorf("it is tried %d times", len(at))
		}
		var dead []notify.DeadLetter
		for d, err := range notify.DeadLetters(t.Context(), r.store, "") {
			must(t, err)
			dead = append(dead, d)
		}
		if len(dead) != 1 || dead[0].ID != "n1_chat-1" || dead[0].Number != 1 || dead[0].Tries != 6 ||
			dead[0].Failed != "no line" || dead[0].Kind != notify.Paused || dead[0].Died.IsZero() {
			t.Fatalf("the dead letters are %+v", dead)
		}
		must(t, r.Close())
		r.sound()

		to.fail = nil
		must(t, notify.SendAgain(t.Context(), r.store, chat, 1))
		r.work(time.Second, to, o)
		if n := to.all[len(to.all)-1]; n.Number != 1 || r.keys("N", "L", "D") != 0 {
			t.Errorf("sent is %v, and %d keys are left", n, r.keys("N", "L", "D"))
		}
		for _, err := range []error{notify.SendAgain(t.Context(), r.store, chat, 1),
			notify.Drop(t.Context(), r.store, chat, 1)} {
			if err == nil {
				t.Error("a dead letter is there twice")
			}
		}
	})
}
