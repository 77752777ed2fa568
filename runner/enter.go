package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/interceptor"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// The way from the layers into the tool's body: what was decided is checked,
// the call is claimed, and there is a last look after each wait.

// enter is the innermost handler: it checks what was decided, claims the call,
// and enters the body; or it returns the answer that is the output.
func (b *body) enter(ctx context.Context, call tool.Call) (tool.Execution, error) {
	exec, admitted, err := b.admit(b.d.lasting, call)
	if !admitted {
		return exec, err
	}
	return b.into(ctx, call)
}

// admit checks what was decided, and claims the call. Store is how long the
// store is waited for.
func (b *body) admit(store context.Context, call tool.Call) (exec tool.Execution, admitted bool, err error) {
	if err := b.allowed(call.Arguments); err != nil {
		return exec, false, err
	}
	if answered, err := b.begin(call.Tool); answered || err != nil {
		if answered {
			exec.Output = b.prepared.Call.Answer.Payload
		}
		return exec, false, err
	}
	if claimed, err := b.claim(store); err != nil {
		return exec, false, b.putOff(store, claimed, err)
	}
	return exec, true, nil
}

// allowed reports why the call must not go on, by what was decided. Where its
// answer is its output nothing runs any more, and only a denial counts: a deploy
// that changed the layers since must not cost an answer that was accepted.
func (b *body) allowed(running json.RawMessage) error {
	call := &b.prepared.Call
	if call.Answer.Output() {
		for _, d := range call.Decisions {
			if !d.Approved {
				return tool.Denied(d.Reason)
			}
		}
		return nil
	}
	return approved(call.Decisions, call.Arguments, running)
}

// begin notes that the call is about to be claimed, unless it is answered
// already, or must not be.
func (b *body) begin(name string) (answered bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false, fmt.Errorf("the layers around tool %s have returned: it is too late to enter it", name)
	}
	if a := b.c.Answer; a != nil && a.Mode != tool.ModeReenter {
		b.derived = true
		return true, nil
	}
	if b.ctx.Err() != nil { // a layer that didn't look at its own has taken its time
		return false, context.Cause(b.ctx)
	}
	if b.claimed && b.c.Effect.NeedsClaim() {
		return false, fmt.Errorf("tool %s was entered already, and must not be entered twice", name)
	}
	b.claimed, b.put, b.runtime = true, false, nil // whatever became of the last try
	return false, nil
}

// claim makes it durable that the body is about to be entered, where that is
// needed; and then looks again at all that could have changed while it waited.
// Claimed: it is, or may be, also where the body must not be entered.
func (b *body) claim(store context.Context) (claimed bool, err error) {
	if b.c.Effect.NeedsClaim() {
		if err := b.lease.Update(store, func(tx *session.Tx) error { return tx.Claim(b.c.ID) }); err != nil {
			return errors.Is(err, session.ErrGoesOn) || errors.Is(err, kvstore.ErrUncertain), err
		}
	}
	return true, b.lease.MayEnter(store, b.c.ID)
}

// into enters the tool's body, after the last look.
func (b *body) into(ctx context.Context, call tool.Call) (tool.Execution, error) {
	if err := b.lastLook(ctx); err != nil {
		return tool.Execution{}, b.putOff(b.d.lasting, true, err)
	}
	exec, acted, err := b.prepared.Enter(ctx, call)
	if acted {
		b.mu.Lock()
		b.returned = true
		b.mu.Unlock()
	}
	return exec, err
}

// lastLook is the last thing before code of the tool's own runs: it reports why
// it must not.
func (b *body) lastLook(ctx context.Context) error {
	if err := b.lease.Stands(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return fmt.Errorf("the layers around tool %s have returned: it is too late to enter it", b.c.Tool)
	case b.ctx.Err() != nil:
		return context.Cause(b.ctx)
	case ctx.Err() != nil:
		return &layerEnded{context.Cause(ctx)}
	}
	b.entered, b.derived = true, false
	return nil
}

// layerEnded is why a body is not entered whose own context lasts: a layer has
// ended the one that it passed on.
type layerEnded struct{ error }

func (e *layerEnded) Unwrap() error { return e.error }

// putOff takes back the claim of a body that was not entered after all. What
// then becomes of the call is for the loop: it begins anew, or settles as
// cancelled; a layer that has ended it itself says so. Where the claim can't be
// taken back, since the lease is lost, the next drive finds a call that is.
func (b *body) putOff(store context.Context, claimed bool, why error) error {
	b.mu.Lock()
	if b.entered { // by another next of the same layer
		b.mu.Unlock()
		return why
	}
	over := b.over
	if !over { // else the layers have said what becomes of the call, and the drive takes the claim back if this can't
		var layer *layerEnded
		b.put = !errors.As(why, &layer)
		if b.put && failsRun(why) && b.ctx.Err() == nil {
			b.runtime = why
		}
	}
	b.mu.Unlock()
	if claimed && b.c.Effect.NeedsClaim() {
		if err := b.lease.Update(store, b.unclaim); err != nil && !over {
			b.d.rn.options.Logger.Warn("a claim was not taken back", "session", b.d.session, "tool", b.c.Tool, "call", b.c.ID, "error", err)
		}
	}
	b.mu.Lock()
	b.claimed = false
	b.mu.Unlock()
	return why
}

// unclaim takes the body's claim back, if it stands.
func (b *body) unclaim(tx *session.Tx) error {
	was := b.c
	if err := tx.Unclaim(&was); !errors.Is(err, session.ErrStale) {
		return err
	}
	return nil
}

// failsRun reports whether a body's not being entered is the store's failure,
// rather than what a run goes on, or ends, with.
func failsRun(why error) bool {
	for _, e := range []error{session.ErrFenced, session.ErrDeleted, session.ErrSettled, session.ErrUnknownCall, session.ErrCancelled, session.ErrGoesOn} {
		if errors.Is(why, e) {
			return false
		}
	}
	return true
}

// approved says whether the arguments that are about to run are those that were
// decided on: each decision is bound to those it was shown, and an edit takes
// their place for those that come after.
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
