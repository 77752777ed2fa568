package fleet

import (
	"slices"
	"time"

	"github.com/fermata-ai/fermata/event"
)

// A call of effect once may be of unknown outcome only where the process that
// ran it may have lost the session while it ran: it was killed, stopped or cut
// off, or the machine was slow, which the processes note themselves. So may a
// request fail only where its process had a trouble meanwhile. What befell a
// process at another time excuses nothing. And a body may go on when its call
// was cancelled.

// overlaps reports whether a trouble was in a process's life, and in a span of
// time.
func (x trouble) overlaps(process string, life int, from, to instant) bool {
	switch {
	case x.process != "" && (x.process != process || x.life != 0 && x.life != life):
		return false
	case x.steps != nil:
		return x.steps.ahead(from, to)
	}
	return x.to >= from && x.from <= to
}

// lostIn reports whether the process that wrote an entry may have lost what it
// held from then on, until end.
func (a *audit) lostIn(e note, end instant) bool { return a.troubledIn(e, e.At, end) }

// deaf reports whether the process that wrote an entry may not have heard what
// was committed elsewhere in the lease before it: signals and reads were lost,
// or late.
func (a *audit) deaf(e note) bool { return a.troubledIn(e, e.At.add(-a.Lease), e.At) }

// troubledIn reports whether something befell the process of a note in a span
// of time. If it was nothing but that the machine was slow, that is counted.
func (a *audit) troubledIn(n note, from, to instant) bool {
	from = from.add(-a.slack())
	slow := false
	for _, x := range a.troubles {
		if !x.overlaps(n.Process, n.Life, from, to) {
			continue
		}
		if x.what != string(starved) {
			return true
		}
		slow = true
	}
	if slow {
		a.waived++
	}
	return slow
}

// excused reports whether a process was stopped right before an entry, or got
// no processor: so that it may have been between its last look and the first
// line of the body.
func (a *audit) excused(e note) bool {
	slow := false
	for _, x := range a.troubles {
		if x.process != e.Process || x.life != e.Life || e.At <= x.from || e.At >= x.to.add(a.slack()) {
			continue
		}
		if x.what == stopped || x.what == amid {
			return true
		}
		slow = slow || x.what == string(starved)
	}
	if slow {
		a.waived++
	}
	return slow
}

// notedTroubles adds what the processes have noted to what befell them.
func (a *audit) notedTroubles(notes []note) {
	for _, n := range notes {
		if n.What == troubled || n.What == starved {
			a.troubles = append(a.troubles, trouble{process: n.Process, life: n.Life,
				what: string(n.What), from: n.From, to: n.At.add(a.Lease / 16)})
		}
	}
}

// ended returns until when the process that wrote an entry may have been about
// to store what the body came to: a lease after the body's end, or after the
// end that a body has at the latest.
func (a *audit) ended(c *call, entry note) instant {
	end := entry.At.add(longest(a.Lease))
	for _, n := range c.notes {
		if n.What == finished && n.Key == entry.Key && n.Process == entry.Process &&
			n.Life == entry.Life && n.Fence == entry.Fence {
			end = n.At
		}
	}
	return end.add(a.Lease)
}

// unknown judges a call of unknown outcome: its process had a trouble while it
// ran. If no process has entered the body, any had, while the turn went on.
func (a *audit) unknown(c *call) {
	if x := c.chat.answers[c.Call]; c.chat.cancels || x.operation == "/cancel" {
		return // its body went on beyond its grace
	}
	seen, entries := c.chat.ended, 0
	for _, n := range c.notes {
		if n.What == shown {
			seen = min(seen, n.At)
		}
	}
	for _, n := range c.notes {
		if n.What == entered {
			entries++
			if a.lostIn(n, min(seen, a.ended(c, n))) {
				return
			}
		}
	}
	begun := a.turnBegan(c)
	if entries == 0 && slices.ContainsFunc(a.troubles, func(x trouble) bool {
		return x.overlaps(x.process, x.life, begun, seen)
	}) {
		return // its claim led to no body
	}
	a.violation("call %s of %s is of unknown outcome, and nothing befell its process: %+v",
		c.Call, c.Tool, c.notes)
}

// turnBegan returns a time before the turn of a call: that of the last entry of
// a body in an earlier turn.
func (a *audit) turnBegan(c *call) instant {
	begun := c.chat.began
	for _, other := range a.calls {
		if other.session != c.session || other.turn >= c.turn {
			continue
		}
		for _, n := range other.notes {
			if n.What == entered {
				begun = max(begun, n.At)
			}
		}
	}
	return begun
}

// failures judges what the processes failed to do for users and senders: each
// had a trouble then. Others had no answer, since their process ended.
func (a *audit) failures(notes []note, recorded []operation) {
	for _, n := range notes {
		switch {
		case n.What != failed:
		case a.troubledIn(n, n.From, n.At):
			a.failed++
		default:
			a.violation("%s failed as %s, and nothing befell its process: %+v", n.Tool, n.Output, n)
		}
	}
	for _, o := range recorded {
		if o.open && !slices.ContainsFunc(a.troubles, func(x trouble) bool {
			return x.process == o.process && x.life == o.life && x.to >= instant(o.From) &&
				(x.what == killed || x.what == closed || x.what == changed)
		}) {
			a.violation("%s of call %s had no end, and its process did not end: %+v", o.Name, o.Call, o)
		}
	}
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

// mostWaived: of so many entries of bodies, one judgement may be waived since
// the machine was slow.
const mostWaived = 20

// waivers fails a run in which the machine was too slow to judge much of it.
func (a *audit) waivers() {
	if a.waived*mostWaived > a.entries {
		a.violation("%d of what would be wrong can't be judged, since processes got no processor; there "+
			"were %d entries of bodies: the machine is too slow for this test", a.waived, a.entries)
	}
}

// slack is the time that lies at most between a driver's last look and the
// first line of a body, on a machine that is busy.
func (w *world) slack() time.Duration { return w.Lease / 2 }
