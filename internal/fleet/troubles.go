package fleet

import (
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
)

// A call of effect once may be of unknown outcome only where the process that
// ran it may have lost the session meanwhile: it was killed, stopped or cut off,
// or the machine was slow, which the processes note themselves. And a body may go
// on when its call was cancelled.

// lostIn reports whether the process that wrote an entry may have lost what it
// held from then on, until end.
func (a *audit) lostIn(e note, end instant) bool { return a.troubledIn(e, e.At, end) }

// deaf reports whether the process that wrote an entry may not have heard what
// was committed elsewhere then: signals and reads were lost, or late.
func (a *audit) deaf(e note, then instant) bool {
	return a.troubledIn(e, then.add(-a.Lease), e.At)
}

func (a *audit) troubledIn(e note, from, to instant) bool {
	return slices.ContainsFunc(a.troubles, func(x trouble) bool {
		return (x.process == "" || x.process == e.Process && (x.life == 0 || x.life == e.Life)) &&
			x.to >= from.add(-a.slack()) && x.from <= to
	})
}

// notedTroubles adds what the processes have noted to what befell them.
func (a *audit) notedTroubles(notes []note) {
	for _, n := range notes {
		if n.What == troubled || n.What == starved {
			a.troubles = append(a.troubles,
				trouble{process: n.Process, life: n.Life, from: n.From, to: n.At.add(a.Lease / 16)})
		}
	}
}

// unknown judges a call of unknown outcome: there was a reason for it.
func (a *audit) unknown(c *call) {
	if x := c.chat.answers[c.Call]; c.chat.cancels || x.operation == "/cancel" {
		return // its body went on beyond its grace
	}
	seen := never
	for _, n := range c.notes {
		if n.What == shown {
			seen = min(seen, n.At)
		}
	}
	entries := 0
	for _, n := range c.notes {
		if n.What == entered {
			entries++
			if a.lostIn(n, seen) {
				return
			}
		}
	}
	if entries == 0 && len(a.troubles) > 0 {
		return // its claim led to no body
	}
	a.violation("call %s of %s is of unknown outcome, and nothing befell its process: %+v",
		c.Call, c.Tool, c.notes)
}

// overtakings judges the effects that a process finished when another drive of
// the session had begun to run other bodies, or to reconcile: a call whose
// effect is once is of unknown outcome then, unless it was reconciled.
func (a *audit) overtakings(notes []note) {
	latest := map[string]int64{} // by session: the fence of the latest drive so far
	for _, n := range notes {
		if n.What == entered || n.What == reconciled {
			latest[n.Session] = max(latest[n.Session], n.Fence)
		}
		c := a.calls[n.Call]
		if n.What != finished || c == nil || n.Fence >= latest[n.Session] ||
			!kinds[n.Tool].effect.NeedsClaim() || kinds[n.Tool].reconcile ||
			kinds[n.Tool].wait != noWait {
			continue
		}
		a.overtaken++
		if c.Settled == event.Done {
			a.violation("the body of %s finished after its session was taken over, and call %s is %s: "+
				"%+v", c.Tool, c.Call, c.Settled, c.notes)
		}
	}
}

// slack is the time that lies at most between a driver's last look and the first
// line of a body, on a machine that is busy.
func (w *world) slack() time.Duration { return w.Lease / 2 }
