package histories

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fermata-ai/fermata/internal/testlength"
)

// engines are what the histories are kept in.
var engines = []engine{{}, {faults: true}, {shared: true}, {shared: true, faults: true},
	{shared: true, remote: true, faults: true}}

// TestHistoriesAreLinearizable has clients resume, cancel, extend, report,
// look, say, supersede, end the run and carry on at once, through two runners
// on one store, while the clock moves, and timers with it. Of each call it is
// then asked whether some order of what was done to it, each operation at one
// moment between its call and its return, explains all that the clients were
// told and shown.
func TestHistoriesAreLinearizable(t *testing.T) {
	var all tally
	for _, e := range engines {
		t.Run(e.String(), func(t *testing.T) {
			for seed := range testlength.Histories.Rounds(1 / float64(len(engines))) {
				if e.remote && seed%6 > 0 {
					continue // it is slow
				}
				w := newWorld(t, uint64(seed), e, (*world).agent)
				w.run()
				if w.check(&all); t.Failed() {
					break // one is enough to read
				}
			}
		})
	}
	all.log(t)
}

var supersededDuplicate = regexp.MustCompile("^duplicate .* superseded$")

// tally counts what was checked.
type tally struct {
	histories, operations, struck, violations int
	outcomes                                  map[string]int // by their first words
}

func (c *tally) count(all []porcupine.Operation) {
	if c.outcomes == nil {
		c.outcomes = map[string]int{}
	}
	c.operations += len(all)
	for _, o := range all {
		in, out := o.Input.(operation), o.Output.(outcome)
		text := out.text
		if out.uncertain {
			text = "uncertain"
		}
		words := strings.Fields(text)
		switch in.name {
		case "receipts", "received":
			continue
		case "entry":
			words = words[:1]
		case "send":
			words = strings.Fields(supersededDuplicate.ReplaceAllString(text, "superseded"))
		case "call", "result":
			words = strings.Fields(strings.ReplaceAll(text, ",", " "))
		}
		if in.content == again {
			in.name = again
		}
		c.outcomes[in.name+": "+strings.Join(words[:min(2, len(words))], " ")]++
	}
}

// log tells what was checked, and fails the test if that is too little: a
// history in which nothing is accepted, or no caller comes too late, shows
// nothing.
func (c *tally) log(t *testing.T) {
	t.Logf("counted: %d histories of two runners, %d violations", c.histories, c.violations)
	t.Logf("counted: %d operations of theirs, %d violations", c.operations, c.violations)
	t.Logf("%d faults struck; what the operations came to: %v", c.struck, c.outcomes)
	if c.violations > 0 || c.histories < 500 {
		return
	}
	for _, want := range []string{
		"resume: accepted", "resume: duplicate of", "resume: conflict with", "resume: misfit",
		"resume: not paused",
		"resume: settled expired", "resume: settled cancelled", "cancel: accepted",
		"cancel: duplicate of",
		"progress: ok", "extend: ok", "find: over", "result: settled done",
		"result: settled expired",
		"say: taken", "supersede: taken", "end: ok", "result: settled denied",
		"result: settled cancelled",
		"send: accepted", "send: duplicate of", "send: superseded", "send: conflict with",
		"send: misfit", "send: full", "send: unknown event", "send: settled done",
		"send: settled cancelled", "send: settled expired", "entry: shown",
	} {
		if c.outcomes[want] == 0 {
			t.Errorf("no operation came to %q", want)
		}
	}
}

// check asks porcupine about each call of a history, and looks at what else
// must hold at its end.
func (w *world) check(all *tally) {
	w.t.Helper()
	all.histories++
	all.struck += w.faults.Struck()
	for _, call := range w.calls() {
		tool := w.tools[call]
		if tool == "" {
			continue // its model message was given up
		}
		mine := w.of(call)
		all.count(mine)
		m := callModel{steps: stepsOf[tool], once: w.once, lossy: w.lossy, text: textual(tool),
			mail: takes(tool), asks: tool == asksOperator}
		model := m.porcupine()
		result, facts := porcupine.CheckOperationsVerbose(model, mine, 20*time.Second)
		if result == porcupine.Ok {
			continue
		}
		all.violations++
		if result == porcupine.Unknown {
			w.t.Errorf("seed %d: the history of %s takes too long to check", w.seed, call)
			continue
		}
		f, err := os.CreateTemp("", "history-*.html")
		must(w.t, err)
		must(w.t, porcupine.Visualize(model, facts, f))
		must(w.t, f.Close())
		w.t.Errorf("seed %d: the history of %s, a call of %s, is not linearizable:\n%sas a picture: %s\n"+
			"and all operations of all calls:\n%s", w.seed, call, tool, describe(mine, facts),
			f.Name(), w.everything())
	}
}

// everything prints a history whole: what happens to one call may be explained
// by what happens to another one.
func (w *world) everything() string {
	var b strings.Builder
	for _, o := range w.all {
		b.WriteString(line(o))
	}
	return b.String()
}

// firstWords is an outcome, for counting.
func firstWords(o outcome) string {
	if o.uncertain {
		return "uncertain"
	}
	words := strings.Fields(o.text)
	return strings.Join(words[:min(2, len(words))], " ")
}
