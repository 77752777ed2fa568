package runner

import (
	"errors"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// Where leases are stored, a drive secures its lease before anything runs, which
// is a commit. If all that it is about to do is to enter one call of effect once,
// the claim of that call is a commit as well, and takes the lease.

// errOutrun is why nothing of an attempt counts that was made before the drive
// had its lease: another drive came first, and may have entered the call, or
// have asked a person about it. The loop looks again.
var errOutrun = errors.New("runner: another drive took the session before the lease of this one was stored")

// outrun refuses to store what comes of an attempt if another drive was faster.
// Once the lease is taken, the lease does so.
func (a *attempt) outrun(tx *session.Tx) error {
	if tx.Epoch != a.epoch {
		return errOutrun
	}
	return nil
}

// claimsFirst reports whether the step needs no lease before the claim that it
// makes, and notes that. Before the claim, no code of others may run but pure
// layers: without a lease, several drives may do this at once.
func (cs *calls) claimsFirst(step session.Step) bool {
	cs.first = false
	if step.Kind != session.StepCalls || cs.core.HasTurnLayers() || !cs.lease.TakenByClaim() {
		return false
	}
	var call *session.Call
	cs.lease.View(func(st *session.State) {
		if call = onlyEntry(st); call != nil {
			own := *call
			call = &own
		}
	})
	cs.first = call != nil && cs.rn.has(cs.agent.Name(), call.Tool) &&
		cs.core.Layers.Pure(call.Tool) && !cs.core.Tools.ReadsItself(call.Tool) &&
		cs.core.Tools.Scheduling(call.Tool).Limit == "" // for whose place it may wait long
	return cs.first
}

// onlyEntry returns the call of the open turn that is to be entered under a
// claim, if nothing else is to be done in the turn; otherwise nil.
func onlyEntry(st *session.State) (only *session.Call) {
	if st.Ending != nil || st.Halt != nil {
		return nil
	}
	for i := range st.Calls {
		c := &st.Calls[i]
		switch {
		case c.Status == session.Settled, c.Status == session.Pending && !c.Registering():
			continue
		case only != nil, c.Status != session.Requested && c.Status != session.Answered,
			c.Early != nil, c.Cancel != nil, c.Parked != nil, c.Action != "",
			!c.Effect.NeedsClaim(), c.Answer != nil && c.Answer.Mode != tool.ModeReenter:
			return nil
		}
		only = c
	}
	return only
}
