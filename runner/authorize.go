package runner

import (
	"context"
	"errors"
	"fmt"
)

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
	OpRotate        OperationKind = "rotate_token_keys"
)

// ErrNotAllowed is every refusal of an Authorizer. It is wrapped together with the Authorizer's own error, so that callers can
// tell it from a store that failed.
var ErrNotAllowed = errors.New("runner: not allowed")

func (rn *Runner) authorize(ctx context.Context, op Operation) error {
	if rn.options.Authorizer == nil {
		return nil
	}
	if err := rn.options.Authorizer(ctx, op); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotAllowed, op.Kind, err)
	}
	return nil
}
