// Package lives kills a program for real, hundreds of times, and looks at the file that it leaves.
package lives

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"time"
)

// childDirectory is the environment variable that makes this program the child, and says where its file is.
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
	usual   = 75          // lives, where FERMATA_LIVES doesn't say
	atLeast = 20          // of them end in a body, in a commit, and while nothing happens
	toTheir = time.Minute // end sessions may take, once nobody kills any more
)

// A program that is killed with SIGKILL again and again, in bodies, in commits and between, while messages and webhooks keep
// coming, loses nothing that it acknowledged and does nothing twice.
func TestLivesEndedByKills(t *testing.T) {
	lives, least := int(number(t, "FERMATA_LIVES", usual)), atLeast
	if testing.Short() {
		lives = 9
	}
	if lives < usual {
		least = lives / 4
	}
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
		users.Go(func() { w.user(stop, fmt.Sprint("chat-", i), rand.New(rand.NewPCG(seed, uint64(1+i)))) })
	}
	for n := 0; ; n++ {
		rare, killed, sound := w.rarest()
		if n >= lives && killed >= least || !sound {
			break
		}
		if n >= 2*lives {
			t.Errorf("of %d kills only %d were %s", n, killed, rare)
			break
		}
		w.kill(w.start(), r, rare)
	}
	close(stop)
	last := w.start() // lives until all have what they want
	overdue := time.AfterFunc(toTheir, func() { w.change(func() { w.over = true }) })
	defer overdue.Stop()
	users.Wait()
	must(t, last.end())

	w.inspect()
}

// number is what an environment variable says.
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
