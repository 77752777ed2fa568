package fermatatest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/kvstore/faultkv"
	"github.com/fermata-ai/fermata/session"
)

// theUser is the user of the session that inputs come to.
const theUser = "ada"

// history is one run of a scenario, over all lives of its process, and what the
// outside world remembers of it.
type history struct {
	ctx   context.Context
	s     *Scenario
	world World
	place Place
	uncut *account // what it has to come to; nil in the uncut history itself
	way   way      // in which its writes go wrong

	// mu guards what follows: the lives' goroutines, and those of bodies,
	// write it. It is held over no code of the scenario's.
	mu      sync.Mutex
	now     time.Time
	ids     map[string]int
	entries []entry
	acked   []session.Receipt
	tokens  map[string]string // by pause id
	settled map[string]string // by call id: what was first seen of its end
	// lost has the ids of calls that were claimed when a life began, without a
	// trace of how far they had got.
	lost map[string]bool
	// blurred has the ids of calls that need no claim, so that there was no
	// trace of whether they had begun.
	blurred map[string]bool
	acted   map[string]bool // by id, the calls that were entered for what they do to a handle
	// rewaits has those that have waited once more for a permit that their entry had
	// given back before it was cut off, as that shifts the numbers of later pauses.
	rewaits  map[string]bool
	begun    []bool          // inputs whose delivery was begun
	outcomes [][]string      // of the inputs, the last time they were delivered
	errors   map[string]bool // that runs ended with
	trace    []string
	wrong    []string
}

// maxLives is how many processes a history may need more than there are faults.
const maxLives = 3

// newHistory returns a history that has not begun.
func newHistory(ctx context.Context, s *Scenario, p Place, uncut *account, w way) *history {
	return &history{
		ctx: ctx, s: s, world: s.World(), place: p, uncut: uncut, way: w,
		now:      time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC),
		ids:      map[string]int{},
		tokens:   map[string]string{},
		settled:  map[string]string{},
		lost:     map[string]bool{},
		blurred:  map[string]bool{},
		acted:    map[string]bool{},
		rewaits:  map[string]bool{},
		begun:    make([]bool, len(s.Inputs)),
		outcomes: make([][]string, len(s.Inputs)),
		errors:   map[string]bool{},
	}
}

// run lives until a process has delivered all inputs: the first with the first
// fault, the second with the second, and so on. It returns what the history
// came to, and how many of the faults struck.
func (h *history) run(faults []faultkv.Fault) (got *account, struck int, err error) {
	writes := 0
	for n, done := 0, false; !done; n++ {
		if n == len(faults)+maxLives {
			return nil, struck, fmt.Errorf("it does not come to its end in %d lives:\n%s",
				n, h.report())
		}
		l, err := h.open(n, faults)
		if err != nil {
			return nil, struck, err
		}
		done = l.live()
		writes += l.faults.Applies()
		struck += l.faults.Struck()
		if err := l.end(); err != nil {
			return nil, struck, fmt.Errorf("%w\n%s", err, h.report())
		}
	}
	l, err := h.open(len(faults)+maxLives, nil)
	if err != nil {
		return nil, struck, err
	}
	if got, err = l.account(); err == nil {
		got.writes = writes
	}
	return got, struck, errors.Join(err, l.end())
}

// Now returns the time by the clock of all lives. It stands still, but for Pass
// and for leases that have to end.
func (h *history) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *history) pass(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(h.now) {
		h.now = until
	}
}

// newID returns an id that is unique over all lives, and no part of another id.
func (h *history) newID(kind string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids[kind]++
	return madeID(kind, h.ids[kind])
}

func madeID(kind string, n int) string { return fmt.Sprintf("%s_%06d", kind, n) }

// named returns what an event is called by: its sender's id, or that the store has
// made it one, since a store makes more of them the more often it tries.
func (h *history) named(event string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for kind, made := range h.ids {
		for n := range made {
			if event == madeID(kind, n+1) {
				return "with an id of the store's"
			}
		}
	}
	return event
}

func (h *history) violation(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(h.wrong, text) {
		h.wrong = append(h.wrong, text)
	}
}

func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trace = append(h.trace, fmt.Sprintf(format, args...))
}

func (h *history) acknowledge(r session.Receipt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked = append(h.acked, r)
}

// failed notes that a run ended with an error.
func (h *history) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errors[err.Error()] = true
}

// isFault reports whether an error is, or comes of, an injected fault.
func isFault(err error) bool {
	return errors.Is(err, faultkv.ErrFault) || errors.Is(err, faultkv.ErrDead) ||
		errors.Is(err, faultkv.ErrFull)
}

// report returns what went wrong, and what happened before.
func (h *history) report() string {
	return strings.Join(h.wrong, "\n") + "\n  what happened:\n    " +
		strings.Join(h.trace, "\n    ")
}

// lostCalls returns the calls whose outcome may be honestly unknown.
func (h *history) lostCalls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.lost))
}

var silent = slog.New(slog.DiscardHandler)
