package runner

import (
	"context"

	"github.com/fermata-ai/fermata/internal/session"
)

// answered is Resume, where take applies an answer.
func (rn *Runner) answered(
	ctx context.Context, sessionID string, rs []Resumption, take taking,
) (*Resumed, error) {
	all, err := rn.admit(ctx, sessionID, rs)
	if err != nil {
		return nil, err
	}
	return rn.takeIn(ctx, rn.store, all, take)
}

// taking applies an answer.
type taking func(*session.Tx, *session.Incoming, session.Fits) (session.Receipt, error)

// admitted are resumptions of a session that the Authorizer has allowed. Each is
// an answer, or has an error that is its own.
type admitted struct {
	session string
	rs      []Resumption
	answers []*session.Incoming
	misfits []error
}

func (rn *Runner) admit(
	ctx context.Context, sessionID string, rs []Resumption,
) (*admitted, error) {
	a := &admitted{sessionID, rs, make([]*session.Incoming, len(rs)), make([]error, len(rs))}
	for i, r := range rs {
		op := about(OpResume, sessionID, r.Pause, r.Actor)
		op.Answer = r.answer()
		if err := rn.authorize(ctx, op); err != nil {
			return nil, err
		}
		a.answers[i], a.misfits[i] = rn.incoming(r)
	}
	return a, nil
}

// takeIn applies answers by a store, which may be one within a transaction.
func (rn *Runner) takeIn(
	ctx context.Context, store *session.Store, a *admitted, take taking,
) (*Resumed, error) {
	out := &Resumed{rn: rn, session: a.session, Receipts: make([]session.Receipt, len(a.rs))}
	judges := make([]judge, len(a.rs))
	err := judged(judges, func() error {
		return store.Update(ctx, a.session, func(tx *session.Tx) (err error) {
			for i, r := range a.rs {
				if a.misfits[i] != nil {
					out.Receipts[i] = session.Receipt{
						Call: session.CallID(r.Pause), Actor: string(r.Actor), Err: a.misfits[i],
					}
					continue
				}
				fits := judges[i].fitsIn(ctx, rn, store, tx.Agent)
				if out.Receipts[i], err = take(tx, a.answers[i], fits); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return out, refusal(out.Receipts)
}
