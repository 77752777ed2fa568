package fleet

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/hold"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// toldLast returns the last message to the user of a session, and how it is
// stored.
func (w *world) toldLast(c *chat) string {
	w.mu.Lock()
	last := c.last
	w.mu.Unlock()
	text := fmt.Sprintf("its user was told %q", last)
	store := hold.Of(session.NewStore(w.kv, nil))
	for s, err := range w.rn.Sessions(w.t.Context(), session.Filter{Root: c.id}, "parent") {
		if err != nil {
			return fmt.Sprintf("%s; %v", text, err)
		}
		st, err := store.Load(w.t.Context(), s.ID)
		switch {
		case err != nil:
			text += fmt.Sprintf("; %v", err)
		case !isOver(s):
			text += fmt.Sprintf("; %s, of %s, is %q, held: %v, until %v, turn %d, due %v, halt %+v, %d "+
				"takeovers, wake %v, calls %+v", s.ID, s.Agent, s.Finish, st.Held, st.LeaseEnd, st.Turn,
				st.Due, st.Halt, st.Takeovers, st.Wake, st.Calls)
		}
	}
	return text
}

func isOver(s runner.Session) bool {
	return s.Finish == event.FinishStop || s.Finish == event.FinishCancelled
}

// unfinished returns the sessions that are not at their end, but for those that
// wait for butFor alone.
func (w *world) unfinished(butFor ...string) (all []*chat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.sessions {
		others := slices.ContainsFunc(c.waits, func(why string) bool {
			return !slices.Contains(butFor, why)
		})
		if !c.finished && (others || len(c.waits) == 0) {
			all = append(all, c)
		}
	}
	return all
}

// logs shows what the processes have logged, if FERMATA_LOGS is set, and
// otherwise only why Reconcile could not be asked.
func (w *world) logs() {
	for _, p := range w.fleet {
		b, err := os.ReadFile(filepath.Join(w.dir, p.name+".log"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if os.Getenv("FERMATA_LOGS") != "" ||
				strings.Contains(line, "could not be reconciled") {
				w.t.Logf("%s: %s", p.name, line)
			}
		}
	}
}

// report logs what was counted, and fails the test if that is not enough, or if
// something was wrong.
func (w *world) report(a *audit) {
	var answers, repeats, refused, continued, setAside, heldBack, finished int
	for _, c := range w.sessions {
		answers, repeats, refused = answers+len(c.answers), repeats+c.repeats,
			refused+len(c.refused)
		continued, setAside, heldBack = continued+c.continued, setAside+c.setAside,
			heldBack+c.heldBack
		if c.finished {
			finished++
		}
	}
	w.t.Logf("\n%6d  sessions, %d of them at their end\n%6d  answers acknowledged\n%6d  of them "+
		"once more\n%6d  refused, as the call was over\n"+
		"%6d  times one was carried on by hand, %d of them after it had failed; %d times after "+
		"deaths held it back\n%6d  entries of bodies\n%6d  of idempotent ones again\n"+
		"%s\n%6d  violations\ncalls by outcome: %v\nviolations by kind: %v",
		len(w.sessions), finished, answers, repeats, refused, continued, setAside, heldBack,
		a.entries, a.again, w.Engine.Log(), w.violations, a.settled, w.said)
	for _, what := range slices.Sorted(maps.Keys(w.did)) {
		w.t.Logf("counted: %d %s, %d violations", w.did[what], what, w.violations)
	}
	count := func(n int, what string) { w.t.Logf("counted: %d %s, %d violations", n, what, w.violations) }
	count(len(w.sessions), "sessions of several processes")
	count(a.below, "sessions below those")
	count(a.entries, "entries of bodies by several processes")
	count(a.late, "entries by a process that was stopped between its last look and the body")
	count(a.overtaken, "effects that a process finished after its session was taken over")
	if w.Versions {
		count(a.upgraded, "sessions that a newer version carried on after an older one")
	}
	count(a.held, "entries of bodies that hold the one permit")
	count(a.fired, "nominal times of a schedule that several workers carry on")
	count(a.checked, "histories of calls by all processes")
	count(a.operations, "operations in those")
	count(a.failed, "requests that failed while something befell their process")
	count(a.waived, "judgements waived, as a process got no processor")
	if finished == 0 || answers == 0 || a.entries < len(kinds) {
		w.t.Error("hardly anything happened")
	}
	// Last, since that is what is left of a log that is cut.
	for _, text := range w.wrong {
		w.t.Logf("wrong was: %.1000s", text)
	}
}
