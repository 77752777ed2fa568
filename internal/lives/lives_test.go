// Package lives kills a real process of a program, hundreds of times, and
// judges the file that it leaves.
package lives

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fermata-ai/fermata/internal/testlength"
)

// childDirectory is the environment variable that makes this program the child:
// the directory of its file.
const childDirectory = "FERMATA_CHILD_DIRECTORY"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirectory); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	// Lives end in a body, in a commit, and while nothing happens, or a quarter
	// of all.
	atLeast = 20
	toTheir = time.Minute // end sessions may take, once the kills are over
)

// A program that is killed with SIGKILL again and again, in bodies, in commits
// and between, while messages and webhooks keep coming, loses nothing that it
// acknowledged and does nothing twice.
func TestLivesEndedByKills(t *testing.T) {
	seed := number(t, "FERMATA_SEED", rand.Uint64())
	t.Logf("FERMATA_SEED=%d makes the same choices", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)

	stop := make(chan struct{})
	var users sync.WaitGroup
	t.Cleanup(func() { // also if the test ends early
		w.change(func() { w.over = true })
		users.Wait()
	})
	for i := range 4 { // at once
		users.Go(func() {
			w.user(stop, fmt.Sprint("chat-", i), rand.New(rand.NewPCG(seed, uint64(1+i))))
		})
	}
	w.killAll(r)
	close(stop)
	last := w.start() // lives until all have what they want
	overdue := time.AfterFunc(toTheir, func() { w.change(func() { w.over = true }) })
	defer overdue.Stop()
	users.Wait()
	must(t, last.end())

	w.inspect()
}

// killAll ends as many lives as the tests' length asks for, and then more until
// there were enough at each moment.
func (w *world) killAll(r *rand.Rand) {
	w.t.Helper()
	lives := 0
	for range testlength.Lives.Rounds(1) {
		rare, _, sound := w.rarest()
		if !sound {
			return
		}
		w.kill(w.start(), r, rare)
		lives++
	}
	for n := 0; ; n++ {
		rare, killed, sound := w.rarest()
		switch {
		case killed >= min(atLeast, lives/4) || !sound:
			return
		case n >= lives:
			w.t.Errorf("of %d kills only %d were %s", lives+n, killed, rare)
			return
		}
		w.kill(w.start(), r, rare)
	}
}

// number returns the number in an environment variable.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	must(t, err)
	return n
}
