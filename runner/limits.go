package runner

import (
	"fmt"
	"slices"
	"sync"

	"github.com/fermata-ai/fermata/agent"
	"github.com/fermata-ai/fermata/internal/hold"
)

// limits are the limits that tools share, by name. They count bodies in all
// sessions that the runner drives. All methods may be called from any
// goroutine.
//
// A drive that finds no place goes on with other calls, and is told when one is
// free. No place is kept for it: a caller that is slow over an event would hold
// it up. So whichever drive comes first has the place.
type limits map[string]*limit

type limit struct {
	most int

	mu      sync.Mutex // guards the rest; held over nothing that waits
	used    int
	waiting []chan<- struct{} // of drives, in the order in which they came
}

// newLimits returns the limits of Options.SharedLimits.
func newLimits(given map[string]int) (limits, error) {
	ls := limits{}
	for name, most := range given {
		if name == "" || most < 1 {
			return nil, fmt.Errorf("runner: Options.SharedLimits[%q] is %d; a limit has a name, "+
				"and is 1 at least", name, most)
		}
		ls[name] = &limit{most: most}
	}
	return ls, nil
}

// check returns the error of an agent whose tools share a limit that isn't
// there.
func (ls limits) check(a *agent.Agent) error {
	tools := hold.Of(a).Tools
	for _, name := range tools.Names() {
		if l := tools.Scheduling(name).Limit; l != "" && ls[l] == nil {
			return fmt.Errorf("runner: the tool %q of agent %q shares the limit %q, and there is "+
				"none of that name; add it to Options.SharedLimits", name, a.Name(), l)
		}
	}
	return nil
}

// take takes a place, if there is one, until left is called. Otherwise freed
// gets a value when there may be one. Without a name there is always one.
func (ls limits) take(name string, freed chan<- struct{}) (left func(), ok bool) {
	l := ls[name]
	if l == nil {
		return func() {}, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used < l.most {
		l.used++
		return l.leave, true
	}
	if !slices.Contains(l.waiting, freed) {
		l.waiting = append(l.waiting, freed)
	}
	return nil, false
}

// leave frees a place. All who wait are told, since the first may have ended.
func (l *limit) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used--
	for _, freed := range l.waiting {
		select {
		case freed <- struct{}{}:
		default: // it is about to look
		}
	}
	l.waiting = nil
}
