package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// callDetails shows a call of a session, open or settled.
func (rn *Runner) callDetails(
	ctx context.Context, st *session.State, id string,
) (CallDetails, error) {
	out := CallDetails{Call: id, Status: session.Settled}
	if c := st.Call(id); c != nil {
		out.Action, out.Handle = c.Action, c.Handle
	}
	var decisions []session.Decision
	var again []session.Again
	if c := st.Call(id); c != nil && c.Status != session.Settled {
		out.Tool, out.Status, out.Attempt, out.Pauses = c.Tool, c.Status, c.Attempt, c.Pauses
		if c.Parked != nil {
			out.Parked = c.Parked.Since
		}
		decisions, again = c.Decisions, c.Again
		if m := c.Mailbox; m != nil {
			out.Mail = &Mailbox{Takes: m.Names(), Count: m.Count, Shown: m.Shown}
		}
		if err := rn.made(ctx, st.ID, c.Actions, &out); err != nil {
			return out, err
		}
		if c.Status != session.Pending && c.Answer != nil {
			kept, err := rn.store.Value(ctx, st.ID, c.Answer.Data)
			if err != nil {
				return out, err
			}
			out.Kept = slices.Clone(kept)
		}
	} else {
		r, _, err := rn.store.Record(ctx, st.ID, id)
		if err != nil {
			return out, err
		}
		out.Tool, out.Settled, out.Actor, out.At = r.Tool, r.Shown(), r.Actor, r.At
		out.Attempt, out.Pauses = r.Attempt, r.Pauses
		decisions, again = r.Decisions, r.Again
		if r.Mail > 0 {
			out.Mail = &Mailbox{Count: r.Mail, Shown: r.MailShown}
		}
		if out.Output, err = rn.store.Value(ctx, st.ID, r.Output); err != nil {
			return out, err
		}
		if err := rn.made(ctx, st.ID, r.Actions, &out); err != nil {
			return out, err
		}
	}
	for _, rec := range decisions {
		d, err := rn.store.Decided(ctx, st.ID, rec)
		if err != nil {
			return out, err
		}
		out.Decisions = append(out.Decisions, d)
	}
	var err error
	if out.Again, err = rn.ranAgain(ctx, st.ID, again); err != nil {
		return out, err
	}
	out.Receipts, err = rn.store.Receipts(ctx, st.ID, id)
	return out, err
}

// made adds what a call made beside its result.
func (rn *Runner) made(
	ctx context.Context, id string, blobs []*session.Blob, out *CallDetails,
) error {
	actions, err := rn.actions(ctx, id, out.Call, blobs)
	for _, a := range actions {
		switch {
		case a.Artifact != nil:
			out.Artifacts = append(out.Artifacts, *a.Artifact)
		case a.Media != nil:
			out.Media = append(out.Media, *a.Media)
		}
	}
	return err
}

// actions reads what a call made, in order.
func (rn *Runner) actions(
	ctx context.Context, id, call string, blobs []*session.Blob,
) (all []tool.Action, err error) {
	for _, b := range blobs {
		raw, err := rn.store.Value(ctx, id, b)
		if err != nil {
			return nil, err
		}
		var actions []tool.Action
		if err := json.Unmarshal(raw, &actions); err != nil {
			return nil, fmt.Errorf("%w: actions of call %s: %w", session.ErrCorrupt, call, err)
		}
		all = append(all, actions...)
	}
	return all, nil
}

// carryOn drives a session whose events go to no caller, unless another drive
// holds it, the runner doesn't have its agent, or the runner is closed.
func (rn *Runner) carryOn(ctx context.Context, id string) error {
	d, err := rn.newDrive(ctx, id, nil)
	if isAny(err, session.ErrBusy, ErrUnknownAgent, ErrClosed) {
		return nil
	}
	if err != nil {
		return err
	}
	d.screen.heard = maps.Clone(d.screen.sights.calls)
	for _, err := range d.events(nil) {
		if err != nil {
			return err
		}
	}
	return nil
}
