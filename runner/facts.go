package runner

import (
	"context"
	"errors"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// What the head keeps of a tool's declaration, so that processes without the
// tool can judge answers, is fixed when a call is asked for. The tool may be
// declared otherwise when the call begins, after a deploy. Here both are
// brought together, and nowhere else.

// declared is what the head keeps of a tool as it is declared today.
func (d *drive) declared(name string) (out session.Declared, known bool, err error) {
	out.Effect, out.MayPause, known = d.core.Tools.Declared(name)
	if out.MayPause {
		out.Output, err = d.rn.store.PutSchema(d.commitCtx(), d.core.Tools.Checks(name).Output)
	}
	return out, known, err
}

// redeclare brings a call that is about to begin up to its tool as it is
// declared today: in the store, and in c. The more careful of two effects
// counts. It returns false if the call has moved on meanwhile. A turn that this
// drive has opened is up to date, and so is a call whose answer is its output,
// since its body is not entered.
func (d *drive) redeclare(c *session.Call) (goesOn bool, err error) {
	if d.turn.opened || c.Answer != nil && c.Answer.Mode != tool.ModeReenter {
		return true, nil
	}
	today, known, err := d.declared(c.Tool)
	if err != nil || !known {
		return !known, err
	}
	if c.Effect.NeedsClaim() {
		today.Effect = c.Effect
	}
	if today == (session.Declared{Effect: c.Effect, MayPause: c.MayPause, Output: c.Output}) {
		return true, nil
	}
	err = d.lease.Update(d.commitCtx(), func(tx *session.Tx) error {
		if err := tx.Declare(c.ID, today); err != nil {
			return err
		}
		*c = *tx.Call(c.ID)
		return nil
	})
	if errors.Is(err, session.ErrSettled) || errors.Is(err, session.ErrStale) {
		return false, nil
	}
	return err == nil, err
}

// turnFacts are what bodies need to know of the open turn. They are not changed
// once a body has them.
type turnFacts struct {
	number int
	asked  time.Time
	signer signer // of the turn's tokens: a layer or a prompt may want one, though no tool of it may pause
	opened bool   // by this drive, which so knows all that has run of it
}

// factsOf reads the turn's facts off the head. Without a key that tokens can be
// signed with there are none, and no code of others is entered.
func (d *drive) factsOf(ctx context.Context, opened bool) (*turnFacts, error) {
	f := &turnFacts{opened: opened}
	key := 0
	d.lease.View(func(st *session.State) { f.number, f.asked, key = st.Turn, st.Asked, st.TokenKey })
	var err error
	f.signer, err = d.rn.ring.signer(ctx, key)
	return f, err
}
