// Package stage is what examples of several processes share, and what they are not about: a program that starts itself in
// other roles, and lines that are laid out for a person to read.
//
// What goes wrong ends the process that it goes wrong in, and that ends the others: see [Check].
package stage

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// Role is what one of the processes does.
type Role func(ctx context.Context, args []string)

// orphaned is how long a role may take that its parent doesn't end: it was killed, and its child waits for a person.
const orphaned = 15 * time.Minute

// Main is the program; the flags must have been parsed. Started by a person, it is the parent, which has so much time, and whose
// argument is a directory that is removed in the end. Started by Start, it is the role that is named there.
func Main(limit time.Duration, parent Role, roles map[string]Role) {
	role := roles[flag.Arg(0)]
	if role != nil {
		limit = orphaned
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, limit)
	err := try(func() {
		switch {
		case role != nil:
			role(ctx, flag.Args()[1:])
		case flag.NArg() > 0:
			Check(fmt.Errorf("there is no role %q", flag.Arg(0)))
		default:
			inDirectory(func(dir string) { parent(ctx, []string{dir}) })
		}
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("it was stopped: %w (%w)", ctx.Err(), err)
	}
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func inDirectory(f func(dir string)) {
	dir := Must(os.MkdirTemp("", "fermata-"))
	defer os.RemoveAll(dir)
	f(dir)
}

// failure is what Check panics with.
type failure struct{ err error }

// Check ends the process, by way of its deferred calls, if something went wrong that the example has no use for.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must is Check for what is returned with a value.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

func try(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			failed, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = failed.err
		}
	}()
	f()
	return nil
}
