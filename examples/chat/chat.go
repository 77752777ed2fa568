package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// user is the user of all sessions, and the actor of all answers.
const user = "you"

// chat is one session on one screen. One goroutine at a time drives the
// session, so that the screen shows one run at a time. That is the goroutine of
// talk for a line that the person typed. While talk waits for a line, a worker
// carries on what was delivered and what is overdue. Only the goroutine of talk
// touches the fields; the worker sends it what happens.
type chat struct {
	rn      *runner.Runner
	session string
	where   string // the session is kept
	again   string // the flags that go on with the session
	screen  *screen
	show    *display
	model   model
	asking  string // the pause whose question is on the screen
}

// talk reads lines and does what they ask for, until the person leaves.
func (c *chat) talk(ctx context.Context) error {
	defer c.leave(context.WithoutCancel(ctx))
	if err := c.begin(ctx); err != nil {
		return err
	}
	for {
		question, line, err := c.attend(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return ignore(err, ctx.Err())
		}
		c.screen.Took()
		if leave := c.take(ctx, question, line); leave {
			return nil
		}
	}
}

// attend asks the first question that waits, and shows what happens, until a
// line comes. The error is io.EOF if there are no more. When attend returns,
// the worker has stopped.
func (c *chat) attend(ctx context.Context) (question *tool.Pause, line string, err error) {
	working, stop := context.WithCancel(ctx)
	happens := c.work(working)
	defer func() {
		stop()
		for h := range happens {
			c.see(working, h.event, h.err)
		}
	}()
	for driving := false; ; {
		lines := c.screen.Lines
		if driving {
			lines = nil // no line is taken before the drive is done
		} else {
			waiting, err := c.pending(ctx)
			if err != nil {
				return nil, "", err
			}
			question = c.ask(waiting)
		}
		select {
		case line, more := <-lines:
			if !more {
				return nil, "", io.EOF
			}
			return question, line, nil
		case h := <-happens:
			c.see(ctx, h.event, h.err)
			switch h.event.(type) {
			case nil, event.End:
				driving = false
			case event.Progress:
			default:
				driving = true
			}
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
}

// happening is an event, or an error.
type happening struct {
	event event.Event
	err   error
}

// work carries the session on, and follows the progress of waiting calls, until
// ctx ends. Its goroutines send to the channel, and close it when they have
// ended; the caller receives until then.
func (c *chat) work(ctx context.Context) <-chan happening {
	happens := make(chan happening)
	var all sync.WaitGroup
	all.Go(func() {
		err := c.rn.Work(ctx, &runner.WorkOptions{
			Session: c.session,
			OnEvent: func(_ string, ev event.Event, err error) { happens <- happening{ev, err} },
		})
		if ctx.Err() == nil {
			happens <- happening{nil, err}
		}
		<-ctx.Done() // the channel stays open until ctx ends
	})
	all.Go(func() {
		// Follow is for progress alone: the worker sends all else. There may be
		// no session yet.
		for ev := range c.rn.Follow(ctx, c.session, user,
			&runner.FollowOptions{From: math.MaxInt, ThroughWaits: true}) {
			if p, ok := ev.(event.Progress); ok {
				happens <- happening{p, nil}
			}
		}
	})
	go func() { all.Wait(); close(happens) }()
	return happens
}

// begin shows where the session stands, and goes on with the work that remains:
// answers that were delivered meanwhile, a run that was interrupted or failed.
func (c *chat) begin(ctx context.Context) error {
	c.show.Say("Model: %s.", c.model.name)
	t, err := c.rn.Show(ctx, c.session, user)
	if errors.Is(err, session.ErrUnknownSession) {
		c.show.Say("Session: %s, a new one, kept in %s. /help tells what can be typed.",
			c.session, c.where)
		return nil
	}
	if err != nil {
		return err
	}
	c.show.Say("Session: %s, with %s.", c.session, count(t.Messages, "message"))
	for _, p := range t.Pending {
		c.show.Line("kept", "%s", waits(p))
	}
	if t.Finish != event.FinishStop {
		c.carryOn(ctx, c.rn.Continue(ctx, c.session, user))
	}
	return nil
}

// take does what a line asks for. It reports whether the person wants to leave.
func (c *chat) take(ctx context.Context, question *tool.Pause, line string) (leave bool) {
	switch {
	case strings.TrimSpace(line) == "":
	case line[0] == '/':
		return c.command(ctx, line)
	case question != nil:
		c.answer(ctx, *question, line)
	default:
		c.carryOn(ctx, c.rn.Run(ctx, user, c.session, llm.UserText(line), nil))
	}
	return false
}

// carryOn shows what happens in the session until the model is done, or calls
// wait.
func (c *chat) carryOn(ctx context.Context, events iter.Seq2[event.Event, error]) {
	for ev, err := range events {
		c.see(ctx, ev, err)
	}
}

// see shows an event, or an error.
func (c *chat) see(ctx context.Context, ev event.Event, err error) {
	if err != nil {
		c.fail(ctx, err)
		return
	}
	if end, ok := ev.(event.End); ok {
		c.end(end)
		return
	}
	c.show.Event(ev)
}

func (c *chat) end(e event.End) {
	switch e.Finish {
	case event.FinishStop:
		c.show.Usage(e.Usage)
	case event.FinishPaused: // the pauses were shown
	case event.FinishElsewhere: // the worker was stopped, and what is left goes on in a moment
	case event.FinishFailed: // the error was shown
	case event.FinishDelayed:
		c.show.Line("kept",
			"the model is asked again at %s: %s", e.Until.Format(time.RFC1123), e.Why)
	case event.FinishInterrupted:
		c.show.Line("kept", "the run is interrupted, and goes on when the session does")
	case event.FinishRefusal:
		c.show.Line("ends", "the model declines to answer")
	case event.FinishLength:
		c.show.Line("ends", "the model's answer was cut off by its limit of tokens")
		c.show.Usage(e.Usage)
	case event.FinishOther:
		c.show.Line("ends", "the model stopped: %s", e.Why)
		c.show.Usage(e.Usage)
	default:
		c.show.Line("ends", "%s; /retry goes on", e.Finish)
	}
}

// fail shows an error. The session stands as it did, and goes on.
func (c *chat) fail(ctx context.Context, err error) {
	if ignore(err, ctx.Err()) != nil {
		c.show.Line("error", "%s", explain(err, c.model))
	}
}

// ignore returns err, or nil if it comes of the person's leaving.
func ignore(err, leaving error) error {
	if leaving != nil && errors.Is(err, leaving) {
		return nil
	}
	return err
}

// pending returns the open pauses of this session.
func (c *chat) pending(ctx context.Context) (all []tool.Pause, err error) {
	for p, err := range c.rn.Pending(ctx, session.PauseFilter{Session: c.session}, user) {
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// leave shows what is kept.
func (c *chat) leave(ctx context.Context) {
	if err := c.screen.Leave(); err != nil {
		c.fail(ctx, err)
	}
	t, err := c.rn.Show(ctx, c.session, user)
	if errors.Is(err, session.ErrUnknownSession) {
		return // nothing was said
	}
	if err != nil {
		c.fail(ctx, err)
	}
	c.show.Say("Kept: %s and %s. Go on with: go run ./examples/chat %s",
		count(t.Messages, "message"), count(len(t.Pending), "waiting call"), c.again)
}
