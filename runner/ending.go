package runner

import (
	"context"
	"errors"
	"slices"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// The last event of a run.

// ending returns the last event of a run: how the session stands by the store.
// The cause is why the drive stopped, if it did not stop by itself.
func (rn *Runner) ending(ctx context.Context, id string, cause error) (event.End, error) {
	if errors.Is(cause, session.ErrWrongUser) { // another user isn't told how it stands
		return event.End{Session: id, Finish: event.FinishFailed}, nil
	}
	st, err := rn.store.Load(ctx, id)
	switch {
	case errors.Is(err, session.ErrUnknownSession) && cause != nil: // it was never begun
		return event.End{Session: id, Finish: event.FinishFailed}, nil
	case err != nil:
		return event.End{Session: id, Finish: event.FinishFailed}, err
	}
	return rn.standing(ctx, st, nil, cause)
}

// standing returns how a session stands by a head, as a last event. Asked are
// the open turn's calls, if they are known.
func (rn *Runner) standing(
	ctx context.Context, st *session.State, asked []llm.ToolCall, cause error,
) (event.End, error) {
	end := event.End{Session: st.ID, Finish: event.FinishFailed, Usage: st.Run.Usage}
	page, err := rn.waiting(ctx, st, asked)
	if err != nil {
		return end, err
	}
	end.Pending, end.MorePending = page.Pauses, page.More
	end.Parked = st.Parked()
	step := rn.store.Next(st)
	switch {
	case st.Halt != nil:
		end.Finish, end.Why = st.Halt.Finish, st.Halt.Why
	case cause != nil && cause != errLeft && !refusedMessage(cause):
	case st.Open()+len(end.Parked) > 0, st.Lingering():
		end.Finish = event.FinishPaused
	case step.Kind == session.StepSay && st.Between() && st.Finish != "": // and others carry on
		end.Finish, end.Why = st.Finish, st.Why
	case step.HasWork():
		end.Finish = event.FinishElsewhere
		switch driven, until := rn.store.Driven(st); {
		case cause == errLeft:
			end.Finish = event.FinishInterrupted
		case !driven && step.Kind == session.StepRetry:
			end.Finish, end.Until, end.Why = event.FinishDelayed, step.Until, st.Retry.Why
		case driven:
			end.Until = until
		}
	default:
		end.Finish, end.Why = st.Finish, st.Why
	}
	return end, nil
}

// waiting returns what a session waits for, as its last event has it. Of a
// child that is its own pauses: a caller who wants to see what waits in a tree
// looks at the root, and children pause often.
func (rn *Runner) waiting(
	ctx context.Context, st *session.State, asked []llm.ToolCall,
) (page session.Page, err error) {
	if st.Parent == nil {
		return rn.store.Waiting(ctx, st, asked)
	}
	page.Pauses, err = rn.store.Pauses(ctx, st, asked)
	return page, err
}

// refusedMessage reports whether cause is the refusal of a user's message, and
// not a failure of the store or a body.
func refusedMessage(cause error) bool {
	var u *untaken
	if !errors.As(cause, &u) {
		return false
	}
	return isAny(u, session.ErrPending, session.ErrMessageConflict, session.ErrInvalidMessage,
		session.ErrBusy, session.ErrFenced,
		// as the answer that it would have been
		session.ErrInvalidResumePayload, session.ErrResumeConflict,
		session.ErrExpired, session.ErrSettled,
		// as that answer, or as a denial in superseding
		ErrNotAllowed)
}

// logEnd logs the error with which a drive of a worker ended. What a tool ended
// its run by is a result, which the session has: a workflow that has failed, and
// was taken back in order, is no fault of the program. What is said of any other
// error is what.
func (rn *Runner) logEnd(what, id string, err error) {
	if endedByTool(err) {
		rn.options.Logger.Warn("a tool has ended the run as failed", "session", id, "error", err)
		return
	}
	rn.options.Logger.Error(what, "session", id, "error", err)
}

// endedByTool reports whether err is tools' fatal errors alone.
func endedByTool(err error) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(e error) bool { return !endedByTool(e) })
	}
	return tool.IsFatal(err)
}
