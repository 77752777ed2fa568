package notify_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/notify"
	"github.com/fermata-ai/fermata/tool"
)

// story is what befalls a session: its steps, each tried until the process dies
// of it, or it has nothing left to do.
type story struct {
	r     *rig
	to    outside
	t     *testing.T
	begun time.Time
	later bool // the second message came, whose call is not answered
}

// live goes through the story from its beginning, in a new process: messages
// come again, and what was answered is answered no more. It reports whether it
// came to the end.
func (s *story) live() bool {
	o := &notify.Options{FirstWait: time.Second}
	steps := []func(){
		func() { s.message("m1") },
		func() { s.r.work(20*time.Second, s, o) },
		func() { s.until(6*24*time.Hour + time.Hour) },
		func() { s.r.work(20*time.Second, s, o) }, // with the reminder
		func() { s.answered(tool.ReasonApproval) },
		func() { s.answered(tool.ReasonExternal) },
		func() { s.r.work(20*time.Second, s, o) },
		func() { s.later = true; s.message("m2") },
		func() { s.until(20 * 24 * time.Hour) }, // nothing is sent for all that time
		func() { s.driven() },
		func() { s.r.work(20*time.Second, s, o) },
	}
	for _, step := range steps {
		if step(); s.r.faults.Dead() {
			return false
		}
	}
	return true
}

// tries is how often a step is tried in a process that lives on.
const tries = 3

func (s *story) message(id string) {
	for range tries {
		if _, err := s.r.say(id); err == nil || s.r.faults.Dead() {
			break
		}
		time.Sleep(time.Minute)
	}
	s.driven()
}

func (s *story) answered(reason tool.Reason) {
	for range tries {
		if s.later {
			break
		}
		if err := s.r.answer(reason); err == nil || s.r.faults.Dead() {
			break
		}
	}
	s.driven()
}

// driven has the session come to rest.
func (s *story) driven() {
	for range tries {
		if s.r.faults.Dead() {
			return
		}
		finish, err := s.r.carryOn()
		if err == nil && finish != event.FinishElsewhere {
			return
		}
		time.Sleep(time.Minute)
	}
}

func (s *story) until(d time.Duration) { time.Sleep(time.Until(s.begun.Add(d))) }

// Send takes a notification. One of an open pause is not to be sent once the
// pause is over: nothing happens here while it is sent.
func (s *story) Send(ctx context.Context, n notify.Notification) error {
	if n.Pause != nil {
		p, waits := s.r.waits(n.Pause.Await.Reason)
		if open := waits && p.ID == n.Pause.ID; !s.r.faults.Dead() && open == n.Over {
			s.t.Errorf("%s says over: %t, and the pause is open: %t", line(n), n.Over, open)
		}
	}
	return s.to.Send(ctx, n)
}

// judge compares what came, and in which order, with what comes without a fault.
func (s *story) judge(uncut []string) {
	is(s.t, s.to.lines(), uncut...)
	last := 0
	for _, n := range s.to.all {
		if n.Number < last {
			s.t.Errorf("number %d is sent after number %d", n.Number, last)
		}
		last = n.Number
	}
	if n := s.r.keys("N", "O", "L", "D"); n != 0 {
		s.t.Errorf("%d keys are left", n)
	}
	must(s.t, s.r.Close())
	s.r.sound()
}

func tell(t *testing.T, shared bool, faults ...faultkv.Fault) (s *story, struck bool) {
	s = &story{r: newRig(t, shared), t: t, begun: time.Now()}
	s.r.reopen(faults...)
	for !s.live() {
		struck = true
		s.r.reopen()
		time.Sleep(time.Hour) // until its leases are over
	}
	return s, struck || s.r.faults.Struck() > 0
}

// A process dies at each of its writes in turn, or only the write fails, or its
// acknowledgement is lost: no notification is missing, each has its number and
// its place, and none says of a pause that is over that it waits.
func TestKilledAtEveryWriteNothingUntold(t *testing.T) {
	ways := map[string]func(n int) faultkv.Fault{
		"fails and dies": func(n int) faultkv.Fault { return faultkv.FailAt(n).AndDie() },
		"lost and dies":  func(n int) faultkv.Fault { return faultkv.LoseAt(n).AndDie() },
		"fails":          faultkv.FailAt,
		"lost":           faultkv.LoseAt,
	}
	for name, shared := range map[string]bool{"one process": false, "shared": true} {
		var uncut []string
		synctest.Test(t, func(t *testing.T) {
			s, _ := tell(t, shared)
			uncut = s.to.lines()
			s.judge([]string{"1 paused 1 ", "2 needs_person 1 ", "3 reminder 1 ", "4 paused 2 ",
				"5 finished stop", "6 paused 1 ", "7 needs_person 1 ", "8 failed expired",
				"9 finished stop"})
		})
		for way, fault := range ways {
			t.Run(fmt.Sprint(name, ", a write ", way), func(t *testing.T) {
				cuts := 0
				for n := 1; ; n += testlength.Step(5) {
					struck := false
					synctest.Test(t, func(t *testing.T) {
						var s *story
						if s, struck = tell(t, shared, fault(n)); struck {
							s.judge(uncut)
						}
					})
					if t.Failed() {
						t.Fatalf("cut at write %d", n)
					}
					if !struck {
						break
					}
					cuts++
				}
				t.Logf("counted: %d writes cut", cuts)
			})
		}
	}
}
