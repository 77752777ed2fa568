package runner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/tool"
)

// A pause lasts until the time that its tool names, by whole milliseconds and
// not less; one that is past is over at once.
func TestDeadlineAsATime(t *testing.T) {
	begun := newClock().now()
	hour, last := begun.Add(time.Hour), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for name, c := range map[string]struct{ asked, stored time.Time }{
		"in an hour":        {hour, hour},
		"of another zone":   {hour.In(time.FixedZone("east", 3600)), hour},
		"within a second":   {begun.Add(1500 * time.Microsecond), begun.Add(2 * time.Millisecond)},
		"at a nanosecond":   {hour.Add(1), hour.Add(time.Millisecond)},
		"as far as it goes": {last, last},
	} {
		t.Run(name, func(t *testing.T) {
			var keys []string
			r, _, p := asksOnceRig(t, tool.Await{Deadline: c.asked}, &keys)
			if !p.Deadline.Equal(c.stored) || !p.Await.Deadline.IsZero() ||
				p.Await.Timeout != c.stored.Sub(p.Since) {
				t.Errorf("it is listed with the deadline %s and %+v", p.Deadline, p.Await)
			}
			r.restart()
			if got := r.transcript().Pending[0].Deadline; !got.Equal(c.stored) {
				t.Errorf("after a restart it is %s", got)
			}
		})
	}
	for name, c := range map[string]struct {
		await tool.Await
		want  string
	}{
		"a job's":   {tool.Await{}, "Expired. The call waited"},
		"told":      {tool.Await{OnTimeout: tool.ReenterOnTimeout}, "timed out: true"},
		"a timer's": {tool.Await{Reason: tool.ReasonTimer}, "timed out: false, by timer"},
	} {
		t.Run("past, "+name, func(t *testing.T) {
			for _, ago := range []time.Duration{0, time.Hour} {
				var keys []string
				cl := newClock()
				c.await.Deadline = cl.now().Add(-ago)
				r := newRig(t, agent.Config{
					Tools: []tool.Tool{asksOnce(c.await, &keys)},
					Model: messages(calls("ask", `{"text":"a"}`), says("I see.")),
				}, at(cl))
				s := r.say("Ask.")
				for i := 0; s.err == nil && s.end.Finish == event.FinishPaused && i < 10; i++ {
					s = r.carryOn()
				}
				s.finished(event.FinishStop)
				if got := r.outputs()[0]; !strings.Contains(got, c.want) {
					t.Errorf("the model reads %s", got)
				}
			}
		})
	}
}
