// Command chat is an agent in a terminal, with a model of yours or a script,
// whose tool calls may wait: for a job, for your answer, for your approval. It
// keeps all in one file: fermata-chat.db in the current folder, unless -file
// names another one. Leave it while a call waits, come back tomorrow, and the
// call goes on.
//
//	go run ./examples/chat              a new session; the program prints the id
//	go run ./examples/chat -session ID  a session goes on, under this model or
//	                                    another one
//	go run ./examples/chat -list        the sessions, and what they wait for
//
// The model is that of the first of these that the environment has:
// OPENAI_BASE_URL (a server that speaks OpenAI's Chat Completions; name the
// model with -model), ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY,
// GOOGLE_API_KEY. Without any of them a script answers. -provider and -model
// choose otherwise.
//
// Try "deploy checkout v2.5.0 and refund order 1042": the deployment takes a
// while, and reports over a real webhook how far it is; the refund asks you
// why, and whether it may. Type /quit while they wait.
//
// # How to read it
//
// chat.go is the conversation, and the one to begin with: three operations of a
// runner, Run, Resume and Continue, and how their events are shown. answer.go
// turns a line into an answer, command.go has the commands, orders.go and
// agent.go the tools and the agent, model.go the providers. world.go puts all
// of it together, beside a CI server that would be elsewhere. The rest is about
// terminals and texts. Under internal are the CI server, the tools that talk to
// it, and the script.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// options are the flags.
type options struct {
	file, store     string
	session         string
	list            bool
	provider, model string
	reasoning       bool
	step            time.Duration
}

const usage = `A chat in the terminal with a model, whose tool calls may wait.

The model is that of the first of these that the environment has: OPENAI_BASE_URL (a server
that speaks Chat Completions; it takes -model, too), ANTHROPIC_API_KEY, OPENAI_API_KEY,
GEMINI_API_KEY, GOOGLE_API_KEY. Without any of them a script answers.

`

const defaultFile = "fermata-chat.db"

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("chat", flag.ContinueOnError)
	f.StringVar(&o.file, "file", defaultFile, "the `file` that keeps the sessions")
	f.StringVar(&o.store, "store", "",
		"the `URL` of another store in its place: bolt://file, postgres://… or etcd://…")
	f.StringVar(&o.session, "session", "",
		"the `id` of the session that goes on, or begins; default a new one")
	f.BoolVar(&o.list, "list", false, "list the sessions and what they wait for, and leave")
	f.StringVar(&o.provider, "provider", "", "who answers: "+strings.Join(names(), ", "))
	f.StringVar(&o.model, "model", "", "the provider's `id` of the model")
	f.BoolVar(&o.reasoning, "reasoning", false,
		"ask the model for its reasoning, or a summary of it; not every model can")
	f.DurationVar(&o.step, "step", 3*time.Second,
		"how long each of the three steps of a deployment takes")
	f.Usage = func() {
		fmt.Fprint(f.Output(), usage)
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return o, err // which was shown
	}
	if f.NArg() > 0 {
		err := fmt.Errorf(
			"chat: there is no use for %q: messages are typed, or come by a pipe; -h tells "+
				"the flags", f.Arg(0))
		fmt.Fprintln(f.Output(), err)
		return o, err
	}
	if o.session == "" {
		o.session = "chat-" + strings.ToLower(rand.Text()[:6])
	}
	return o, nil
}

// again returns the flags with which a session goes on as it was, for a shell.
func (o options) again() string {
	all := "-session " + quoted(o.session)
	if o.file != defaultFile {
		all += " -file " + quoted(o.file)
	}
	if o.store != "" {
		all += " -store " + quoted(o.store)
	}
	if o.provider != "" {
		all += " -provider " + quoted(o.provider)
	}
	if o.model != "" {
		all += " -model " + quoted(o.model)
	}
	return all
}

// quoted returns a word in quotes for a command line, where it needs them.
func quoted(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:@+", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := start(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", words(err))
		os.Exit(1)
	}
}
