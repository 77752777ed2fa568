// Package stage is what examples of several processes share, and what they are not about: a program that starts itself in
// other roles, and lines that are laid out for a person to read.
//
// What goes wrong ends the process that it goes wrong in, and that ends the others: see [Check].
package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// Role is what one of the processes does.
type Role func(ctx context.Context, args []string)

// limit is how long a process may take, a person's thinking included.
const limit = 15 * time.Minute

// Main is the program. Started by a person, it is the parent, whose argument is a directory that is removed in the end. Started
// by Start, it is the role that is named there.
func Main(parent Role, roles map[string]Role) {
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	var err error
	if role := roles[flag.Arg(0)]; role != nil {
		err = try(func() { role(ctx, flag.Args()[1:]) })
	} else if flag.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flag.Arg(0))
	} else {
		err = try(func() { inDirectory(func(dir string) { parent(ctx, []string{dir}) }) })
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // the rest follows from it
	}
	stop()
	cancel()
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

// errNoInput is what a prompt says when nobody answers any more.
var errNoInput = errors.New("the input ended, and an answer was expected")
