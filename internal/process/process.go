package process

import (
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Process is a program that was started.
type Process struct {
	system   *os.Process
	terminal bool
	log      *slog.Logger
	record   string // its file; empty: none
	drop     func(*Process)

	stops chan time.Duration // to watch: a stop, with its grace
	done  chan struct{}      // closed by watch

	state *os.ProcessState // set before done is closed
	err   error            // the same
}

// Times of an end. Tests don't change them.
const (
	restGrace = 2 * time.Second  // for what a program leaves running
	killBound = 10 * time.Second // for what was killed to be gone
	firstLook = time.Millisecond
	lastLook  = 50 * time.Millisecond
)

// Pid returns the program's process id, which is also that of its group.
func (p *Process) Pid() int { return p.system.Pid }

// Done is closed when the program and all of its group are gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// State returns how the program ended. It waits for Done. The error is of a
// group that did not end, or of a program whose end isn't known.
func (p *Process) State() (*os.ProcessState, error) {
	<-p.done
	return p.state, p.err
}

// Stop ends the program, and all of its group: it asks them to end, kills them
// after a grace, and returns when they are gone. Without a grace it kills them
// at once. A later Stop may shorten the grace of an earlier one.
func (p *Process) Stop(grace time.Duration) {
	select {
	case p.stops <- grace:
	case <-p.done:
	}
	<-p.done
}

// watch waits for the end of the program, or for a stop, and then ends the
// group. The program stays unreaped until the group is gone: so its number
// can't become another's, and signals reach no other group.
func (p *Process) watch() {
	defer p.drop(p)
	defer close(p.done)
	exited := make(chan error, 1)
	go func() { exited <- p.exits() }()
	grace := restGrace
	select {
	case p.err = <-exited:
		exited = nil
	case grace = <-p.stops:
	}
	left := p.end(grace)
	if exited != nil {
		p.err = <-exited
	}
	if p.state == nil { // where exits leaves that to its caller
		state, err := p.system.Wait()
		if p.state = state; p.err == nil {
			p.err = err
		}
	}
	if left > 0 {
		p.err = fmt.Errorf("process: %d processes of group %d did not end though they were killed",
			left, p.Pid())
		p.log.Error(p.err.Error())
		return // and the record stays
	}
	if p.record != "" {
		if err := os.Remove(p.record); err != nil {
			p.log.Error("process: a record could not be removed", "error", err)
		}
	}
}

// end ends the group, and returns how many of it are left.
func (p *Process) end(grace time.Duration) int {
	g := group{leader: p.Pid(), terminal: p.terminal}
	left := g.count()
	if left == 0 {
		return 0
	}
	kill := time.Now().Add(grace)
	killed := grace <= 0
	if killed {
		g.kill()
	} else {
		g.ask()
	}
	bound := kill.Add(killBound)
	look := time.NewTimer(0)
	defer look.Stop()
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		look.Reset(wait)
		select {
		case grace := <-p.stops:
			if sooner := time.Now().Add(grace); sooner.Before(kill) {
				kill, bound = sooner, sooner.Add(killBound)
			}
		case <-look.C:
		}
		now := time.Now()
		if left = g.count(); left == 0 || now.After(bound) {
			return left
		}
		if killed || !now.Before(kill) {
			killed = true
			g.kill() // again, for what it had just started
		}
	}
}
