// Command release is for maintainers. It checks that the modules of this
// repository can be released, and prints how.
//
//	release check [commit]
//
// builds a program outside the tree against every released module as it would
// be tagged, and runs it. The commit is HEAD where none is named: the check
// does not see changes that aren't committed.
//
//	release plan VERSION
//
// prints which files to edit and what to tag, in which order. It changes
// nothing.
//
// It is in a module of its own, which isn't released, since it needs
// golang.org/x/mod.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

const usage = `usage:
	release check [commit]   builds a program against the modules as they would be tagged
	release plan VERSION     prints what to tag in which order, and changes nothing
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	command, argument := "", ""
	switch len(args) {
	case 2:
		argument = args[1]
		fallthrough
	case 1:
		command = args[0]
	}
	repo, err := openRepo(ctx, ".")
	if err != nil {
		return err
	}
	switch {
	case command == "check":
		if argument == "" {
			argument = "HEAD"
		}
		return check(ctx, repo, argument, os.Stdout)
	case command == "plan" && argument != "":
		return plan(ctx, repo, argument, os.Stdout)
	}
	return fmt.Errorf("what to do is not said:\n%s", usage)
}
