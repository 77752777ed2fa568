package handle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/internal/process"
)

// running is the body of a command with pipes. Its goroutines read what the
// program writes, and wait for its end; all of them end with it.
type running struct {
	protocol bool
	process  *process.Process

	stdin   *os.File      // nil on a start that failed
	writing chan struct{} // holds the turn to write to stdin
	reading sync.WaitGroup
	sources []*os.File

	changed chan struct{} // has room for one: there is something new

	mu       sync.Mutex // guards what follows
	fresh    ends       // what Next hasn't returned
	all      ends
	question *Question        // what the program waits for
	asked    int              // questions so far
	known    map[string]bool  // their ids
	early    map[string]Input // answers to questions that are to come, by their ids
	news     bool             // question has changed since Next
	said     *outcome         // what the program said that it came to
	ended    bool
	overdue  *time.Timer // stops a program that said so, and goes on
}

// outcome is what a program said that it came to.
type outcome struct {
	ended   Ended
	failure *Failure
}

// drainBound is how long output is awaited when a program's group is gone: a
// process that left the group may hold the pipe for ever.
const drainBound = time.Second

func newRunning(o CommandOptions) *running {
	r := &running{protocol: o.Protocol, fresh: ends{most: o.MaxOutput}, all: ends{most: o.MaxOutput},
		changed: make(chan struct{}, 1), writing: make(chan struct{}, 1)}
	r.writing <- struct{}{}
	return r
}

// start starts the program with pipes, and the goroutines.
func (r *running) start(ctx context.Context, l *process.Launcher, p process.Program) (err error) {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			r.closePipes()
		}
	}()
	in, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	r.stdin, theirs = ours, append(theirs, in)
	p.Files[0] = in
	for i := 1; i <= 2; i++ {
		if i == 2 && !r.protocol { // one pipe keeps their order
			p.Files[2] = p.Files[1]
			break
		}
		ours, out, err := os.Pipe()
		if err != nil {
			return err
		}
		r.sources, theirs = append(r.sources, ours), append(theirs, out)
		p.Files[i] = out
	}
	if r.process, err = l.Start(ctx, p); err != nil {
		return err
	}
	for i, source := range r.sources {
		var to io.Writer = (*content)(r)
		if r.protocol && i == 0 {
			to = &lines{said: r.hear, other: to}
		}
		r.reading.Go(func() { read(source, to) })
	}
	go r.finish()
	return nil
}

func (r *running) closePipes() {
	if r.stdin != nil {
		_ = r.stdin.Close()
	}
	for _, source := range r.sources {
		_ = source.Close()
	}
}

// read copies until the end, or until the source is closed.
func read(source io.Reader, to io.Writer) {
	_, _ = io.Copy(to, source)
	if c, ok := to.(io.Closer); ok {
		_ = c.Close()
	}
}

// content adds what is written to it to the content. It never fails.
type content running

func (c *content) Write(p []byte) (int, error) {
	r := (*running)(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.fresh.Write(p)
	_, _ = r.all.Write(p)
	r.tell()
	return len(p), nil
}

// tell wakes Next.
func (r *running) tell() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// finish waits for the end of the program, its group, and its output.
func (r *running) finish() {
	<-r.process.Done()
	_ = r.stdin.Close()
	drained := time.AfterFunc(drainBound, func() {
		for _, source := range r.sources {
			_ = source.Close()
		}
	})
	r.reading.Wait()
	drained.Stop()
	r.closePipes()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.overdue != nil {
		r.overdue.Stop()
	}
	r.ended = true
	r.tell()
}

// Next returns what is new.
func (r *running) Next(ctx context.Context) (Update, error) {
	for {
		if u, ok, err := r.next(); ok || err != nil {
			return u, err
		}
		select {
		case <-r.changed:
		case <-ctx.Done():
			return Update{}, context.Cause(ctx)
		}
	}
}

func (r *running) next() (u Update, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u = Update{Content: r.fresh.take(!r.ended), Question: r.question}
	ok, r.news = u.Content != "" || r.news, false
	if r.ended && !ok {
		r.tell() // for a further Next
		err = io.EOF
	}
	return u, ok, err
}

// hear takes what a program that speaks the protocol said.
func (r *running) hear(m message) {
	if m.content != "" {
		_, _ = (*content)(r).Write([]byte(m.content))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.said != nil: // the first one counts
	case m.outcome != nil:
		r.said = m.outcome
		r.news, r.question = r.news || r.question != nil, nil
		r.overdue = time.AfterFunc(DefaultGrace, func() { r.process.Stop(DefaultGrace) })
		r.tell()
	default:
		if m.question != nil {
			if r.asked++; m.question.ID == "" {
				m.question.ID = madeID(r.asked)
			}
			r.asks(m.question.ID)
		}
		r.news, r.question = r.news || r.question != nil || m.question != nil, m.question
		r.tell()
	}
}

// madeID returns the id of a question that was asked without one, by its number.
func madeID(number int) string { return fmt.Sprintf("question %d", number) }

// greet writes the first line that a program reads.
func (r *running) greet(s Start) {
	<-r.writing
	go func() {
		defer func() { r.writing <- struct{}{} }()
		answers := s.Answers
		if answers == nil {
			answers = []Answer{}
		}
		first, err := line(startLine{"start", s.Call.Arguments, answers})
		if err == nil { // a program need not read it
			_, _ = r.stdin.Write(first)
		}
	}()
}

// Input writes an input, or closes the standard input.
func (r *running) Input(ctx context.Context, in Input) error {
	select {
	case <-r.writing:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { r.writing <- struct{}{} }()
	if in.Value == nil {
		_ = r.stdin.Close() // perhaps again
		return nil
	}
	text, end, err := r.written(in)
	if err != nil {
		return err
	}
	_, err = r.stdin.Write(text)
	if end {
		_ = r.stdin.Close()
	}
	if err != nil {
		return errors.New("the program takes no input any more")
	}
	return nil
}

// Stop ends the program and its group.
func (r *running) Stop(grace time.Duration) { r.process.Stop(grace) }

// Result returns what the program came to.
func (r *running) Result() (Ended, error) {
	state, err := r.process.State()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.said != nil && r.said.failure != nil:
		return Ended{}, r.said.failure
	case r.said != nil:
		return r.said.ended, nil
	case err != nil:
		return Ended{}, endError(err)
	}
	output, left := r.all.text()
	return exited(state, output, left)
}

// exited returns the result of a program that has ended.
func exited(state *os.ProcessState, output string, left int) (Ended, error) {
	exit := Exit{ExitCode: state.ExitCode(), Output: output, LeftOut: left}
	if exit.ExitCode < 0 {
		exit.Signal = strings.TrimPrefix(state.String(), "signal: ")
	}
	text, err := json.Marshal(exit)
	return Ended{Output: text}, err
}

func endError(err error) error {
	return fmt.Errorf("the program ran, and its end is not known: %w", err)
}
