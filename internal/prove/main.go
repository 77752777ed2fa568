// Command prove runs the tests of what is promised under faults, longer than
// "make test" does, and prints what they counted as one table: scenarios by
// engines and cuts, lives that ended by a kill, what befell processes that
// share an engine, histories that were checked, inputs that were fuzzed, and
// the violations of each.
//
//	go run ./internal/prove -lives 400 -deeds 300 -histories 2000 -fuzz 20000x
//
// A test says what it counted in a line of its log, "counted: 36 histories cut at a write, 0 violations". A test that fails is a
// violation, and its output is shown.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

func main() {
	lives := flag.Int("lives", 400, "how many processes are killed")
	deeds := flag.Int("deeds", 300, "how many things befall processes that share an engine")
	histories := flag.Int("histories", 2000, "how many concurrent histories are checked")
	fuzz := flag.String("fuzz", "20000x", "how long each fuzz test runs, as go test -fuzztime has it; empty: not at all")
	flag.Parse()

	parts := []part{
		{name: "killed at every write", args: []string{"-run", "^TestKilled", "./fermatatest"}},
		{name: "killed for real", args: []string{"-run", "^TestLives", "./internal/lives"}, env: fmt.Sprint("FERMATA_LIVES=", *lives)},
		{name: "several processes", args: []string{"-run", "^TestFleet", "./internal/fleet"}, env: fmt.Sprint("FERMATA_DEEDS=", *deeds)},
		{name: "concurrent histories", args: []string{"-run", "^TestHistories", "./internal/histories"},
			env: fmt.Sprint("FERMATA_HISTORIES=", *histories)},
		{name: "engines", args: []string{"./kvstore/..."}},
	}
	if *fuzz != "" {
		targets, err := fuzzTests(".")
		if err != nil {
			fmt.Fprintln(os.Stderr, "prove:", err)
			os.Exit(1)
		}
		for _, t := range targets {
			parts = append(parts, part{name: "fuzzed", args: []string{"-run", "^$", "-fuzz", "^" + t.name + "$", "-fuzztime", *fuzz, "-fuzzminimizetime", "100x", t.dir}})
		}
	}
	ok := prove(os.Stdout, os.Stderr, parts, run)
	if !ok {
		os.Exit(1)
	}
}

// part is one go test.
type part struct {
	name string
	args []string
	env  string
}

// run runs go test and returns what it printed.
func run(p part) ([]byte, error) {
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-v", "-timeout=60m"}, p.args...)...)
	cmd.Env = append(os.Environ(), p.env)
	return cmd.CombinedOutput()
}

// prove runs the parts, says on progress how far it is, and prints the table. Ok says that there are no violations.
func prove(out, progress io.Writer, parts []part, run func(part) ([]byte, error)) (ok bool) {
	var all tally
	for _, p := range parts {
		start := time.Now()
		printed, err := run(p)
		counted, tables := read(printed)
		fmt.Fprintf(progress, "%-24s %8s  go test %v\n", p.name, time.Since(start).Round(time.Second), p.args)
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
