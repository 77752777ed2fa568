package fermatatest_test

import (
	"testing"
	"testing/synctest"

	"github.com/fermata-ai/fermata/internal/testlength"
	"github.com/fermata-ai/fermata/kvstore/faultkv"
)

// A session's user sends messages, a shop brings a signed webhook, and a person
// decides by a link that a notification had. Whichever write goes wrong, each of
// them tries again until it is acknowledged. Nothing is lost, nothing happens
// twice, and no notification is missing.
func TestKilledAtTheFrontDoor(t *testing.T) { knockedAt(t, .1, false) }

// The process after the one that was killed is killed, too.
func TestKilledTwiceAtTheFrontDoor(t *testing.T) { knockedAt(t, .1, true) }

var doorWays = []struct {
	name  string
	fault func(n int) faultkv.Fault
	dies  bool
}{
	{"fails and dies", func(n int) faultkv.Fault { return faultkv.FailAt(n).AndDie() }, true},
	{"lost and dies", func(n int) faultkv.Fault { return faultkv.LoseAt(n).AndDie() }, true},
	{"fails", faultkv.FailAt, false},
	{"lost", faultkv.LoseAt, false},
}

// knockedAt cuts the story at every n-th write; with twice, the next process as
// well.
func knockedAt(t *testing.T, share float64, twice bool) {
	each := testlength.EveryCut
	if !twice {
		each /= 2
	}
	for name, shared := range map[string]bool{"one process": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			uncut, _ := knocked(t, shared)
			cuts := 0
			cut := func(faults ...faultkv.Fault) (struck int) {
				var got string
				if got, struck = knocked(t, shared, faults...); struck == len(faults) {
					cuts++
				}
				if got != uncut {
					t.Errorf("it came to\n%s\nand not to\n%s", got, uncut)
				}
				if t.Failed() {
					t.Fatalf("the story with %v", faults)
				}
				return struck
			}
			for pass := range testlength.Cuts.Rounds(share) {
				if pass == each {
					break // it has come to all of them
				}
				for i, way := range doorWays {
					if twice && !way.dies {
						continue
					}
					first := 1 + (pass+i*each/len(doorWays))%each
					for n := first; !twice; n += each {
						if cut(way.fault(n)) == 0 {
							break
						}
					}
					for n := first; twice; n += each {
						struck := 2
						for m := 1 + pass; struck == 2; m += each {
							struck = cut(way.fault(n), faultkv.FailAt(m).AndDie())
						}
						if struck == 0 {
							break
						}
					}
				}
			}
			t.Logf("counted: %d histories cut at a write, 0 violations", cuts)
		})
	}
}

// knocked tells the story once, and returns what it came to, and how many of the
// faults struck.
func knocked(t *testing.T, shared bool, faults ...faultkv.Fault) (came string, struck int) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorstep(t, shared, faults...)
		d.live()
		came, struck = d.account(), d.struck
	})
	return came, struck
}
