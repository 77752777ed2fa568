package runner

import "context"

// Operation is what somebody wants to do, as an Authorizer sees it.
type Operation struct {
	Kind    OperationKind
	Actor   string // empty where the operation's signature has none
	Session string // empty for operations on the whole store
	Call    string // where it is about one call
}

// OperationKind is the kind of an Operation.
type OperationKind string

// The operations.
const (
	OpRun           OperationKind = "run"
	OpContinue      OperationKind = "continue"
	OpResume        OperationKind = "resume" // also a user's message that answers a pause
	OpProgress      OperationKind = "progress"
	OpCancel        OperationKind = "cancel"
	OpCancelSession OperationKind = "cancel_session"
	OpExtend        OperationKind = "extend"
	OpDelete        OperationKind = "delete"
	OpFind          OperationKind = "find"
	OpPending       OperationKind = "pending"
	OpList          OperationKind = "list"
	OpShow          OperationKind = "show"
	OpFollow        OperationKind = "follow"
)

func (rn *Runner) authorize(ctx context.Context, op Operation) error {
	if rn.options.Authorizer == nil {
		return nil
	}
	return rn.options.Authorizer(ctx, op)
}
