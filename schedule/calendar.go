package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/xid"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/schema"
	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// Calendar is the schedules of a store. Workers fire them, of runners that have
// the [Agent]. A method that changes a schedule carries it to its next pause if
// no worker does so just then; what is due fires by that, too.
type Calendar struct{ rn *runner.Runner }

// New returns the schedules of a runner's store. The runner has the [Agent]
// among its Options.Agents.
func New(rn *runner.Runner) *Calendar { return &Calendar{rn} }

var (
	// ErrExists refuses to create a schedule under the ID of another one.
	ErrExists = errors.New("schedule: there is another one of that ID")
	// ErrUnknown refuses what is asked of a schedule that isn't there.
	ErrUnknown = errors.New("schedule: there is none of that ID")
	// ErrOver refuses to change, run, pause or resume a schedule that is over.
	ErrOver = errors.New("schedule: it is over; another At or Cron needs another ID")
	// ErrDeleted refuses to create a schedule under the ID of one that was
	// deleted. Firings are named by the ID, so it can't be used again while
	// session.Retention.Tombstones keeps it.
	ErrDeleted = errors.New("schedule: the one of that ID was deleted")
)

// sessionPrefix begins the ids of the sessions that are schedules.
const sessionPrefix = "schedule:"

// SessionID returns the id of the session that is a schedule: for Follow, or
// Show.
func SessionID(schedule string) string { return sessionPrefix + schedule }

// Create stores a schedule; its nominal times count from then on. One that is
// there already is left as it is, if it is equal, or was created equal.
// Otherwise the error is an [ErrExists], or an [ErrDeleted]. The ErrExists of
// another user's ID is a session.ErrWrongUser, too. An agent that the runner
// doesn't have is an [ErrInvalid], and so is a new schedule whose Until leaves
// it no time.
func (c *Calendar) Create(ctx context.Context, s Schedule) error {
	if err := c.check(s); err != nil {
		return err
	}
	if err := c.begins(ctx, s); err != nil {
		return err
	}
	own, err := s.stored()
	if err != nil {
		return err
	}
	text, err := strictjson.Append(nil, &task{stored: own})
	if err != nil {
		return fmt.Errorf("schedule: %q can't be stored: %w", s.ID, err)
	}
	_, err = c.rn.Send(ctx, s.User, SessionID(s.ID), llm.UserText(string(text)), &runner.SendOptions{
		Agent: AgentName, MessageID: "create", While: runner.WhileRefuse, Hidden: true,
	})
	switch {
	case errors.Is(err, session.ErrDeleted):
		return fmt.Errorf("%w: %q; take another ID, or pause a schedule in place of deleting it: %w",
			ErrDeleted, s.ID, err)
	case errors.Is(err, session.ErrWrongUser):
		return fmt.Errorf("%w: %q, of another user; take another ID: %w", ErrExists, s.ID, err)
	case !errors.Is(err, session.ErrMessageConflict):
		return keeper(err)
	}
	is, err := c.read(ctx, s.ID, runner.Actor(s.User))
	if err != nil {
		return err
	}
	if same, err := own.equals(&is.stored); same || err != nil {
		return err
	}
	return fmt.Errorf("%w: %q", ErrExists, s.ID)
}

// Put has a schedule be there as it is given: it creates it, or changes the one
// of its ID. It is safe to call each time that a program starts. One that was
// deleted stays so, with an [ErrDeleted]. One that is over stays over: to change
// it is an [ErrOver].
func (c *Calendar) Put(ctx context.Context, s Schedule, actor runner.Actor) error {
	err := c.Create(ctx, s)
	if !errors.Is(err, ErrExists) || errors.Is(err, session.ErrWrongUser) {
		return err
	}
	return c.Change(ctx, s, actor)
}

// Change makes a schedule another one, of the same ID and User. If it fires at
// other times, those count from then on. What waits to be fired is still fired.
// An equal change is no change.
func (c *Calendar) Change(ctx context.Context, s Schedule, actor runner.Actor) error {
	if err := c.check(s); err != nil {
		return err
	}
	own, err := s.stored()
	if err != nil {
		return err
	}
	payload, err := strictjson.Append(nil, &own)
	if err != nil {
		return fmt.Errorf("schedule: %q can't be stored: %w", s.ID, err)
	}
	is, err := c.Show(ctx, s.ID, actor)
	if err != nil {
		return err
	}
	if is.Schedule.User != s.User {
		return fmt.Errorf("%w: %q is of another user", ErrInvalid, s.ID)
	}
	return c.tell(ctx, s.ID, eventChange, "", payload, actor)
}

// begins returns why a schedule would be over at once, if it is a new one. One
// that is there may be over: it is put at each start of its program.
func (c *Calendar) begins(ctx context.Context, s Schedule) error {
	if s.Cron == "" {
		return nil
	}
	if next, err := s.Next(c.rn.Now()); err != nil || !next.IsZero() {
		return err
	}
	_, err := c.rn.Session(ctx, SessionID(s.ID), runner.Actor(s.User))
	if !errors.Is(err, session.ErrUnknownSession) {
		return nil // Create tells what it is
	}
	return fmt.Errorf("%w: %q would be over at once: no time of its Cron is left until its Until, %v",
		ErrInvalid, s.ID, s.Until)
}

// check returns what is wrong with a schedule. A runner that has the [Agent] has
// the agents that schedules name: whichever worker fires one has them.
func (c *Calendar) check(s Schedule) error {
	if err := s.Check(); err != nil {
		return err
	}
	agents := c.rn.Agents()
	if slices.Contains(agents, s.Do.Agent) {
		return nil
	}
	hint := ""
	if near, ok := schema.Nearest(s.Do.Agent, agents); ok {
		hint = fmt.Sprintf(" (did you mean %q?)", near)
	}
	return fmt.Errorf("%w: %q: the runner has no agent %q%s", ErrInvalid, s.ID,
		excerpt.Of(s.Do.Agent), hint)
}

// Pause keeps a schedule from firing until [Calendar.Resume]. What is due
// meanwhile is left out, but for the one firing of a schedule with At.
func (c *Calendar) Pause(ctx context.Context, id string, actor runner.Actor) error {
	return c.tell(ctx, id, eventPause, "", nil, actor)
}

// Resume has a schedule fire again.
func (c *Calendar) Resume(ctx context.Context, id string, actor runner.Actor) error {
	return c.tell(ctx, id, eventResume, "", nil, actor)
}

// RunOptions configure one RunNow. Nil means the defaults.
type RunOptions struct {
	// Once makes it safe to repeat: of equal ones the schedule fires once, as
	// long as the session is kept in which it has fired, and the schedule isn't
	// changed to another Target.Session. Empty: each call fires.
	Once string
}

// RunNow fires a schedule once more, beside its nominal times, also while it is
// paused.
func (c *Calendar) RunNow(
	ctx context.Context, id string, actor runner.Actor, o *RunOptions,
) error {
	once := ""
	if o != nil {
		once = o.Once
	}
	if strings.ContainsAny(once, "@") || len(once) > maxOnce {
		return fmt.Errorf("%w: %q: RunOptions.Once has to be %d bytes at most, without @",
			ErrInvalid, id, maxOnce)
	}
	if once != "" {
		is, err := c.Show(ctx, id, actor)
		if err != nil {
			return err
		}
		// The call that took the first one may have been followed by others.
		firing := runID(id, once)
		where := cmp.Or(is.Schedule.Do.Session, firing)
		if _, err := c.rn.Sent(ctx, where, firing, actor); err == nil && !is.Over {
			return nil
		} // or else it isn't known, and is fired
	}
	return c.tell(ctx, id, eventRun, once, nil, actor)
}

// maxOnce is so that ids of firings are ids of sessions.
const maxOnce = 48

// Delete deletes a schedule. The sessions that it has begun go on.
func (c *Calendar) Delete(ctx context.Context, id string, actor runner.Actor) error {
	return unknown(id, c.rn.Delete(ctx, SessionID(id), actor))
}

// tell delivers an event to the call of a schedule. Where that is being followed
// by another one, the event is for that.
func (c *Calendar) tell(
	ctx context.Context, id, event, eventID string, payload json.RawMessage, actor runner.Actor,
) error {
	if payload == nil {
		payload = json.RawMessage("null")
	}
	if eventID == "" {
		eventID = xid.New().String()
	}
	for range tellTries {
		call, err := c.call(ctx, id, actor)
		if err != nil {
			return err
		}
		_, err = c.rn.Deliver(ctx, SessionID(id), runner.Mail{
			Call: call, Name: event, ID: eventID, Payload: payload, Actor: actor,
		})
		if !errors.Is(err, session.ErrSettled) && !errors.Is(err, session.ErrUnknownCall) {
			return unknown(id, err)
		}
	}
	return fmt.Errorf("schedule: %q changes too fast; try again", id)
}

// tellTries is how many calls of a schedule may end before one of them is told.
const tellTries = 5

// keeper adds what to do to the error of a runner that doesn't have the [Agent].
func keeper(err error) error {
	if errors.Is(err, runner.ErrUnknownAgent) {
		return fmt.Errorf("schedule: add schedule.Agent() to runner.Options.Agents: %w", err)
	}
	return err
}

// unknown turns the error of a session that isn't there into that of a schedule.
func unknown(id string, err error) error {
	if isGone(err) {
		return fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	return err
}
