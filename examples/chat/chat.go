package main

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// user is whose sessions these are, and who answers.
const user = "you"

// chat is one session on one screen. Whatever drives the session, drives it from here, one thing at a time, so that the screen shows one
// thing at a time. A service would have runner.Work carry on all sessions in the background.
type chat struct {
	rn      *runner.Runner
	session string
	file    string
	screen  *screen
	show    *display
	model   model
	news    <-chan struct{} // something was delivered to some call that waits
	asking  string          // the pause whose question is on the screen
	open    map[string]bool // the calls that were shown to wait, and whose results were not shown
}

// talk ends when the person leaves.
func (c *chat) talk(ctx context.Context) error {
	defer c.leave(context.WithoutCancel(ctx))
	if err := c.begin(ctx); err != nil {
		return err
	}
	for {
		waiting, err := c.pending(ctx)
		if err != nil {
			return ignore(err, ctx.Err())
		}
		question := c.ask(waiting)
		select {
		case line, more := <-c.screen.Lines:
			if !more {
				return nil
			}
			c.screen.Took()
			if leave := c.take(ctx, question, line); leave {
				return nil
			}
		case <-c.news:
			c.look(ctx)
		case <-overdue(waiting):
			c.carryOn(ctx, c.rn.Continue(ctx, c.session))
		case <-ctx.Done():
			return nil
		}
	}
}

// begin shows where the session stands, and goes on with what it has left to do: what was delivered meanwhile, what was interrupted,
// what failed.
func (c *chat) begin(ctx context.Context) error {
	c.show.Say("Model: %s.", c.model.name)
	t, err := c.rn.Show(ctx, c.session)
	if errors.Is(err, session.ErrUnknownSession) {
		c.show.Say("Session: %s, a new one. /help tells what can be typed.", c.session)
		return nil
	}
	if err != nil {
		return err
	}
	c.show.Say("Session: %s, with %s.", c.session, count(t.Messages, "message"))
	for _, p := range t.Pending {
		c.open[p.Call] = true
		c.show.Line("kept", "%s", waits(p))
	}
	if t.Finish != event.FinishStop {
		c.carryOn(ctx, c.rn.Continue(ctx, c.session))
	}
	return nil
}

// take does what a line says, and says whether it is to leave.
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

// carryOn shows what happens in the session until the model is done, or calls wait.
func (c *chat) carryOn(ctx context.Context, events iter.Seq2[event.Event, error]) {
	for call := range c.open { // a failure, a cancellation or a deadline ends a call by itself, and is no event of what follows
		if s, err := c.rn.Call(ctx, c.session, call); err == nil && s.Status == session.Settled {
			c.show.Result(s.Tool, s.Output, s.Settled)
			delete(c.open, call)
		}
	}
	for ev, err := range events {
		if err != nil {
			c.fail(ctx, err)
			continue
		}
		switch ev := ev.(type) {
		case event.End:
			c.end(ev)
			continue
		case event.Pause:
			c.open[ev.Pause.Call] = true
		case event.Result:
			delete(c.open, ev.Result.Call)
		}
		c.show.Event(ev)
	}
}

func (c *chat) end(e event.End) {
	switch e.Finish {
	case event.FinishStop:
		c.show.Usage(e.Usage)
	case event.FinishPaused: // the pauses were shown
		for _, p := range e.Pending {
			c.progress(p)
		}
	case event.FinishFailed: // the error was shown
	case event.FinishInterrupted:
		c.show.Line("kept", "the run is interrupted, and goes on when the session does")
	case event.FinishRefusal:
		c.show.Line("ends", "the model declines to answer")
	case event.FinishLength:
		c.show.Line("ends", "the model's answer was cut off by its limit of tokens")
		c.show.Usage(e.Usage)
	default:
		c.show.Line("ends", "%s; /retry goes on", e.Finish)
	}
}

// look sees what was delivered, and goes on with it.
func (c *chat) look(ctx context.Context) {
	t, err := c.rn.Show(ctx, c.session)
	switch {
	case errors.Is(err, session.ErrUnknownSession): // it was for another session, which goes on when it is opened
		return
	case err != nil:
		c.fail(ctx, err)
		return
	}
	for _, p := range t.Pending {
		c.progress(p)
	}
	if t.Finish == "" { // there is something to do
		c.carryOn(ctx, c.rn.Continue(ctx, c.session))
	}
}

func (c *chat) progress(p tool.Pause) {
	if p.Progress != nil {
		c.show.Progress(p.Call, p.Tool, *p.Progress)
	}
}

// fail shows an error. The session stands as it did, and goes on.
func (c *chat) fail(ctx context.Context, err error) {
	if ignore(err, ctx.Err()) != nil {
		c.show.Line("error", "%s", explain(err, c.model))
	}
}

// ignore leaves the errors out that are there because the person leaves.
func ignore(err, leaving error) error {
	if leaving != nil && errors.Is(err, leaving) {
		return nil
	}
	return err
}

// pending lists what waits in this session.
func (c *chat) pending(ctx context.Context) (all []tool.Pause, err error) {
	for p, err := range c.rn.Pending(ctx, runner.Filter{Session: c.session}) {
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// overdue is when the first of the deadlines has passed, a second late: should that change nothing, it is not asked for in a loop.
func overdue(waiting []tool.Pause) <-chan time.Time {
	var first time.Time
	for _, p := range waiting {
		if !p.Deadline.IsZero() && (first.IsZero() || p.Deadline.Before(first)) {
			first = p.Deadline
		}
	}
	if first.IsZero() {
		return nil
	}
	return time.After(max(0, time.Until(first)) + time.Second)
}

// leave says what is kept.
func (c *chat) leave(ctx context.Context) {
	if err := c.screen.Leave(); err != nil {
		c.fail(ctx, err)
	}
	t, err := c.rn.Show(ctx, c.session)
	if errors.Is(err, session.ErrUnknownSession) {
		return // nothing was said
	}
	if err != nil {
		c.fail(ctx, err)
	}
	flags := "-session " + c.session
	if c.file != defaultFile {
		flags += " -file " + c.file
	}
	c.show.Say("Kept: %s and %s. Go on with: go run ./examples/chat %s", count(t.Messages, "message"), count(len(t.Pending), "waiting call"), flags)
}
