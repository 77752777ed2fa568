package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// How a firing is carried out. Its message has the firing's id, so that to send
// it again is no second firing: of all entries of the call, in all processes,
// one message stays.

// The tries of a firing that can't be sent.
const (
	atOnce    = 3 // in one entry
	maxTries  = 8 // entries
	firstWait = 10 * time.Second
	// passing is how many of them count, at most, where another process, or the
	// same one a while later, can send it.
	passing = 2
)

// fire carries out what is due, up to a firing that has to wait.
func (e *entry) fire(ctx context.Context) {
	st := &e.task.State
	for len(st.Due) > 0 {
		if !st.Again.IsZero() && st.Again.After(e.now) {
			return
		}
		var fate fate
		var err error
		f := st.Due[0]
		f.Error = ""
		for range atOnce {
			if fate, err = e.fireOne(ctx, &f); err == nil || isFinal(err) || ctx.Err() != nil {
				break
			}
		}
		if passes(err) || ctx.Err() != nil {
			st.Tries = min(st.Tries, passing)
		}
		switch {
		case err != nil && !isFinal(err) && st.Tries < maxTries:
			st.Again = e.now.Add(firstWait << st.Tries)
			st.Tries++
			st.Due[0].Error = err.Error()
			e.log("a schedule can't fire, and tries again", err)
			return
		case err != nil:
			f.Error = err.Error()
			st.done(f)
			e.log("a schedule could not fire", err)
		case fate == waits:
			st.Waits = true
			return
		case fate == skipped:
			st.Skipped++
			st.drop()
		default:
			st.done(f)
		}
	}
}

// log tells of a firing that could not be sent.
func (e *entry) log(what string, err error) {
	e.rn.Logger().Warn(what, "schedule", e.schedule.ID, "agent", e.schedule.Do.Agent, "error", err)
}

// fate is what becomes of a firing that is due.
type fate int

const (
	sent fate = iota
	skipped
	waits // for the run of the one before
)

// fireOne sends the message of a firing, if it is time for that, and sets where
// to.
func (e *entry) fireOne(ctx context.Context, f *Firing) (fate, error) {
	s := &e.schedule
	f.Session = s.Do.Session
	before := f.Session
	if f.Session == "" {
		if f.Session = f.ID; e.task.State.Last != nil {
			before = e.task.State.Last.Session
		}
	}
	queues := s.Overlap == OverlapWait && s.Do.Session != ""
	if before != "" && s.Overlap != OverlapAllow && !queues {
		if was, err := e.wasSent(ctx, f); was || err != nil {
			return sent, err
		}
		busy, err := e.atWork(ctx, before)
		switch {
		case err != nil:
			return sent, err
		case busy && s.Overlap == OverlapWait:
			return waits, nil
		case busy && s.Overlap == OverlapSkip:
			return skipped, nil
		case busy:
			err = e.rn.CancelSession(ctx, before, e.actor(), "the schedule "+s.ID+" fires again")
			if err != nil && !isGone(err) {
				return sent, err
			}
		}
	}
	o := &runner.SendOptions{Agent: s.Do.Agent, MessageID: f.ID}
	_, err := e.rn.Send(ctx, s.User, f.Session, s.Do.Message, o)
	if errors.Is(err, session.ErrMessageConflict) { // it was sent before the schedule was changed
		err = nil
	}
	return sent, err
}

// wasSent reports whether an earlier entry has sent the message: then it is
// that run which goes on.
func (e *entry) wasSent(ctx context.Context, f *Firing) (bool, error) {
	_, err := e.rn.Sent(ctx, f.Session, f.ID, e.actor())
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, session.ErrUnknownMessage) || errors.Is(err, session.ErrUnknownSession):
		return false, nil
	}
	return false, err
}

// atWork reports whether a run of a session goes on, or waits. If a firing waits
// for it, the call is told of its end.
func (e *entry) atWork(ctx context.Context, id string) (bool, error) {
	if e.schedule.Overlap == OverlapWait {
		over, err := e.rn.TellEnd(ctx, id,
			runner.EndEvent{Session: e.call.Session, Event: eventEnded}, e.actor())
		if isGone(err) {
			return false, nil
		}
		return err == nil && !over, err
	}
	s, err := e.rn.Session(ctx, id, e.actor())
	switch {
	case isGone(err):
		return false, nil
	case err != nil:
		return false, err
	}
	switch s.Finish {
	case "", event.FinishPaused, event.FinishDelayed:
		return true, nil
	}
	return false, nil
}

func isGone(err error) bool {
	return errors.Is(err, session.ErrUnknownSession) || errors.Is(err, session.ErrDeleted)
}

// isFinal reports whether a message that was refused so is refused for good.
func isFinal(err error) bool {
	for _, why := range []error{session.ErrDeleted, session.ErrWrongUser, session.ErrInvalidMessage,
		session.ErrInvalidID, session.ErrChild} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}

// passes reports whether an error is that of the store, or of this process, and
// not of the message.
func passes(err error) bool {
	for _, why := range []error{session.ErrNewerVersion, session.ErrNoAnswer, runner.ErrClosed,
		runner.ErrUnknownAgent} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}
