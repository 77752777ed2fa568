package runner

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// The way from the layers into the tool's body. The decisions are checked, the
// call is claimed, and after each wait there is a last look. It runs in the
// attempt's goroutine, or in one that a layer began; the door sorts them out.

// enter is the innermost handler. It checks the decisions, claims the call and
// enters the body; or it returns the answer that is the output.
func (a *attempt) enter(ctx context.Context, call tool.Call) (tool.Execution, error) {
	exec, admitted, err := a.admit(a.own.waiting, call)
	if !admitted {
		return exec, err
	}
	return a.into(ctx, call)
}

// admit checks the decisions, and claims the call. Without admission it returns
// the answer that is the output, or an error. It waits for the store as long as
// waiting lasts.
func (a *attempt) admit(
	waiting context.Context, call tool.Call,
) (exec tool.Execution, admitted bool, err error) {
	if err := a.allowed(call.Arguments); err != nil {
		return exec, false, err
	}
	if answered, err := a.door.claim(a.ctx, &a.call, call.Tool); answered || err != nil {
		if answered {
			exec.Output = a.prepared.Call.Answer.Payload
		}
		return exec, false, err
	}
	if claimed, err := a.claim(waiting); err != nil {
		return exec, false, a.putOff(waiting, claimed, err)
	}
	return exec, true, nil
}

// allowed returns why the call must not go on, by the decisions. If its answer
// is its output, nothing runs any more, and only a denial counts: a deploy that
// changed the layers must not cost an answer that was accepted before.
func (a *attempt) allowed(running json.RawMessage) error {
	call := &a.prepared.Call
	if call.Answer.Output() {
		for _, d := range call.Decisions {
			if !d.Approved {
				return tool.Denied(d.Reason)
			}
		}
		return nil
	}
	if err := a.actsStill(&a.call, running); err != nil {
		return err
	}
	return approved(call.Decisions, call.Arguments, running)
}

// claim stores that the body is about to be entered, if the tool's effect needs
// that. Then it looks again at all that may have changed while it waited.
// Claimed reports whether the claim is stored, or may be, also if the body must
// not be entered.
func (a *attempt) claim(waiting context.Context) (claimed bool, err error) {
	lease := a.own.lease
	if a.call.Effect.NeedsClaim() {
		err := lease.Update(waiting, func(tx *session.Tx) error {
			if err := a.outrun(tx); err != nil {
				return err
			}
			return tx.Claim(a.call.ID)
		})
		if err != nil {
			return isAny(err, session.ErrGoesOn, kvstore.ErrUncertain), err
		}
	}
	return true, lease.MayEnter(waiting, a.call.ID)
}

// into enters the tool's body, after the last look.
func (a *attempt) into(ctx context.Context, call tool.Call) (tool.Execution, error) {
	if err := a.lastLook(ctx); err != nil {
		return tool.Execution{}, a.putOff(a.own.waiting, true, err)
	}
	call.Fence = a.own.lease.Fence() // known for sure once the lease is taken
	a.door.runs(call.Arguments)
	a.enters(call.Attempt)
	defer a.product.leaves()
	exec, acted, err := a.prepared.Enter(ctx, call)
	if acted {
		a.door.cameBack()
	}
	return exec, err
}

// enters notes that the body is entered, for the loop to show, and tells the
// followers.
func (a *attempt) enters(attempt int) {
	if !a.call.Background {
		a.rn.live.begins(a.session, a.started(attempt))
	}
	a.product.enters(attempt)
	select {
	case a.entered <- struct{}{}:
	default: // the loop is about to look
	}
}

func (a *attempt) started(attempt int) event.Started {
	return event.Started{Index: a.index, Call: a.call.ID, Tool: a.call.Tool, Attempt: attempt}
}

// lastLook is the last thing before the tool's own code runs. It returns why
// that must not.
func (a *attempt) lastLook(ctx context.Context) error {
	if err := a.own.lease.Stands(); err != nil {
		return err
	}
	return a.door.pass(a.ctx, ctx, a.call.Tool)
}

// putOff takes back the claim of a body that was not entered after all. Then
// the loop decides about the call: it begins anew, or settles as cancelled. If
// a layer ended the context, that layer decides. If the lease is lost, the
// claim can't be taken back, and the next drive finds a call that is claimed.
func (a *attempt) putOff(waiting context.Context, claimed bool, why error) error {
	over, entered := a.door.turnBack(a.ctx, why)
	if entered { // by another next of the same layer
		return why
	}
	if claimed && a.call.Effect.NeedsClaim() {
		// If the layers have returned, the drive takes the claim back where
		// this can't.
		if err := a.own.lease.Update(waiting, a.unclaim); err != nil && !over {
			a.log().Warn("a claim was not taken back", "error", err)
		}
	}
	a.door.unclaimed()
	return why
}

// unclaim takes the attempt's claim back, if it stands.
func (a *attempt) unclaim(tx *session.Tx) error {
	was := a.call
	if err := tx.Unclaim(&was); !errors.Is(err, session.ErrStale) {
		return err
	}
	return nil
}

// approved returns why the arguments that are about to run are not those that
// were decided on. Each decision is bound to the arguments that it was shown.
// Edited arguments take their place for the decisions that follow.
func approved(decisions []tool.Decision, asked, running json.RawMessage) error {
	if len(decisions) == 0 {
		return nil
	}
	current := tool.HashArguments(asked)
	for i, d := range decisions {
		switch {
		case !d.Approved:
			return tool.Denied(d.Reason)
		case i == 0 && d.Shown != current:
			current = d.Shown // a layer outside the gate changed them before they were shown
		case d.Shown != current:
			return interceptor.ErrChanged
		}
		if len(d.Arguments) > 0 {
			current = tool.HashArguments(d.Arguments)
		}
	}
	if tool.HashArguments(running) != current {
		return interceptor.ErrChanged
	}
	return nil
}
