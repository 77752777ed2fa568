package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rs/xid"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// Calendar is the schedules of a store. It drives nothing: workers do, of
// runners that have the [Agent].
type Calendar struct{ rn *runner.Runner }

// New returns the schedules of a runner's store. The runner has the [Agent]
// among its Options.Agents.
func New(rn *runner.Runner) *Calendar { return &Calendar{rn} }

var (
	// ErrExists refuses to create a schedule under the ID of another one.
	ErrExists = errors.New("schedule: there is another one of that ID")
	// ErrUnknown refuses what is asked of a schedule that isn't there, or is over.
	ErrUnknown = errors.New("schedule: there is none of that ID, or it is over")
)

// sessionPrefix begins the ids of the sessions that are schedules.
const sessionPrefix = "schedule:"

// SessionID returns the id of the session that is a schedule: for Follow, or
// Show.
func SessionID(schedule string) string { return sessionPrefix + schedule }

// Create stores a schedule; its nominal times count from then on. It is safe to
// repeat: a schedule that is there already is left as it is, if it was created
// equal; otherwise the error is an [ErrExists], and [Calendar.Change] changes
// it. The ID of one that was deleted, or is over, can't be used again while
// session.Retention keeps it.
func (c *Calendar) Create(ctx context.Context, s Schedule) error {
	if err := s.Check(); err != nil {
		return err
	}
	text, err := strictjson.Append(nil, &task{stored: s.stored()})
	if err != nil {
		return fmt.Errorf("schedule: %q can't be stored: %w", s.ID, err)
	}
	_, err = c.rn.Send(ctx, s.User, SessionID(s.ID), llm.UserText(string(text)),
		&runner.SendOptions{Agent: AgentName, MessageID: "create", While: runner.WhileRefuse})
	if errors.Is(err, session.ErrMessageConflict) || errors.Is(err, session.ErrWrongUser) {
		return fmt.Errorf("%w: %q", ErrExists, s.ID)
	}
	return err
}

// Change makes a schedule another one, of the same ID and User. If it fires at
// other times, those count from then on. What waits to be fired is still fired.
// An equal change is no change.
func (c *Calendar) Change(ctx context.Context, s Schedule, actor runner.Actor) error {
	if err := s.Check(); err != nil {
		return err
	}
	own := s.stored()
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

// Pause keeps a schedule from firing until [Calendar.Resume]. What is due
// meanwhile is left out, but for the one firing of a schedule with At.
func (c *Calendar) Pause(ctx context.Context, id string, actor runner.Actor) error {
	return c.tell(ctx, id, eventPause, "", nil, actor)
}

// Resume has a schedule fire again.
func (c *Calendar) Resume(ctx context.Context, id string, actor runner.Actor) error {
	return c.tell(ctx, id, eventResume, "", nil, actor)
}

// RunNow fires a schedule once more, beside its nominal times, also while it is
// paused. Once makes it safe to repeat: of equal ones the schedule fires once,
// as long as the session is kept in which it has fired, and the schedule isn't
// changed to another Target.Session. Empty: each call fires.
func (c *Calendar) RunNow(ctx context.Context, id, once string, actor runner.Actor) error {
	if strings.ContainsAny(once, "@") || len(once) > maxOnce {
		return fmt.Errorf("%w: %q: the id of a run has to be %d bytes at most, without @",
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

// unknown turns the error of a session that isn't there into that of a schedule.
func unknown(id string, err error) error {
	if isGone(err) {
		return fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	return err
}
