package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/usererr"
	"github.com/fermata-ai/fermata/tool"
)

// Actor is who does something: a person, a program, a job. The Authorizer is
// asked about it, and receipts name it. The runner believes what it is told: a
// program that serves several people finds out first who asks.
type Actor string

// Operation is what an actor wants to do, as an Authorizer sees it. User and
// Tool are read from the store before the Authorizer is asked. They are empty
// if there is no such session or call.
type Operation struct {
	Kind    OperationKind
	Actor   Actor
	Session string // empty for operations on the whole store
	New     bool   // of OpRun and OpSend: the message begins the session
	User    string // of the session, also a new one; of a listing, the filter's
	// Root is the session at the top of the tree that the session belongs to:
	// itself, unless it is a child. Path leads from there down to it.
	Root   string
	Path   []tool.PathStep
	Call   string // where it is about one call
	Tool   string // the call's
	Pause  string // where it is about one pause: its id
	Answer AnswerKind
	Event  string // of OpDeliver: the event's name
	Handle string // where it is about a handle: its name in the session
	// Wait is where it is about a wait handle of a wider scope, or about one of the
	// session that a wait's time-out is to end (OpCompleteWait). Session is then
	// the one whose call does it, or empty.
	Wait WaitName
	// Permits are what a token is to permit, and Holder is whom it is for.
	Permits  []tool.Permit
	Holder   Actor
	Pauses   session.PauseFilter // of OpPending
	Sessions session.Filter      // of OpList
}

// Own reports whether the actor is the session's user. Of a listing it reports
// whether the actor is the user whose sessions or pauses are listed. The actor
// of a webhook is no session's user.
func (op Operation) Own() bool { return op.User != "" && op.User == string(op.Actor) }

// Decides reports whether the operation approves or denies a call, with edited
// arguments too, or makes a token that may.
func (op Operation) Decides() bool {
	switch op.Answer {
	case AnswerApprove, AnswerEdit, AnswerDeny:
		return true
	}
	return slices.ContainsFunc(op.Permits, tool.Permit.Decides)
}

// about returns an operation on a call, or on one of its pauses, given by its
// id.
func about(kind OperationKind, sessionID, id string, actor Actor) Operation {
	op := Operation{Kind: kind, Actor: actor, Session: sessionID, Call: session.CallID(id)}
	if op.Call != id {
		op.Pause = id
	}
	return op
}

// OperationKind is the kind of an Operation.
type OperationKind string

// The operations. Each is asked for by the method of Runner with its name, and
// by those in the comments.
const (
	OpRun           OperationKind = "run"
	OpSend          OperationKind = "send"
	OpContinue      OperationKind = "continue"
	OpResume        OperationKind = "resume"  // also by Run and Send, for each answer of a message, and Apply
	OpDeliver       OperationKind = "deliver" // also by Apply
	OpProgress      OperationKind = "progress"
	OpCancel        OperationKind = "cancel" // also by Abort
	OpCancelSession OperationKind = "cancel_session"
	OpExtend        OperationKind = "extend"
	OpDelete        OperationKind = "delete"
	OpFind          OperationKind = "find"
	OpPending       OperationKind = "pending"
	OpList          OperationKind = "list"   // by Sessions
	OpShow          OperationKind = "show"   // also by Session, Call, Received and Sent
	OpFollow        OperationKind = "follow" // also by MayFollow and TellEnd
	OpSpawn         OperationKind = "spawn"
	OpFetch         OperationKind = "fetch"
	OpHandles       OperationKind = "handles"
	OpApply         OperationKind = "apply"
	OpAbort         OperationKind = "abort"
	OpAwait         OperationKind = "await"
	OpCreateWait    OperationKind = "create_wait" // also by tool/wait, as the next four
	OpWait          OperationKind = "wait"
	OpWaits         OperationKind = "waits" // also by CountWaits, FollowWaits and WaitsNow
	OpCompleteWait  OperationKind = "complete_wait"
	OpReportWait    OperationKind = "report_wait"
	OpUndos         OperationKind = "undos"
	OpRetryUndo     OperationKind = "retry_undo"
	OpDismissUndo   OperationKind = "dismiss_undo"
	OpMint          OperationKind = "mint_token"
	OpRotate        OperationKind = "rotate_token_keys"
)

// AnswerKind is what an OpResume answers with.
type AnswerKind string

// The answers.
const (
	AnswerComplete AnswerKind = "complete"
	AnswerFail     AnswerKind = "fail"
	AnswerApprove  AnswerKind = "approve"
	AnswerEdit     AnswerKind = "edit" // approve with other arguments
	AnswerDeny     AnswerKind = "deny"
	AnswerMessage  AnswerKind = "message" // the user's next message
	// AnswerRunAgain: the call did not happen, and its body is entered again.
	AnswerRunAgain AnswerKind = "run_again"
)

// answer returns what a resumption answers with.
func (r *Resumption) answer() AnswerKind {
	switch {
	case r.Again:
		return AnswerRunAgain
	case r.Decision == nil && (r.failed || r.Failure != ""):
		return AnswerFail
	case r.Decision == nil:
		return AnswerComplete
	case !r.Decision.Approved:
		return AnswerDeny
	case r.err != nil || len(r.Decision.Arguments) > 0:
		return AnswerEdit
	}
	return AnswerApprove
}

// ErrNotAllowed is every refusal of an Authorizer. It is wrapped together with
// the Authorizer's own error, so that callers can tell it from a store that
// failed.
var ErrNotAllowed = errors.New("runner: not allowed")

// ErrUndecided is for an Authorizer that can't tell just now whether it allows an
// operation: what it would ask is out of reach. It returns the error alone, or
// within one of its own. Then nothing is done and nothing refused, as if the
// store had failed: a webhook's sender is told to come again, and a message that
// waits goes on waiting. So it is where the network fails in the Authorizer (a
// net.Error), or a time-out of its own is over (context.DeadlineExceeded). Any
// other error refuses.
var ErrUndecided = errors.New("runner: the Authorizer can't tell just now")

// undecided reports whether an Authorizer's error refuses nothing.
func undecided(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || isAny(err, ErrUndecided, context.DeadlineExceeded)
}

// HasAuthorizer reports whether the runner has an Authorizer. Without one it
// allows all.
func (rn *Runner) HasAuthorizer() bool { return rn.options.Authorizer != nil }

// authorize asks the Authorizer. What the operation is about is looked up
// first, which costs a read of the store, and only where there is an
// Authorizer. If ctx has ended by the time that it doesn't allow, that is the
// error.
func (rn *Runner) authorize(ctx context.Context, op Operation) error {
	if rn.options.Authorizer == nil {
		return nil
	}
	if op.Session != "" && (op.User == "" || op.Call != "" && op.Tool == "") {
		if err := rn.describe(ctx, &op); err != nil {
			return err
		}
	}
	err := rn.ask(ctx, op)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil: // it was cut off, and has refused nothing
		return context.Cause(ctx)
	case undecided(err):
		return fmt.Errorf("%w: %s: %w", ErrUndecided, op.Kind, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrNotAllowed, op.Kind, err)
}

// ask asks the Authorizer. One that panics doesn't allow: a worker asks it, too,
// in a goroutine of its own.
func (rn *Runner) ask(ctx context.Context, op Operation) (err error) {
	defer func() {
		if p := recover(); p != nil {
			rn.options.Logger.Error("the Authorizer panicked", "operation", op.Kind, "panic", p,
				"stack", string(debug.Stack()))
			err = errors.New("the Authorizer panicked")
		}
	}()
	return usererr.Use(rn.options.Authorizer(ctx, op))
}

// describe fills in the user and the tool of an operation. If the session or
// the call doesn't exist, or is damaged, that is no error here: the operation
// itself tells an actor who is allowed. Only if the store fails, the Authorizer
// is not asked.
func (rn *Runner) describe(ctx context.Context, op *Operation) error {
	st, err := rn.store.Load(ctx, op.Session)
	switch {
	case (op.Kind == OpRun || op.Kind == OpSend) && errors.Is(err, session.ErrUnknownSession):
		op.New, op.User, op.Root = true, string(op.Actor), op.Session
		return nil
	case err != nil:
		return unlessKnown(err)
	}
	op.User, op.Root = st.User, st.Root()
	if st.Parent != nil {
		op.Path = slices.Clone(st.Parent.Path)
	}
	if op.Handle != "" && op.Tool == "" {
		h, err := rn.store.Handle(ctx, op.Session, op.Handle)
		if op.Tool = h.Tool; err != nil && !errors.Is(err, session.ErrUnknownHandle) {
			return unlessKnown(err)
		}
	}
	if op.Call == "" {
		return nil
	}
	if c := st.Call(op.Call); c != nil {
		op.Tool = c.Tool
		return nil
	}
	r, _, err := rn.store.Record(ctx, op.Session, op.Call)
	op.Tool = r.Tool
	return unlessKnown(err)
}

// unlessKnown drops an error that is about a session. What it returns is the
// store's failure.
func unlessKnown(err error) error {
	if isAny(err, session.ErrUnknownSession, session.ErrUnknownCall,
		session.ErrCorrupt, session.ErrNewerVersion) {
		return nil
	}
	return err
}
