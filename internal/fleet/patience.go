package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// slowest is how much longer than patience all may take where processes get no
// processor.
const slowest = 4

// waited is how long something was waited for, and for how much of that some
// process got no processor.
type waited struct{ all, starved time.Duration }

func (d waited) String() string {
	return fmt.Sprintf("%v, in %v of which a process got no processor",
		d.all.Round(time.Millisecond), d.starved.Round(time.Millisecond))
}

// until waits until so() holds. Time in which a process got no processor
// doesn't count, but in all it waits slowest times its patience at most.
func (w *world) until(so func() bool) (d waited) {
	for begun := now(); !so(); time.Sleep(20 * time.Millisecond) {
		d = waitedSince(begun, now(), w.notes())
		if d.all-d.starved >= w.Patience || d.all >= slowest*w.Patience {
			break
		}
	}
	return d
}

// waitedSince returns how long was waited, by what the processes have noted.
func waitedSince(begun, until instant, notes []note) waited {
	d := waited{all: until.sub(begun)}
	counted := begun // until then; the times of several processes overlap
	for _, n := range slices.SortedFunc(slices.Values(notes), byFrom) {
		from, to := max(n.From, counted), min(n.At, until)
		if n.What == starved && from < to {
			d.starved += to.sub(from)
			counted = to
		}
	}
	return d
}

func byFrom(a, b note) int { return cmp.Compare(a.From, b.From) }

// stuck tells of the sessions that didn't come to their ends: each is a
// violation, however slow the machine is.
func (w *world) stuck(all []*chat, what string, d waited) {
	for _, c := range all {
		w.violation("session %s %s: it waits for %v; waited for it was %v; %s", c.id, what, c.waits, d,
			w.toldLast(c))
	}
}

// ends waits until so() holds. It is a violation if that doesn't come.
func (w *world) ends(what string, so func() bool) {
	if d := w.until(so); !so() {
		w.violation("%s; waited for it was %v", what, d)
	}
}
