package runner

import (
	"context"
	"errors"

	"github.com/fermata-ai/fermata/internal/session"
)

// A user's message in place of the answers that its session waits for.

// supersede denies the calls that wait for a person or for a tool that is gone,
// if the caller asked for that and no other call waits. A call that waits for a
// child is looked at by what the child waits for, and so on down.
func (sy *saying) supersede(refused *session.PendingError) error {
	if !sy.in.o.Supersede {
		return refused
	}
	sy.denies = true
	st := sy.lease.State()
	ls := &leaves{rn: sy.rn, seen: map[string][]session.Seen{}}
	if ok, err := ls.of(sy.waiting, st); err != nil {
		return err
	} else if !ok {
		refused.Blocks = ls.blocks
		return refused
	}
	// Each denial is the user's own. So the Authorizer is asked about all
	// before anything is denied, and nothing else is denied.
	for _, leaf := range ls.waiting {
		if err := sy.mayDeny(leaf); err != nil {
			return err
		}
	}
	var denied []string
	for i := range st.Calls {
		switch c := &st.Calls[i]; {
		case c.Parked != nil:
			denied = append(denied, c.ID)
		case c.Status == session.Pending:
			denied = append(denied, session.PauseID(c.ID, c.Pauses))
		}
	}
	return sy.deny(denied, ls.seen)
}

// leaves are the calls of a tree that wait for something else than a child.
type leaves struct {
	rn      *Runner
	waiting []session.PauseRef // of a parked call: the call
	// Seen are the sessions that were looked at, by the root's call above them.
	// What is denied depends on them: a leaf may be answered any time.
	seen map[string][]session.Seen
	call string // of the root, that is looked below
	// Blocks is what was found that waits for no person.
	blocks *session.Blocks
}

// of collects the leaves below a session. It reports whether all that goes on
// there is to wait for people, and for tools that are gone.
func (ls *leaves) of(ctx context.Context, st *session.State) (ok bool, err error) {
	for i := range st.Calls {
		c := &st.Calls[i]
		leaf := session.PauseRef{Session: st.ID, Pause: c.ID}
		switch {
		case c.Status == session.Settled:
			continue
		case c.Parked != nil:
		case c.Status == session.Pending && c.Child != "":
			if st.Parent == nil {
				ls.call = c.ID
			}
			if ok, err := ls.below(ctx, c.Child); !ok || err != nil {
				return false, err
			}
			continue
		case c.Status == session.Pending && c.Pause.Reason.Person():
			leaf.Pause = session.PauseID(c.ID, c.Pauses)
		default:
			ls.blocks = &session.Blocks{
				Session: st.ID, Agent: st.Agent, Call: leaf.Pause, Tool: c.Tool}
			return false, nil
		}
		ls.waiting = append(ls.waiting, leaf)
	}
	return true, nil
}

// below is of for a child. One that works, or is over, waits for no person: its
// end is on its way to its parent.
func (ls *leaves) below(ctx context.Context, child string) (ok bool, err error) {
	st, seen, err := ls.rn.store.LoadSeen(ctx, child)
	if err != nil {
		return false, unlessKnown(err)
	}
	ls.seen[ls.call] = append(ls.seen[ls.call], seen)
	if ls.rn.store.Next(st).Kind != session.StepWait {
		ls.blocks = &session.Blocks{Session: st.ID, Agent: st.Agent}
		return false, nil
	}
	return ls.of(ctx, st)
}

// deny denies the pauses and calls listed, and closes the turn. The results are
// shown once the message is stored: until then another actor may still approve.
// If anything below has moved on since it was looked at, it is errMoved.
func (sy *saying) deny(denied []string, below map[string][]session.Seen) error {
	sy.lease.Keep(true) // after the first denials the head may show nothing but waits
	defer sy.lease.Keep(false)
	if _, err := sy.lease.Secure(sy.waiting); err != nil {
		return err
	}
	sy.screen.stage()
	sy.in.denied = true
	// The last of them are denied in the commit that has the message. Until
	// then the turn is open, and no drive calls the model.
	for left := len(denied); left > 0; left -= session.SupersedeAtOnce {
		commit := sy.commit
		if left <= session.SupersedeAtOnce {
			commit = sy.ride
		}
		err := commit(func(tx *session.Tx) error {
			return tx.Supersede(sy.in.user, denied, below)
		})
		if err != nil {
			sy.screen.discard()
		}
		if errors.Is(err, session.ErrStale) {
			sy.in.denied = false
			if err := sy.lease.Drop(sy.waiting); err != nil {
				return err
			}
			return errMoved
		}
		if err != nil {
			return err
		}
	}
	if err := sy.driveTurn(); err != nil { // which closes the turn
		sy.screen.discard()
		return err
	}
	if !sy.lease.Rides() { // the run was ended meanwhile: it is stored already
		sy.screen.publish()
	}
	return nil
}
