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
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

var job1 = runner.Ref{Tool: "deploy", Key: "job-1"}

// byKey is an agent whose tool waits under the key job-1.
func byKey(await tool.Await) agent.Config {
	var n counter
	await.Key = "job-1"
	return agent.Config{
		Tools: []tool.Tool{starting(tool.Idempotent, &n,
			func(context.Context, tool.Call) (tool.Result[textOut], error) {
				return tool.Pending[textOut](await), nil
			})},
		Model: messages(calls("deploy", `{"text":"a"}`), says("I see.")),
	}
}

// kept delivers an answer by key, before any call has that.
func (r *rig) kept(answer runner.Resumption) session.Receipt {
	r.t.Helper()
	res, err := r.ResumeByKey(r.t.Context(), job1, answer, &runner.Keep{})
	must(r.t, err)
	if rc := res.Receipts[0]; rc.Fate != session.FateKept || rc.Call != "" {
		r.t.Fatalf("its receipt is %+v", rc)
	}
	for ev, err := range res.Events(r.t.Context()) {
		r.t.Errorf("there is %v, %v to carry on", ev, err)
	}
	return res.Receipts[0]
}

func TestAnswerUnderAKeyThatNoCallHas(t *testing.T) {
	t.Run("is kept, and judged with the pause", func(t *testing.T) {
		r := newRig(t, byKey(tool.Await{}), nil)
		answer := runner.Complete("", "ci", text("v2"))
		answer.Delivery = "d1"
		r.kept(answer)
		r.restart()
		if rc := r.kept(answer); !rc.Duplicate || rc.Delivery != "d1" {
			t.Errorf("the same again comes to %+v", rc)
		}
		r.say("Deploy.").finished(event.FinishStop)
		if got := r.outputs()[0]; got != string(text("v2")) {
			t.Errorf("the result is %s", got)
		}
		rc := r.receipt(r.onlyCall(), 1)
		if rc.Actor != "ci" || rc.Delivery != "d1" || rc.Fate != "" {
			t.Errorf("the receipt is %+v", rc)
		}
		res, err := r.ResumeByKey(t.Context(), job1, answer, &runner.Keep{})
		if err != nil || !res.Receipts[0].Duplicate || res.Receipts[0].Call == "" {
			t.Errorf("afterwards it comes to %+v, %v", res, err)
		}
		other := runner.Complete("", "ci", text("v3"))
		if _, err := r.ResumeByKey(t.Context(), job1, other, &runner.Keep{}); !errors.Is(err,
			session.ErrResumeConflict) {
			t.Errorf("another answer comes to %v", err)
		}
		r.sound()
	})
	t.Run("a failure", func(t *testing.T) {
		r := newRig(t, byKey(tool.Await{}), nil)
		r.kept(runner.Fail("", "ci", "no space left", true))
		r.say("Deploy.").finished(event.FinishStop)
		if got := r.outputs()[0]; !strings.Contains(got, "no space left") {
			t.Errorf("the result is %s", got)
		}
		r.sound()
	})
	t.Run("a large one", func(t *testing.T) {
		large := text(strings.Repeat("é", 100<<10))
		r := newRig(t, byKey(tool.Await{}), nil)
		r.kept(runner.Complete("", "ci", large))
		r.say("Deploy.").finished(event.FinishStop)
		if got := r.outputs()[0]; got != string(large) {
			t.Errorf("the result has %d bytes, not %d", len(got), len(large))
		}
		r.sound()
	})
	t.Run("that does not fit is refused, and the call waits on", func(t *testing.T) {
		r := newRig(t, byKey(tool.Await{Sender: "acme"}), nil)
		r.kept(runner.Complete("", "ci", text("forged")))
		misfit := signed(runner.Complete("", "ci", []byte(`{"txt":1}`)), "acme")
		r.kept(misfit)
		p := r.say("Deploy.").finished(event.FinishPaused).pause("deploy")
		if rc := r.receipt(p.Call, 1); rc.Fate != session.FateRefused || rc.Sender != "acme" {
			t.Errorf("the receipt is %+v", rc)
		}
		good := signed(runner.Complete("", "ci", text("v2")), "acme")
		_, err := r.ResumeByKey(t.Context(), job1, good, &runner.Keep{})
		must(t, err)
		r.carryOn().finished(event.FinishStop)
		r.sound()
	})
	t.Run("the first of several counts", func(t *testing.T) {
		r := newRig(t, byKey(tool.Await{}), nil)
		r.kept(runner.Complete("", "ci", text("v2")))
		r.kept(runner.Fail("", "ci", "no", false))
		r.say("Deploy.").finished(event.FinishStop)
		if got := r.outputs()[0]; got != string(text("v2")) {
			t.Errorf("the result is %s", got)
		}
		r.sound()
	})
	t.Run("for no longer than it is kept", func(t *testing.T) {
		cl := newClock()
		r := newRig(t, byKey(tool.Await{}), at(cl))
		r.kept(runner.Complete("", "ci", text("v2")))
		cl.pass(10 * time.Minute)
		swept, err := r.store.Sweep(t.Context(), nil)
		if err != nil || swept.Entries != 1 {
			t.Errorf("swept were %+v, %v", swept, err)
		}
		r.kept(runner.Complete("", "ci", text("v3")))
		cl.pass(10 * time.Minute)
		r.say("Deploy.").finished(event.FinishPaused)
		r.sound()
	})
	t.Run("is not kept unless that is asked for", func(t *testing.T) {
		r := newRig(t, byKey(tool.Await{}), nil)
		answer := runner.Complete("", "ci", text("v2"))
		for name, try := range map[string]func() error{
			"no option": func() error {
				_, err := r.ResumeByKey(t.Context(), job1, answer, nil)
				return err
			},
			"of a user": func() error {
				ref := job1
				ref.User = "ada"
				_, err := r.ResumeByKey(t.Context(), ref, answer, &runner.Keep{})
				return err
			},
		} {
			if err := try(); !errors.Is(err, session.ErrNotYetKnown) {
				t.Errorf("%s: %v", name, err)
			}
		}
		r.say("Deploy.").finished(event.FinishPaused)
		r.sound()
	})
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	r := newRig(t, byKey(tool.Await{}), nil)
	keep := func(key, out string, k runner.Keep) error {
		ref := runner.Ref{Tool: "deploy", Key: key}
		_, err := r.ResumeByKey(t.Context(), ref, runner.Complete("", "ci", text(out)), &k)
		return err
	}
	for i := range 8 {
		must(t, keep("job-1", fmt.Sprint(i), runner.Keep{}))
	}
	if err := keep("job-1", "one more", runner.Keep{}); !errors.Is(err, session.ErrNotKept) {
		t.Errorf("a ninth answer comes to %v", err)
	}
	if err := keep("job-2", strings.Repeat("a", 241<<10), runner.Keep{}); !errors.Is(err,
		session.ErrNotKept) {
		t.Errorf("a large answer comes to %v", err)
	}
	must(t, keep("job-2", "a", runner.Keep{Keys: 2}))
	if err := keep("job-3", "a", runner.Keep{Keys: 2}); !errors.Is(err, session.ErrNotKept) {
		t.Errorf("a third key comes to %v", err)
	}
	for name, answer := range map[string]runner.Resumption{
		"a decision":   runner.Approve("", "ci", ""),
		"no payload":   runner.Complete("", "ci", nil),
		"names a call": runner.Complete("call_1", "ci", text("a")),
	} {
		if _, err := r.ResumeByKey(t.Context(), job1, answer, &runner.Keep{}); err == nil {
			t.Errorf("%s is kept", name)
		}
	}
	r.sound()
}

// An answer finds its pause, or the pause finds the answer, whichever is faster
// at which step of the other.
func TestAnswerByKeyBesideThePause(t *testing.T) {
	for name, wrap := range engineKinds {
		for _, first := range []string{"the pause", "the answer"} {
			t.Run(first+", "+name, func(t *testing.T) {
				n, reached := 0, true
				for ; reached; n++ {
					reached = crossed(t, wrap, first == "the pause", n)
					if t.Failed() {
						t.Fatalf("at step %d", n)
					}
				}
				if n < 5 {
					t.Errorf("it has %d steps", n)
				}
			})
		}
	}
}

// crossed has one of the two, the run that pauses and the delivery, go on at
// the n-th call of the other to the engine. It reports whether that came.
func crossed(t *testing.T, wrap func(kvstore.Store) kvstore.Store, pauses bool, n int) bool {
	h := &hooked{}
	o := &rigOptions{memory: true, wrap: func(kv kvstore.Store) kvstore.Store {
		if wrap != nil {
			kv = wrap(kv)
		}
		h.Store = kv
		return h
	}}
	r := newRig(t, byKey(tool.Await{}), o)
	deliver := func() {
		_, err := r.ResumeByKey(t.Context(), job1, runner.Complete("", "ci", text("v2")),
			&runner.Keep{})
		if err != nil {
			t.Errorf("the answer comes to %v", err)
		}
	}
	run := func() {
		if s := r.say("Deploy."); s.end.Finish == event.FinishPaused {
			return // the answer comes after it
		}
	}
	outer, inner := run, deliver
	if !pauses {
		outer, inner = deliver, run
	}
	calls, struck := 0, false
	step := func() {
		if calls++; calls > n && !struck {
			struck = true
			inner()
		}
	}
	h.get = func([]byte) error { step(); return nil }
	h.apply = func(kvstore.Batch) { step() }
	h.scan = func(kvstore.Range) { step() }
	outer()
	h.get, h.apply, h.scan = nil, nil, nil
	if !struck {
		inner()
	}
	r.carryOn().finished(event.FinishStop)
	if got := r.outputs()[0]; got != string(text("v2")) {
		t.Errorf("the result is %s", got)
	}
	must(t, r.Close())
	r.sound()
	return struck
}

// Cut off at any write, an answer was kept or was not; delivered again, it is
// the call's.
func TestKilledWhileAnAnswerIsKept(t *testing.T) {
	for n := 1; ; n++ {
		r := newRig(t, byKey(tool.Await{}), nil)
		answer := runner.Complete("", "ci", text("v2"))
		r.faults.Add(faultkv.LoseAt(n).AndDie())
		_, first := r.ResumeByKey(t.Context(), job1, answer, &runner.Keep{})
		var s *seen
		if first == nil {
			s = r.say("Deploy.")
		}
		over := first == nil && s.err == nil
		r.faults.Heal()
		r.restart()
		_, err := r.ResumeByKey(t.Context(), job1, answer, &runner.Keep{})
		must(t, err)
		if first != nil {
			r.say("Deploy.")
		}
		r.carryOn().finished(event.FinishStop)
		if got := r.outputs()[0]; got != string(text("v2")) {
			t.Errorf("cut at write %d, the result is %s", n, got)
		}
		r.sound()
		if over {
			break
		}
	}
}
