package fleet

import (
	"math/rand/v2"
	"slices"
	"time"
)

// What befalls a process, whatever its engine.
const (
	killed  = "kills"
	stopped = "stops longer than a lease"
	amid    = "stops amid an effect, until another process has taken over"
	closed  = "orderly ends"
	changed = "replacements by another version"
)

// trouble is a time in which a process may have lost what it held; an empty
// name: any process.
type trouble struct {
	process  string
	what     string // one of those above, a Deed's, or what the process has noted
	life     int    // zero: of any
	from, to instant
	steps    *clock // of a clock that steps: it is a trouble when it steps ahead
}

// befell counts what befell a process, or all of them, and notes it.
func (w *world) befell(x trouble) {
	w.noteTrouble(x)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did[x.what]++
}

// noteTrouble notes a trouble that is over now.
func (w *world) noteTrouble(x trouble) {
	x.to = now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.troubles = append(w.troubles, x)
}

// befall does something to one of the processes.
func (w *world) befall(n int, r *rand.Rand) {
	if n == 0 || r.IntN(6) == 0 {
		w.stopAmid()
		return
	}
	p := w.fleet[r.IntN(len(w.fleet))]
	if w.Versions && r.IntN(2) == 0 {
		w.replace(p, r)
		return
	}
	x := trouble{process: p.name, life: p.life, from: now()}
	switch n := r.IntN(9); {
	case n < 4:
		x.what = killed
		w.kill(p)
		time.Sleep(time.Duration(r.Int64N(int64(w.Lease * 2))))
		w.start(p, r)
	case n < 8:
		x.what = stopped
		must(w.t, halt(p.cmd.Process))
		time.Sleep(w.long(r))
		must(w.t, resume(p.cmd.Process))
	default:
		x.what = closed
		w.end(p)
		w.start(p, r)
	}
	w.befell(x)
	time.Sleep(time.Duration(r.Int64N(int64(w.Lease / 2))))
}

// stopAmid stops a process that has just entered a body that takes a while,
// whose effect is once, until another one carries the session on.
func (w *world) stopAmid() {
	before := len(w.notes())
	e := w.awaitNote(before, 4*w.Lease, func(n note) bool {
		return n.What == entered && n.Tool == longTool && w.lives(n)
	})
	if e.Process == "" {
		return // no session has come so far
	}
	p := w.fleet[slices.IndexFunc(w.fleet, func(p *process) bool { return p.name == e.Process })]
	x := trouble{process: p.name, life: p.life, what: amid, from: now()}
	must(w.t, halt(p.cmd.Process))
	w.awaitNote(before, 10*w.Lease, func(n note) bool {
		return n.Session == e.Session && n.Fence > e.Fence
	})
	must(w.t, resume(p.cmd.Process))
	w.befell(x)
}

// lives reports whether a note is of a process that runs.
func (w *world) lives(n note) bool {
	return slices.ContainsFunc(w.fleet, func(p *process) bool {
		return p.name == n.Process && p.life == n.Life && p.cmd != nil
	})
}

func (w *world) notes() []note {
	notes, err := w.ledger.all()
	must(w.t, err)
	return notes
}

// awaitNote waits for a note after the first ones; the zero one: none has come.
func (w *world) awaitNote(after int, wait time.Duration, is func(note) bool) note {
	for begun := now(); now().sub(begun) < wait; time.Sleep(2 * time.Millisecond) {
		notes := w.notes()
		if i := slices.IndexFunc(notes[after:], is); i >= 0 {
			return notes[after+i]
		}
	}
	return note{}
}

// replace replaces a process by one of the other version, as a deploy does, or
// one that is taken back.
func (w *world) replace(p *process, r *rand.Rand) {
	x := trouble{process: p.name, life: p.life, what: changed, from: now()}
	w.end(p)
	p.later = !p.later
	w.start(p, r)
	w.befell(x)
	time.Sleep(w.Lease)
}

// long is a time in which a lease ends.
func (w *world) long(r *rand.Rand) time.Duration {
	return w.Lease * time.Duration(12+r.IntN(15)) / 10
}

// befallEngine does something to the engine, or to the way of a process to it.
func (w *world) befallEngine(d Deed, r *rand.Rand) {
	x := trouble{what: d.What, from: now()}
	name := w.fleet[r.IntN(len(w.fleet))].name
	if !d.Everywhere {
		x.process = name
	}
	d.Do(w.t, name, w.long(r))
	w.befell(x)
	time.Sleep(time.Duration(r.Int64N(int64(w.Lease))))
}
