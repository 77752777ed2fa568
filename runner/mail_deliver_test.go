package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

func TestEventsAreJudgedOneByOne(t *testing.T) {
	var n counter
	r, p := bought(t, nil, &n, tool.AllOf("offer", "done"))
	r.sent(sends(p.Call, "offer", "1")).finished(event.FinishPaused)
	other := sends(p.Call, "offer", "1")
	other.Payload = json.RawMessage(`{"cents":9007199254740992}`)
	same := sends(p.Call, "offer", "1")
	same.Payload, same.Actor, same.Delivery = json.RawMessage(` {"cents": 9007199254740993}`), "x", "y"
	misfit := sends(p.Call, "offer", "2")
	misfit.Payload = json.RawMessage(`{"cents":1.5}`)
	empty := sends(p.Call, "done", "3")
	empty.Payload = nil
	misnamed := sends(p.Call, "offer", "1")
	misnamed.Name = "ofer"
	mail := []runner.Mail{
		same, other, misfit, empty, misnamed, sends(p.Call, "done", ""),
		sends("call_x", "offer", "1"), sends(p.ID, "note", "1"), sends(p.Call, "done", "1"),
	}
	wants := []error{nil, session.ErrResumeConflict, session.ErrInvalidResumePayload,
		session.ErrInvalidResumePayload, session.ErrUnknownEvent, session.ErrInvalidID,
		session.ErrUnknownCall, nil, nil}
	res, err := r.Deliver(t.Context(), chat, mail...)
	must(t, err)
	for i, rc := range res.Receipts {
		if !errors.Is(rc.Err, wants[i]) || rc.Duplicate != (i == 0) {
			t.Errorf("%d: %+v, not %v", i, rc, wants[i])
		}
		if rc.Kind != session.KindEvent || rc.Event.Name != mail[i].Name ||
			rc.Event.ID != mail[i].ID {
			t.Errorf("%d: the receipt doesn't tell the event: %+v", i, rc)
		}
	}
	var unknown *session.UnknownEventError
	if !errors.As(res.Receipts[4].Err, &unknown) ||
		fmt.Sprint(unknown.Names) != "[offer done note]" {
		t.Errorf("the refusal doesn't say which events there are: %v", res.Receipts[4].Err)
	}
	watch(t, res.Events(t.Context())).finished(event.FinishStop)
	if got := r.shown(p.Call); got != "(offer 1*, note 1*, done 1*)" {
		t.Errorf("the entry was shown %s", got)
	}
	_, err = r.Deliver(t.Context(), chat, mail[1:3]...)
	if !errors.Is(err, session.ErrResumeConflict) ||
		!errors.Is(err, session.ErrSettled) {
		t.Errorf("where none is accepted, Deliver says %v", err)
	}
	for _, wrong := range [][]runner.Mail{nil, make([]runner.Mail, 17)} {
		if _, err := r.Deliver(t.Context(), chat, wrong...); err == nil {
			t.Errorf("%d events at once are taken", len(wrong))
		}
	}
	r.sound()
}

// An event is stored as a whole or not at all, by one commit, also where it
// meets its pause.
func TestEventIsOneCommit(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "of 40 KiB": 40 << 10} {
		for _, fault := range []string{"none", "fail", "lose"} {
			t.Run(name+" "+fault, func(t *testing.T) {
				var n counter
				r, p := bought(t, nil, &n, tool.AnyOf("done"))
				m := sends(p.Call, "done", "1")
				m.Payload, _ = json.Marshal(strings.Repeat("x", size))
				before := r.faults.Applies()
				switch fault {
				case "fail":
					r.faults.Add(faultkv.FailAt(before + 1).AndDie())
				case "lose":
					r.faults.Add(faultkv.LoseAt(before + 1).AndDie())
				}
				_, err := r.Deliver(t.Context(), chat, m)
				if (err == nil) != (fault == "none") {
					t.Fatalf("Deliver: %v", err)
				}
				if writes := r.faults.Applies() - before; fault == "none" && writes != 1 {
					t.Errorf("accepting took %d commits", writes)
				}
				r.restart()
				r.sound()
				st, err := r.Call(t.Context(), chat, p.Call, user)
				must(t, err)
				want := session.Answered
				if fault == "fail" {
					want = session.Pending
				}
				if st.Status != want || st.Mail.Count != map[bool]int{true: 1}[fault != "fail"] {
					t.Errorf("the call is %s, with %d events", st.Status, st.Mail.Count)
				}
				again, err := r.Deliver(t.Context(), chat, m)
				must(t, err)
				if again.Receipts[0].Duplicate != (fault != "fail") {
					t.Errorf("redelivered: %+v", again.Receipts[0])
				}
				watch(t, again.Events(t.Context())).finished(event.FinishStop)
				if got := r.shown(p.Call); got != "(done 1*)" {
					t.Errorf("the entry was shown %s", got)
				}
				r.acceptable()
			})
		}
	}
}

// An event costs the same whatever came before it: one commit, which reads the
// head and a receipt.
func TestEventCostsTheSameWhateverCameBefore(t *testing.T) {
	const many = 300
	var n counter
	var kv *hooked
	r, p := bought(t, &rigOptions{wrap: func(in kvstore.Store) kvstore.Store {
		kv = &hooked{Store: in}
		return kv
	}}, &n, tool.CountOf(many, "offer"))
	gets, scans, applies, operations := 0, 0, 0, 0
	kv.get = func([]byte) error { gets++; return nil }
	kv.scan = func(kvstore.Range) { scans++ }
	kv.apply = func(b kvstore.Batch) { applies++; operations += len(b.Puts) + len(b.Deletes) }
	costs := map[string]int{}
	for i := range many - 1 {
		gets, scans, applies, operations = 0, 0, 0, 0
		_, err := r.Deliver(t.Context(), chat, sends(p.Call, "offer", fmt.Sprint(i)))
		must(t, err)
		costs[fmt.Sprintf("%d reads, %d scans, %d commits of %d", gets, scans, applies, operations)]++
	}
	if len(costs) > 2 || costs["2 reads, 0 scans, 1 commits of 3"] < many-2 {
		t.Errorf("events cost %v", costs)
	}
	kv.get, kv.scan, kv.apply = nil, nil, nil
	r.sent(sends(p.Call, "offer", "last")).finished(event.FinishStop)
	seen := 0
	for m, err := range r.Received(t.Context(), chat, p.Call, user) {
		must(t, err)
		if want := fmt.Sprint(seen); m.ID != want && seen < many-1 {
			t.Fatalf("event %d is %s", seen, m.ID)
		}
		seen++
	}
	if seen != many || strings.Count(r.shown(p.Call), "*") != many {
		t.Errorf("%d were received, and the entry was shown %s", seen, r.shown(p.Call))
	}
}

func TestMailboxIsBounded(t *testing.T) {
	t.Parallel()
	var n counter
	config := oneCall(buying(tool.Idempotent, &n, tool.Await{Mode: tool.ModeReenter}))
	config.ToolLimits.Mail = 3
	r := newRig(t, config, nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("buy")
	for i := range 3 {
		r.sent(sends(p.Call, "note", fmt.Sprint(i))).finished(event.FinishPaused)
	}
	if _, err := r.Deliver(t.Context(), chat, sends(p.Call, "note", "3")); !errors.Is(err,
		session.ErrMailboxFull) {
		t.Errorf("one beyond the limit is told %v", err)
	}
	r.redelivered(sends(p.Call, "note", "1"), 2)
	r.answer(runner.Complete(p.ID, "ci", text(""))).finished(event.FinishStop)
	if got := r.shown(p.Call); got != "(note 0*, note 1*, note 2*)" {
		t.Errorf("the entry was shown %s", got)
	}

	t.Run("in bytes", func(t *testing.T) {
		r, p := bought(t, nil, &n, tool.AllOf("done", "note"))
		var mail []runner.Mail
		for i := range 16 {
			m := sends(p.Call, "done", fmt.Sprint(i))
			m.Payload, _ = json.Marshal(strings.Repeat("x", 1<<20-2))
			mail = append(mail, m)
		}
		_, err := r.Deliver(t.Context(), chat, mail...)
		must(t, err)
		if _, err := r.Deliver(t.Context(), chat, sends(p.Call, "note", "1")); !errors.Is(err,
			session.ErrMailboxFull) {
			t.Errorf("one beyond the limit is told %v", err)
		}
		r.sound()
	})
}

// What comes at a layer's gate, and while the body runs, counts
// for the pause that is to come.
func TestEventsFromWhenTheCallIsAskedFor(t *testing.T) {
	var r *rig
	spec := tool.Spec{Name: "buy", MayPause: true, Mailbox: []tool.MailboxEvent{note}}
	buy := does(spec, func(ctx context.Context, _ string) (tool.Result[textOut], error) {
		call := tool.CallFrom(ctx)
		if call.Answer != nil {
			return tool.Done(textOut{entryOf(call)}), nil
		}
		if len(call.Mail) > 0 {
			t.Errorf("the first entry was shown %v", call.Mail)
		}
		_, err := r.Deliver(ctx, chat, sends(call.ID, "note", "body"))
		a := tool.CountOf(3)
		a.Data = text("")
		return tool.Pending[textOut](a), err
	})
	r = newRig(t, oneCall(buy, approval()...), nil)
	p := r.say("Go.").finished(event.FinishPaused).pause("buy")
	r.sent(sends(p.Call, "note", "gate")).finished(event.FinishPaused)
	r.answer(runner.Approve(p.ID, "ada", "")).finished(event.FinishPaused)
	r.restart()
	r.sent(sends(p.Call, "note", "pause")).finished(event.FinishStop)
	if got := r.shown(p.Call); got != "(note gate*, note body*, note pause*)" {
		t.Errorf("the entry was shown %s", got)
	}
	r.acceptable()
	r.sound()
}
