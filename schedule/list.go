package schedule

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// Standing is a schedule as it stands.
type Standing struct {
	Schedule Schedule  `json:"schedule"`
	Paused   bool      `json:"paused,omitzero"`
	Over     bool      `json:"over,omitzero"` // it will never fire again by itself
	Next     time.Time `json:"next,omitzero"` // the next nominal time; zero: none is known
	// Fired counts the firings that were sent, Skipped those that were left out
	// (all that one stands for as one), and Failed those that could not be sent.
	Fired   int      `json:"fired"`
	Skipped int      `json:"skipped"`
	Failed  int      `json:"failed"`
	Last    *Firing  `json:"last,omitzero"` // sent, or failed
	Due     []Firing `json:"due,omitempty"` // what waits, or is tried again
}

// Filter picks schedules.
type Filter struct {
	User  string // empty: of all users
	After string // leaves out those up to that ID: the last one of the page before
	Limit int    // 0: no limit
}

// List lists schedules by ID. One that can't be read is an error in its place.
func (c *Calendar) List(
	ctx context.Context, f Filter, actor runner.Actor,
) iter.Seq2[Standing, error] {
	return func(yield func(Standing, error) bool) {
		n := 0
		all := c.rn.Sessions(ctx, session.Filter{
			User: f.User, Agent: AgentName, After: SessionID(f.After),
		}, actor)
		for s, err := range all {
			switch {
			case err != nil:
				if !yield(Standing{}, err) {
					return
				}
				continue
			case !strings.HasPrefix(s.ID, sessionPrefix):
				if s.ID > sessionPrefix {
					return
				}
				continue
			}
			is, err := c.Show(ctx, strings.TrimPrefix(s.ID, sessionPrefix), actor)
			if errors.Is(err, ErrUnknown) { // it was deleted just now
				continue
			}
			if n++; !yield(is, err) || n == f.Limit {
				return
			}
		}
	}
}

// Show returns a schedule as it stands.
func (c *Calendar) Show(ctx context.Context, id string, actor runner.Actor) (Standing, error) {
	is, err := c.read(ctx, id, actor)
	if err != nil {
		return Standing{}, err
	}
	s, err := is.schedule()
	if err != nil {
		return Standing{}, unread(id, err)
	}
	st := &is.State
	if !st.Begun && !is.Over {
		t, err := s.times()
		if err != nil {
			return Standing{}, unread(id, err)
		}
		st.collect(&s, &t, time.Time{})
	}
	return Standing{
		Schedule: s, Paused: st.Paused, Over: is.Over,
		Next: st.Next, Fired: st.Fired, Skipped: st.Skipped, Failed: st.Failed,
		Last: st.Last, Due: st.Due,
	}, nil
}

// read reads how a schedule stands: as its pause keeps it, or has kept it until
// just now, or else as its last call was asked for, or has returned.
func (c *Calendar) read(ctx context.Context, id string, actor runner.Actor) (is task, err error) {
	p, err := c.pause(ctx, id, actor)
	if err != nil {
		return is, err
	}
	if p != nil {
		if is, _, err = readTask(p.Arguments); err == nil {
			is.State = state{}
			err = strictjson.Read(p.Await.Data, &is.State)
		}
		return is, unread(id, err)
	}
	t, err := c.rn.Show(ctx, SessionID(id), actor)
	if err != nil {
		return is, unknown(id, err)
	}
	for i := len(t.History) - 1; i >= 0; i-- {
		if text := written(t.History[i]); len(text) > 0 {
			is, _, err = readTask(text)
			break
		}
	}
	for _, call := range t.Calls {
		if err == nil && len(call.Kept) > 0 {
			is.State = state{}
			err = strictjson.Read(call.Kept, &is.State)
		}
	}
	if is.Over = is.Over || over(t.Finish); !is.State.Begun {
		is.State.From = t.Created
	}
	return is, unread(id, err)
}

// pause returns the pause in which a schedule sleeps, or nil: it does something
// just now, or is over.
func (c *Calendar) pause(
	ctx context.Context, id string, actor runner.Actor,
) (found *tool.Pause, err error) {
	for p, err := range c.rn.Pending(ctx, session.PauseFilter{Session: SessionID(id)}, actor) {
		if err != nil {
			return nil, unknown(id, err)
		}
		if p.Tool == toolName {
			return &p, nil
		}
	}
	return nil, nil
}

func unread(id string, err error) error {
	if err != nil {
		return fmt.Errorf("schedule: %q can't be read: %w", id, err)
	}
	return nil
}

// over reports whether a schedule's run that ended so goes on no more.
func over(f event.Finish) bool {
	return f != "" && f != event.FinishPaused && f != event.FinishDelayed
}

// written returns the task that a message has.
func written(m llm.Message) []byte {
	if m.Role == llm.RoleUser {
		return []byte(m.Text())
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.ToolCall:
			return p.Arguments
		case llm.ToolResult:
			if !p.Error {
				return p.Output
			}
		}
	}
	return nil
}

// call returns the id of a schedule's open call. It waits until there is one.
func (c *Calendar) call(ctx context.Context, id string, actor runner.Actor) (string, error) {
	for {
		p, err := c.pause(ctx, id, actor)
		switch {
		case err != nil:
			return "", err
		case p != nil:
			return p.Call, nil
		}
		t, err := c.rn.Show(ctx, SessionID(id), actor)
		switch {
		case err != nil:
			return "", unknown(id, err)
		case len(t.Calls) > 0 && t.Calls[0].Status != session.CallSettled:
			return t.Calls[0].Call, nil
		case over(t.Finish):
			return "", fmt.Errorf("%w: %q", ErrOver, id)
		}
		if err := c.carryOn(ctx, id, actor); err != nil {
			return "", err
		}
	}
}

// carryOn has a schedule get to its next pause: a worker may not have come to
// it, or be about to.
func (c *Calendar) carryOn(ctx context.Context, id string, actor runner.Actor) error {
	var end event.End
	for ev, err := range c.rn.Drive(ctx, SessionID(id), actor) {
		if err != nil && !errors.Is(err, session.ErrBusy) {
			return keeper(unknown(id, err))
		}
		if e, ok := ev.(event.End); ok {
			end = e
		}
	}
	if end.Finish != event.FinishElsewhere {
		return nil
	}
	for _, err := range c.rn.Follow(ctx, SessionID(id), actor, nil) {
		if err != nil {
			return unknown(id, err)
		}
	}
	return nil
}
