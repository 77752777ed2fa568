// Command engines measures what a cycle costs on PostgreSQL: a user's message,
// a tool call that pauses, the answer that comes from outside, the last word.
// It does so with this library, and with two others that do the closest job,
// on one server, in one run.
//
//	go run . -page ../../docs/scale.md
//
// It starts the server, and the processes: this one takes messages and answers,
// as a web server would, and 1, 2 or 4 others work. The model and the outside
// job take no time. All share the machine, so it is best if nothing else runs.
// It takes about half an hour; with -held 0, -paused 10000 and -for 5s, five
// minutes.
//
// The figures go to figures.json, and with -page as tables into a page. Each
// table is between two comments that name it.
//
// Where things are: what is measured in which order: plan.go; one measurement:
// point.go, load.go, held.go; the processes: worker.go, wire.go; the server:
// server.go; the three systems: system.go, fermata.go, river.go, dbos.go;
// sessions that are paused: paused.go; tables: figures.go, page.go, sums.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	if part() {
		return
	}
	var o options
	flag.DurationVar(&o.each, "for", 20*time.Second, "how long each `measurement` takes")
	flag.IntVar(&o.clients, "clients", 64, "how many cycles are under way at once")
	flag.IntVar(&o.few, "few", 1000, "how many sessions are paused beside most measurements")
	flag.IntVar(&o.paused, "paused", 100_000, "how many sessions are paused beside some")
	flag.IntVar(&o.rounds, "rounds", 5, "how often the two stores are measured in turns")
	flag.DurationVar(&o.held, "held", 10*time.Minute,
		"how long a transaction is held open; 0: that isn't measured")
	flag.StringVar(&o.only, "only", "", "one `step` alone: compare, turns or held")
	out := flag.String("out", "figures.json", "the `file` for the figures")
	page := flag.String("page", "", "the `file` whose tables are written")
	from := flag.String("from", "", "a `file` of figures to write the tables from, in place of measuring")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, *from, *out, *page); err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

// run measures, or reads what was measured, and writes what was asked for.
func run(ctx context.Context, o options, from, out, page string) error {
	var f figures
	var err error
	if from != "" {
		f, err = readFigures(from)
	} else {
		f, err = measure(ctx, o)
		if err == nil {
			err = f.write(out)
		}
	}
	if err != nil {
		return err
	}
	if page == "" {
		for _, t := range f.tables() {
			fmt.Printf("%s\n\n%s\n", t.name, &t)
		}
		return nil
	}
	return f.fill(page)
}
