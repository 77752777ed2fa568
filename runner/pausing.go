package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/toolbox"
	"github.com/fermata-ai/fermata/tool"
)

// The bounds of how often a call pauses.
const (
	// maxMade is how many of a call's pauses may come with artifacts: where
	// those lie stands in the call's record, which is bounded.
	maxMade = 200
	// A call's first freeTimers pauses may be timers of any length. From then
	// on a timer takes timerFloor at least, and after shortTimers pauses a
	// shorter one is the call's error: a tool that doesn't look at its answer
	// asks for the same timer each time that it is entered, without end.
	freeTimers  = 20
	shortTimers = 200
	timerFloor  = time.Second
)

// mayPause refuses a pause that the call can't have, and lengthens a timer that
// is too short for one that has had many.
func (b *body) mayPause(a *tool.Await, made bool) error {
	switch {
	case made && len(b.c.Actions) >= maxMade:
		return fmt.Errorf("%s has paused %d times with artifacts, which is as often as a call may", b.c.Tool, maxMade)
	case a.Gate != "" && !b.c.MayBeDecided():
		return fmt.Errorf("%s was held by layers %d times, which is as often as what is decided about it can be kept",
			b.c.Tool, len(b.c.Decisions))
	case len(a.Schema) > tool.MaxSchema && a.Gate == "":
		return fmt.Errorf("%s asked to pause: the answer's schema has %d bytes, at most %d are taken",
			b.c.Tool, len(a.Schema), tool.MaxSchema)
	case a.Reason != tool.ReasonTimer || a.Timeout >= timerFloor || b.c.Pauses < freeTimers:
		return nil
	case b.c.Pauses >= shortTimers:
		return fmt.Errorf("%w: %s has paused %d times, and asks for a timer of %v again: after so many, one takes %v at least",
			tool.ErrInvalidAwait, b.c.Tool, b.c.Pauses, a.Timeout, timerFloor)
	}
	a.Timeout = timerFloor
	return nil
}

// pause commits a pause. A call that is being cancelled does not pause.
func (b *body) pause(ctx context.Context, out toolbox.Outcome) error {
	await, err := out.Await.Normalize()
	if err == nil {
		err = b.mayPause(&await, len(out.Actions) > 0)
	}
	if err != nil {
		b.log(err)
		return b.refuse(ctx, err)
	}
	h, err := b.hold(await)
	if err != nil {
		return err
	}
	if h.Actions, err = actionsBlob(out.Actions); err != nil {
		return err
	}
	h.Media = hasMedia(out.Actions)
	b.d.outcomes.made(b.c.ID, out.Actions)
	err = b.lease.Update(b.store(), func(tx *session.Tx) error {
		if c := tx.Call(b.c.ID); c != nil && c.Status != session.Settled && (c.Cancel != nil || tx.Ending != nil) {
			return tx.Settle(c.ID, b.stopped(tx, errRunEnded))
		}
		return tx.Pause(b.c.ID, h)
	})
	if err != nil {
		b.d.outcomes.forget(b.c.ID)
	}
	return err
}

// refuse ends the call whose result, or pause, can't be taken.
func (b *body) refuse(ctx context.Context, err error) error {
	return b.result(ctx, toolbox.Resolve(tool.Execution{}, b.after(err)))
}

// hold makes a pause of what the tool or a layer asked for, in its normal form.
// Its error is the runtime's, not the tool's.
func (b *body) hold(await tool.Await) (h *session.Hold, err error) {
	h = &session.Hold{Await: await, Prompt: session.StringBlob(await.Prompt)}
	if h.Data, err = session.NewBlob(await.Data); err != nil {
		return nil, err
	}
	schema, checks := await.Schema, b.d.core.Tools.Checks(b.c.Tool)
	switch {
	case await.Gate != "":
		schema = checks.Input // what edited arguments must fit
		if string(await.Arguments) != string(b.args) {
			h.Args, err = session.NewBlob(await.Arguments)
		}
	case len(schema) == 0 && await.Mode != tool.ModeReenter:
		schema = checks.Output
	}
	if err == nil {
		h.Schema, err = b.d.rn.store.PutSchema(b.store(), schema)
	}
	return h, err
}
