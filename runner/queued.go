package runner

import (
	"context"
	"errors"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
)

// How a drive takes the messages that wait in the queue of its session.

// takes reports whether this drive takes the message that comes next. One that
// begins a run is left to a worker, or to Continue, by the drives of a Run and
// of an answer: they end with the run that goes on.
func (d *drive) takes() (takes bool) {
	if d.worker || d.queue {
		return true
	}
	d.lease.View(func(st *session.State) { takes = !st.Between() })
	return takes
}

// leaves reports whether nothing but a message is to be taken that this drive
// leaves to others.
func (d *drive) leaves() bool { return d.next().Kind == session.StepSay && !d.takes() }

// waitsInQueue reports whether messages wait.
func (d *drive) waitsInQueue() (waits bool) {
	d.lease.View(func(st *session.State) { waits = st.Queue != nil })
	return waits
}

// clearQueue drives what waits in the queue, one run each, before the message of
// a Run. It ends early if the place of the first has not come.
func (d *drive) clearQueue() error {
	if !d.waitsInQueue() {
		return nil
	}
	if halt := d.halt(); halt != nil {
		err := d.ride(func(tx *session.Tx) error { tx.LiftFor(halt); return nil })
		if err != nil {
			return err
		}
	}
	d.queue = true
	defer func() { d.queue = false }()
	for {
		if err := d.loop(false); err != nil || d.closing.handed {
			return err
		}
		if again, err := d.takeQueued(); !again {
			return err
		}
	}
}

// takeQueued takes the first message that waits, or finds that its place has
// not come. It reports whether the drive goes on.
func (d *drive) takeQueued() (again bool, err error) {
	if d.next().Kind != session.StepSay || !d.takes() {
		return false, nil
	}
	if err := d.over(); err != nil {
		return false, err
	}
	if secured, err := d.lease.Secure(d.waiting); err != nil {
		return false, err
	} else if secured {
		if dying, err := d.dying(); dying {
			return false, err
		}
	}
	sy, err := d.firstQueued()
	if err != nil || sy == nil {
		return err == nil, err
	}
	return sy.took(sy.place())
}

// firstQueued returns the first message that waits, or nil.
func (d *drive) firstQueued() (*saying, error) {
	var first *session.Queued
	err := d.lease.Look(d.waiting, func(tx *session.Tx) (err error) {
		first, err = tx.First()
		return err
	})
	if err != nil || first == nil {
		return nil, err
	}
	m, err := d.rn.store.QueuedMessage(d.waiting, d.session, first)
	if err != nil {
		return nil, err
	}
	supersedes := first.Supersede
	d.lease.View(func(st *session.State) {
		supersedes = supersedes || st.Queue != nil && st.Queue.Superseding > 0
	})
	return &saying{drive: d, in: &input{
		user: d.user, message: m, hash: first.Hash, queued: first,
		o: &RunOptions{MessageID: first.ID, Detached: true, Supersede: supersedes},
	}}, nil
}

// place takes the message: says it, or gives it for an answer. If its place has
// not come, the error is a *session.PendingError.
func (sy *saying) place() error {
	var to session.PauseRef
	err := sy.lease.Look(sy.waiting, func(tx *session.Tx) (err error) {
		to, err = tx.OnItsWay(sy.in.queued)
		return err
	})
	if err != nil {
		return err
	}
	if to.Pause != "" { // a drive has died that was to pass it on
		if taken, err := sy.passOnAgain(to); taken || err != nil {
			return err
		}
	}
	if err := sy.lateAtRest(); err != nil {
		return err
	}
	answered, err := sy.turnOver()
	if answered && err == nil {
		return sy.unstage()
	}
	if err != nil {
		return err
	}
	_, err = sy.append()
	return err
}

// errNotItsPlace leaves a message in the queue: what the turn waited for has come
// just now, and the run goes on without it.
var errNotItsPlace = errors.New("runner: the place of the message has not come")

// took goes on after a try to take the message.
func (sy *saying) took(err error) (again bool, _ error) {
	if err == nil || errors.Is(err, errNotItsPlace) {
		sy.moves = 0
		return !sy.screen.left, sy.show()
	}
	if sy.in.denied {
		// What was denied or interrupted for the message may still ride.
		sy.screen.discard()
		if err := sy.lease.Drop(sy.waiting); err != nil {
			return false, err
		}
		sy.closing.lookAgain(sy.agent.Name())
		sy.judged = sy.lease.State()
	}
	var pending *session.PendingError
	// Another message was to supersede for this one, and may not.
	notFor := errors.Is(err, ErrNotAllowed) && sy.denies && !sy.in.queued.Supersede
	switch {
	case errors.As(err, &pending), notFor:
		judged := sy.judged
		return true, sy.ride(func(tx *session.Tx) error { return tx.Judge(judged) })
	case isAny(err, errMoved, session.ErrStale):
		return true, sy.lookAgain(&movedError{err})
	case refusesAnswer(err):
		why := err.Error()
		err := sy.commit(func(tx *session.Tx) error { return tx.Refuse(sy.in.queued, why) })
		return true, sy.lookAgain(decided(err))
	}
	return false, err
}

// refusesAnswer reports whether err means that a message is not taken for an
// answer, whenever it is tried.
func refusesAnswer(err error) bool {
	return isAny(err, ErrNotAllowed, session.ErrInvalidMessage, session.ErrInvalidResumePayload,
		session.ErrOtherSender)
}

// tellQueue has the first message judged once more that waits at the root of a
// session below it, if the session waits: perhaps for the answer that the message
// is. If the process dies before that, the next message has it judged.
func (d *drive) tellQueue(ctx context.Context, cause error) error {
	root := ""
	d.lease.View(func(st *session.State) {
		if st.Parent != nil && session.Next(st, d.rn.store.Now()).Kind == session.StepWait {
			root = st.Root()
		}
	})
	if root == "" || lost(cause) {
		return nil
	}
	st, err := d.rn.store.Load(ctx, root)
	if err == nil && st.Queue != nil {
		err = d.rn.store.Update(ctx, root, func(tx *session.Tx) error {
			tx.WaitsBelow()
			return nil
		})
	}
	if unlessKnown(err) == nil || unreadable(err) {
		return nil // the root is gone, or can't be read: its messages can't be, either
	}
	return err
}

// showQueued shows a message that was taken off the queue and said.
func (sy *saying) showQueued() {
	number := 0
	sy.lease.View(func(st *session.State) { number = st.Messages - 1 })
	sy.screen.emit(event.Message{Number: number, Message: sy.in.message.Clone()})
}

// QueuedMessage is a message that waits in the queue of a session.
type QueuedMessage struct {
	ID         string      `json:"id"`
	Message    llm.Message `json:"message"`
	At         time.Time   `json:"at"`
	Steers     bool        `json:"steers,omitempty"`
	Supersedes bool        `json:"supersedes,omitempty"`
}

// queued lists what waits in a session's queue.
func (rn *Runner) queued(ctx context.Context, st *session.State) (all []QueuedMessage, err error) {
	if st.Queue == nil {
		return nil, nil
	}
	for q, err := range rn.store.Queue(ctx, st.ID) {
		if err != nil {
			return nil, err
		}
		m, err := rn.store.QueuedMessage(ctx, st.ID, q)
		if err != nil {
			return nil, err
		}
		all = append(all, QueuedMessage{ID: q.ID, Message: m, At: q.At, Steers: q.Steering,
			Supersedes: q.Supersede})
	}
	return all, nil
}
