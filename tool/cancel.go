package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/excerpt"
	"github.com/fermata-ai/fermata/internal/usererr"
)

// Cancel is what a tool does outside if a call of its own ends while it waits:
// it calls off the job that the body has begun. The call has its result by
// then. What Cancel does changes neither that nor what the model reads.
//
// It is for pauses that the tool itself asked for, and for those in which an
// operator is asked what became of the body. It is owed from the commit that
// ends such a pause, because the call, or its run, was cancelled, a deadline
// passed, a user's message superseded the call, or the session was deleted. It
// is not owed where the pause was answered, where the outside job failed, where
// a deadline enters the tool again, or at a layer's pause.
//
// It is carried out by any process that has the tool, whether or not a drive
// holds the session, and at least once: a process may die before it could note
// that it is done. What fails is tried again. After the last try it is given
// up, and listed by the runner until it is dismissed or tried once more.
type Cancel struct {
	// Do calls the job off. Nil: there is nothing to do. An error, or a panic,
	// is a failure, and so is a try that outlasts its time. A job that is over
	// already, or isn't known outside, is no error.
	Do func(context.Context, Cancelled) error
	// Timeout bounds each try; zero: 30 s.
	Timeout time.Duration
	// Tries is how often it is tried at most; zero: 12, which with the default
	// waits takes more than a day.
	Tries int
	// Wait is how long the second try waits after the first; zero: 10 s. Each
	// further wait is three times as long as the one before, 12 hours at most.
	Wait time.Duration
}

// Cancelled is a call that ended while it waited, as Cancel.Do sees it.
type Cancelled struct {
	// Call is the call as it was when its body asked for the pause: with the
	// arguments that ran, edited ones too, and the answer which that entry had
	// brought. So Call.IdempotencyKey is the key under which the body began the
	// job. It has neither events nor decisions.
	Call Call
	// Of the pause that ended. Reason is ReasonUnknown if an operator was asked
	// what became of the body. Then there is no Key, and perhaps no job.
	Number   int
	Reason   Reason
	Key      string
	Question string          // of a Resumable: its name
	Data     json.RawMessage // of a Resumable: see Question.Kept
	// How the call ended, by whom, why as that actor said, and when.
	Cause Cause
	Actor string
	Why   string
	At    time.Time
	Try   int // from 1
}

// Cause is why a call ended while it waited.
type Cause string

// The causes.
const (
	CauseCancelled Cause = "cancelled" // an actor cancelled the call
	// CauseRunEnded: its run was cancelled, or failed. The run of a nested agent
	// is cancelled as well if the call that the agent works for ends without it:
	// then Actor and Why are of that end ("deadline", where it has expired).
	CauseRunEnded   Cause = "run_ended"
	CauseExpired    Cause = "expired"    // the pause's deadline passed
	CauseSuperseded Cause = "superseded" // the user sent another message
	CauseDeleted    Cause = "deleted"    // the session was deleted
)

// IdempotencyKey returns a key for what Cancel.Do does outside. It is equal in
// all tries, and differs from the keys of the call's entries. With parts it
// names several effects.
func (c Cancelled) IdempotencyKey(parts ...string) string {
	return c.Call.keyOf("cancel", parts)
}

// Kept returns the state that was kept with the question which the call waited
// for. That it was this question, Cancelled.Question tells.
func (q *Question[Out, State, Choice]) Kept(c Cancelled) (s State, err error) {
	if q.err != nil {
		return s, q.err
	}
	if c.Question != q.name {
		return s, fmt.Errorf("the call waited for question %q, and not for %q",
			excerpt.Of(c.Question), q.name)
	}
	kept, err := q.state.Read(c.Data)
	if err != nil {
		return s, fmt.Errorf("the state that was stored with the question can't be read; %s: %w",
			sinceChanged, err)
	}
	return *kept, nil
}

// Clone returns a cancelled call that shares nothing with c which can be
// changed.
func (c Cancelled) Clone() Cancelled {
	c.Call, c.Data = c.Call.Clone(), bytes.Clone(c.Data)
	return c
}

// The bounds of Cancel where it says nothing.
const (
	cancelTimeout = 30 * time.Second
	cancelTries   = 12
	cancelWait    = 10 * time.Second
	maxCancelWait = 12 * time.Hour
)

// After returns how long the next try waits after so many that failed, and
// whether there is one.
func (c Cancel) After(tries int) (wait time.Duration, again bool) {
	c = c.normal()
	wait = c.Wait
	for range min(tries, 30) - 1 {
		wait = min(3*wait, maxCancelWait)
	}
	return min(wait, maxCancelWait), tries < c.Tries
}

// Bound returns how long one try may take.
func (c Cancel) Bound() time.Duration { return c.normal().Timeout }

func (c Cancel) normal() Cancel {
	if c.Timeout == 0 {
		c.Timeout = cancelTimeout
	}
	if c.Tries == 0 {
		c.Tries = cancelTries
	}
	if c.Wait == 0 {
		c.Wait = cancelWait
	}
	return c
}

// checkCancel returns what is wrong with a tool's Cancel.
func checkCancel(s *Spec) error {
	c := s.Cancel
	switch {
	case c.Timeout < 0 || c.Tries < 0 || c.Wait < 0:
		return errors.New("its Cancel has a negative bound")
	case c.Do == nil && (c.Timeout != 0 || c.Tries != 0 || c.Wait != 0):
		return errors.New("its Cancel has bounds, and nothing to do")
	case c.Do != nil && !s.MayPause && !s.AskOperator:
		return errors.New("it has a Cancel, and never waits: set MayPause, or AskOperator")
	}
	return nil
}

// Cancels returns what a tool does where a call of its own ends while it waits.
func (b *box) Cancels(name string) Cancel {
	if e, ok := b.entries[name]; ok {
		return e.spec.Cancel
	}
	return Cancel{}
}

// Cancel makes one try to call off outside what a call has begun. Code that
// outlasts its time, or ctx, is left behind: Cancel tells left of it, if left
// is set, and wait returns when the code has ended. A panic is a *PanicError.
func (b *box) Cancel(
	ctx context.Context, name string, c Cancelled, left func(wait func()),
) error {
	does := b.Cancels(name)
	if does.Do == nil {
		return fmt.Errorf("tool %s has no Cancel", name)
	}
	if c.Question != "" {
		c.Data = askedBefore(&Answer{Data: c.Data}).State
	}
	bound := does.Bound()
	late := fmt.Errorf("%w: the Cancel of %s took longer than %v", ErrTimeout, name, bound)
	ctx, cancel := context.WithTimeoutCause(ctx, bound, late)
	defer cancel()
	ended := make(chan error, 1) // with room for a late one, which is not read
	go func() {
		err := error(&PanicError{Tool: name}) // what runtime.Goexit leaves
		defer func() { ended <- err }()
		err = guardedCancel(ctx, name, does, c)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended: // just in time
		return err
	default:
	}
	if left != nil {
		left(func() { <-ended })
	}
	return context.Cause(ctx)
}

func guardedCancel(ctx context.Context, name string, does Cancel, c Cancelled) (err error) {
	defer recovered(name, &err)
	return usererr.Use(does.Do(ctx, c.Clone()))
}
