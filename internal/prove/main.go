// Command prove runs the tests of the promises under faults, longer than "make
// test" does, and prints what they counted as one table: scenarios by engines
// and cuts, lives that ended by a kill, faults of processes that share an
// engine, histories that were checked, inputs that were fuzzed, and the
// violations of each.
//
//	go run ./internal/prove
//
// runs them at full length, which takes an hour or more. With -for 8m they take
// about so long together: the tests of engines and the fuzz tests come first
// and are short then, and the others share the time that is left. Fuzz tests of
// nested modules are left out then, since Go instruments all that they import,
// and the vendors' clients take it many minutes.
//
// A test logs what it counted in a line, "counted: 36 histories cut at a write,
// 0 violations". A test that fails is a violation, and its output is shown.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"time"

	"github.com/fermata-ai/fermata/internal/testlength"
)

func main() {
	limit := flag.Duration("for", 0, "how long all takes, about; 0: the full length")
	flag.Parse()
	targets, err := fuzzTests(".", *limit > 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
	begun := time.Now()
	ok := prove(os.Stdout, os.Stderr, lengths(parts(targets, *limit > 0), *limit, time.Now), run)
	fmt.Printf("in %v\n", time.Since(begun).Round(time.Second))
	if !ok {
		os.Exit(1)
	}
}

// parts returns all parts, those whose length can't be a time first.
func parts(targets []fuzzTest, short bool) []part {
	// A number, since a time that ends at the wrong moment is a failure to Go's
	// fuzzer.
	inputs := "20000x"
	if short {
		inputs = "1000x"
	}
	all := []part{{name: "engines", args: []string{"./kvstore/..."}}}
	for _, t := range targets {
		all = append(all, part{name: "fuzzed", args: []string{
			"-run", "^$", "-fuzz", "^" + t.name + "$", "-fuzztime", inputs,
			"-fuzzminimizetime", "100x", t.dir,
		}})
	}
	if !short {
		all = append(all, part{name: "killed on PostgreSQL", timed: true, args: []string{
			"-tags", "prove", "-run", "^TestKilledInEveryScenario", "./kvstore/postgres"}},
			part{name: "killed on etcd", timed: true, args: []string{
				"-tags", "prove", "-run", "^TestKilledInEveryScenario", "./internal/etcdserver"}},
			// What a short test has fewer of, or smaller, and no other part has whole.
			part{name: "at full size", args: []string{
				"-race", "-skip", "^(TestEventsAgainstTimeouts|TestChildrensEnds|TestHandlesEnds)",
				"./runner", "./internal/schema", "./internal/session", "./notify",
				"./provider/anthropic", "./provider/gemini", "./provider/openai"}})
	}
	return append(all,
		part{name: "killed at every write", timed: true,
			args: []string{"-run", "^TestKilled", "./fermatatest"}},
		part{name: "killed for real", timed: true,
			args: []string{"-run", "^TestLives", "./internal/lives"}},
		part{name: "years of restarts", timed: true,
			args: []string{"-run", "^TestYears", "./schedule"}},
		part{name: "several processes", timed: true,
			args: []string{"-run", "^TestFleet", "./internal/fleet"}},
		part{name: "machines on PostgreSQL", timed: true,
			args: []string{"-run", "^TestPostgreSQL", "./internal/machines"}},
		part{name: "machines on etcd", timed: true,
			args: []string{"-run", "^TestEtcd", "./internal/machines"}},
		part{name: "events against time-outs", timed: true,
			args: []string{"-race", "-run", "^TestEventsAgainstTimeouts", "./runner"}},
		part{name: "ends of children", timed: true,
			args: []string{"-race", "-run", "^TestChildrensEnds", "./runner"}},
		part{name: "ends of handles", timed: true,
			args: []string{"-race", "-run", "^TestHandlesEndsAgainstAwaits", "./runner"}},
		part{name: "concurrent histories", timed: true,
			args: []string{"-run", "^TestHistories", "./internal/histories"}},
		part{name: "histories of trees", timed: true,
			args: []string{"-run", "^TestTrees", "./internal/histories"}},
	)
}

// part is one go test.
type part struct {
	name   string
	args   []string
	timed  bool   // it can go on for as long as it is told
	length string // as package testlength has it
}

const (
	// toBuild is how long a part takes beside its own time, to be built and to
	// end.
	toBuild = 15 * time.Second
	// atLeast is what a part gets where the machine is so slow that no time is
	// left: all takes longer then than it was told.
	atLeast = 20 * time.Second
)

// lengths yields the parts with their lengths. With a limit, each that is timed
// gets an equal share of what is left when its turn comes.
func lengths(parts []part, limit time.Duration, now func() time.Time) iter.Seq[part] {
	end, timed := now().Add(limit), 0
	for _, p := range parts {
		if p.timed {
			timed++
		}
	}
	return func(yield func(part) bool) {
		for _, p := range parts {
			switch {
			case limit == 0:
				p.length = "full"
			case !p.timed:
				p.length = "short"
			default:
				share := end.Sub(now())/time.Duration(timed) - toBuild
				p.length = max(share, atLeast).Round(time.Second).String()
				timed--
			}
			if !yield(p) {
				return
			}
		}
	}
}

// run runs go test and returns its output.
func run(p part) ([]byte, error) {
	cmd := exec.Command("go",
		append([]string{"test", "-count=1", "-v", "-timeout=3h"}, p.args...)...)
	cmd.Env = append(os.Environ(), testlength.Variable+"="+p.length)
	return cmd.CombinedOutput()
}

// prove runs the parts, writes to progress how far it is, and to out the table.
// It reports whether there are no violations.
func prove(
	out, progress io.Writer, parts iter.Seq[part], run func(part) ([]byte, error),
) (ok bool) {
	var all tally
	for p := range parts {
		start := time.Now()
		printed, err := run(p)
		counted, tables := read(printed)
		fmt.Fprintf(progress, "%-24s %8s  %s=%s go test %v\n", p.name,
			time.Since(start).Round(time.Second), testlength.Variable, p.length, p.args)
		out.Write(tables)
		if err != nil {
			counted.failed++
			fmt.Fprintf(out, "%s\n%s: %v\n", bytes.TrimSpace(printed), p.name, err)
		}
		all.add(p.name, counted)
	}
	fmt.Fprint(out, all)
	return all.violations() == 0
}
