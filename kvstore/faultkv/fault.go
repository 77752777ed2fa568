package faultkv

import "fmt"

// Fault is a failure and its place: the number of the Apply that it strikes.
// The zero Fault never strikes.
type Fault struct {
	kind kind
	at   int
	die  bool
}

type kind int

const (
	none kind = iota
	fail
	lose
	deferred
	conflict
	full
	dead
)

// FailAt makes the n-th Apply fail with [ErrFault]; nothing is applied.
func FailAt(n int) Fault { return Fault{kind: fail, at: n} }

// LoseAt lets the engine have the n-th Apply, and loses its answer, whatever it
// was: the caller gets kvstore.ErrUncertain.
func LoseAt(n int) Fault { return Fault{kind: lose, at: n} }

// DeferAt has the caller of the n-th Apply told at once that it is a
// kvstore.ErrUncertain, and the engine get it later: just after the next Get or
// Scan of anyone has read. So what a caller reads to find out may be older than
// the batch, and what it reads after that newer.
func DeferAt(n int) Fault { return Fault{kind: deferred, at: n} }

// ConflictAt makes the n-th Apply fail with kvstore.ErrConflict, whatever its
// preconditions; nothing is applied.
func ConflictAt(n int) Fault { return Fault{kind: conflict, at: n} }

// FullFrom returns a full disk: from the n-th Apply on, each that writes
// something fails with [ErrFull], until [Injector.Heal].
func FullFrom(n int) Fault { return Fault{kind: full, at: n} }

// AndDie makes the store dead when the fault has struck: every later call
// answers [ErrDead], as if the process had been killed. The test then drops it,
// and opens again what is beneath.
func (f Fault) AndDie() Fault {
	f.die = true
	return f
}

// String is fit for the name of a subtest.
func (f Fault) String() string {
	names := map[kind]string{none: "nothing", fail: "fail at", lose: "lose at",
		deferred: "defer at", conflict: "conflict at", full: "full from"}
	s := names[f.kind]
	if f.kind != none {
		s = fmt.Sprintf("%s %d", s, f.at)
	}
	if f.die {
		s += " and die"
	}
	return s
}

func (f Fault) strikes(c Call) bool {
	switch f.kind {
	case none:
		return false
	case full:
		return c.Number >= f.at && c.Writes
	}
	return c.Number == f.at
}

// Cuts returns every way in which a process that does so many Applies can die
// at one of them: just before it, and just after it, before it is told. Run the
// scenario once without a fault to learn how many there are, then once with
// each cut:
//
//	for _, cut := range faultkv.Cuts(applies) {
//		t.Run(cut.String(), func(t *testing.T) {
//			memory := kvstore.NewMemory()
//			scenario(faultkv.New(memory, cut).Store)
//			recovered(memory.Reopen())
//		})
//	}
func Cuts(applies int) []Fault {
	var cuts []Fault
	for n := 1; n <= applies; n++ {
		cuts = append(cuts, FailAt(n).AndDie(), LoseAt(n).AndDie())
	}
	return cuts
}
