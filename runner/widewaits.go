package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/internal/waits"
	"github.com/fermata-ai/fermata/internal/wide"
	"github.com/fermata-ai/fermata/tool"
)

// WaitName names a wait handle of a wider scope, or with an empty ID the scope.
type WaitName struct {
	Scope tool.WaitScope `json:"scope"`
	User  string         `json:"user,omitempty"` // with tool.UserScope: whose
	ID    string         `json:"id,omitempty"`
	// Made, if set, is when the handle was made, its Wait.Start: another one, which
	// has had the name since, isn't meant. The token of a hook tells it.
	Made time.Time `json:"made,omitzero"`
}

func (n WaitName) id() wide.ID {
	return wide.ID{Scope: session.WaitScope(n.Scope, n.User), Name: n.ID, Made: n.Made}
}

// ErrInvalidWait refuses what can't be done to a wait handle as it is asked for.
var ErrInvalidWait = wide.ErrInvalid

// The refusals of what is done to wait handles.
var (
	ErrUnknownWait = errors.New("runner: no such wait handle")
	ErrWaitTaken   = wide.ErrTaken // the name has a handle
	// ErrWaitEnded: the handle has ended otherwise.
	ErrWaitEnded = errors.New("runner: the wait handle has ended otherwise")
	// ErrWaitCursor: it is no cursor of this list.
	ErrWaitCursor = wide.ErrBadCursor
	// ErrWaitChangesGone: what came after the cursor is no longer kept.
	ErrWaitChangesGone = wide.ErrChangesGone
)

func (n WaitName) check() error {
	switch {
	case n.Scope != tool.UserScope && n.Scope != tool.StoreScope:
		return fmt.Errorf("%w: its scope is %q: only those of a user, or of the store, are reached by name",
			ErrInvalidWait, n.Scope)
	case (n.Scope == tool.UserScope) != (n.User != ""):
		return fmt.Errorf("%w: a user goes with the scope %q, and with no other", ErrInvalidWait,
			tool.UserScope)
	}
	return nil
}

// asksFor asks the Authorizer for what a program does to a wait handle.
func (rn *Runner) asksFor(ctx context.Context, kind OperationKind, n WaitName, actor Actor) error {
	if err := n.check(); err != nil {
		return err
	}
	n.Made = time.Time{}
	return rn.authorize(ctx, Operation{Kind: kind, Actor: actor, User: n.User, Wait: n})
}

// NewWait is a wait handle in the making.
type NewWait struct {
	Type     tool.WaitType   // default tool.CustomWait
	Metadata json.RawMessage // a JSON object, 8 KiB at most
	Timeout  time.Duration   // from now; zero: none
	// Permits is how many calls may hold it at a time; zero: none.
	Permits int
}

// check refuses what the models' tools couldn't have made either.
func (n *NewWait) check(name WaitName) error {
	switch {
	case !name.Made.IsZero():
		return errors.New("it is to be made, and its name tells when it was")
	case !waits.Known(n.Type):
		return fmt.Errorf("there is no type %q", n.Type)
	case len(n.Metadata) > 0 && n.Metadata[0] != '{':
		return errors.New("the metadata is no JSON object")
	}
	return waits.CheckID(name.ID)
}

// WaitRetention is how long wait handles of wider scopes are kept, and what
// becomes of them then. The zero value has the defaults.
type WaitRetention struct {
	Ended   time.Duration // a handle that has ended; default 30 days
	Changes time.Duration // a change, for FollowWaits; default 30 days
	// Archive, if set, is given each handle before it is removed. After an error
	// it is given again later; after a crash, or by several workers, it may be
	// given twice. It is called in a goroutine of its own, of which there are a
	// few, and its context ends after a minute.
	Archive func(context.Context, WaitName, tool.Wait) error
}

// archiveWait is how package wide archives a handle.
func archiveWait(
	f func(context.Context, WaitName, tool.Wait) error,
) func(context.Context, *wide.Handle) error {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, h *wide.Handle) error { return f(ctx, nameOf(h), wideWait(h)) }
}

// nameOf returns the name of a handle.
func nameOf(h *wide.Handle) WaitName {
	n := WaitName{Scope: session.ScopeOf(h.Scope), ID: h.Name}
	if n.Scope == tool.UserScope {
		n.User = session.ScopeUser(h.Scope)
	}
	return n
}

// CreateWait makes a wait handle. The name must be free.
func (rn *Runner) CreateWait(
	ctx context.Context, name WaitName, n NewWait, actor Actor,
) (tool.Wait, error) {
	if err := rn.asksFor(ctx, OpCreateWait, name, actor); err != nil {
		return tool.Wait{}, err
	}
	if n.Type == "" {
		n.Type = tool.CustomWait
	}
	if err := n.check(name); err != nil {
		return tool.Wait{}, fmt.Errorf("%w: %w", ErrInvalidWait, err)
	}
	h, _, err := rn.wide.Create(ctx, name.id(), wide.NewHandle{Type: string(n.Type),
		Metadata: n.Metadata, Timeout: n.Timeout, Permits: n.Permits,
		Maker: wide.Maker{Actor: string(actor)}})
	if err != nil {
		return tool.Wait{}, err
	}
	w := wideWait(h)
	if n.Type == tool.HookWait {
		w.Token, err = rn.mintWait(ctx, h)
	}
	return w, err
}

// Wait returns a wait handle as it is.
func (rn *Runner) Wait(ctx context.Context, name WaitName, actor Actor) (tool.Wait, error) {
	if err := rn.asksFor(ctx, OpWait, name, actor); err != nil {
		return tool.Wait{}, err
	}
	h, err := rn.wide.Get(ctx, name.id())
	if err != nil {
		return tool.Wait{}, wideRefusal(err)
	}
	return wideWait(h), nil
}

// WaitEnd is how a wait handle is ended: with a result, or else with an error.
type WaitEnd struct {
	Result json.RawMessage `json:"result,omitzero"` // 32 KiB at most
	Error  string          `json:"error,omitzero"`
}

// CompleteWait ends a wait handle, once. The same end again is acknowledged.
// Another one is an ErrWaitEnded, with the handle as it is.
func (rn *Runner) CompleteWait(
	ctx context.Context, name WaitName, end WaitEnd, actor Actor,
) (tool.Wait, error) {
	if err := rn.asksFor(ctx, OpCompleteWait, name, actor); err != nil {
		return tool.Wait{}, err
	}
	w, err := rn.completeWide(ctx, name.id(), end.Result, end.Error, actor)
	return w, wideRefusal(err)
}

// ReportWait notes how far a wait handle has come: JSON of 8 KiB at most. The
// lists and those that wait are shown the latest.
func (rn *Runner) ReportWait(
	ctx context.Context, name WaitName, progress json.RawMessage, actor Actor,
) error {
	if err := rn.asksFor(ctx, OpReportWait, name, actor); err != nil {
		return err
	}
	return wideRefusal(rn.wide.Report(ctx, name.id(), progress))
}

// wideRefusal returns a refusal as a program is told it.
func wideRefusal(err error) error {
	switch {
	case err == nil:
		return nil
	case isAny(err, wide.ErrUnknown), isType[*waits.UnknownError](err):
		return fmt.Errorf("%w: %w", ErrUnknownWait, err)
	case errors.Is(err, wide.ErrEnded), isType[*waits.ConflictError](err):
		return fmt.Errorf("%w: %w", ErrWaitEnded, err)
	}
	return err
}

func isType[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// WaitFilter selects wait handles of a scope. Empty fields select all.
type WaitFilter struct {
	Status tool.WaitStatus
	Type   tool.WaitType
	Limit  int    // default 50, at most 200
	Cursor string // WaitPage.Next of the page before
}

// WaitPage is a page of wait handles, in the order in which they were made.
type WaitPage struct {
	Waits []tool.Wait
	Total int    // that the filter selects
	Next  string // the cursor of the next page; empty: this is the last
}

// Waits returns a page of the wait handles of a scope. Its cost doesn't depend
// on how many there are.
func (rn *Runner) Waits(
	ctx context.Context, scope WaitName, f WaitFilter, actor Actor,
) (WaitPage, error) {
	if err := rn.asksFor(ctx, OpWaits, scope, actor); err != nil {
		return WaitPage{}, err
	}
	p, err := rn.listWide(ctx, scope.id().Scope, waits.Filter{Status: f.Status, Type: f.Type,
		Limit: f.Limit, Cursor: f.Cursor})
	return WaitPage{Waits: p.Waits, Total: p.Filtered, Next: p.Next}, err
}

// WaitCount is how many wait handles of a type are at a status.
type WaitCount struct {
	Type   tool.WaitType   `json:"type"`
	Status tool.WaitStatus `json:"status"`
	Now    int             `json:"now"` // that are kept
	// Ever counts all that came to the status, and Waited for how long these had
	// been open, together.
	Ever   int           `json:"ever"`
	Waited time.Duration `json:"waited,omitzero"`
}

// CountWaits returns what is counted of the wait handles of a scope.
func (rn *Runner) CountWaits(ctx context.Context, scope WaitName, actor Actor) ([]WaitCount, error) {
	if err := rn.asksFor(ctx, OpWaits, scope, actor); err != nil {
		return nil, err
	}
	counts, err := rn.wide.Counts(ctx, scope.id().Scope)
	if err != nil {
		return nil, err
	}
	all := make([]WaitCount, len(counts))
	for i, c := range counts {
		all[i] = WaitCount{Type: tool.WaitType(c.Type), Status: tool.WaitStatus(c.Status), Now: c.Now,
			Ever: c.Ever, Waited: time.Duration(c.WaitedMS) * time.Millisecond}
	}
	return all, nil
}

// WaitChange is something that has happened to a wait handle: it was created,
// has told its progress, has ended, or was removed since it had outlived its
// retention.
type WaitChange struct {
	Kind   string          `json:"kind"` // created, progress, ended, removed
	ID     string          `json:"id"`
	Type   tool.WaitType   `json:"type"`
	Status tool.WaitStatus `json:"status"` // after it
	At     time.Time       `json:"at"`
	// Cursor is the place behind the change, to go on from.
	Cursor string `json:"cursor"`
}

// FollowWaits returns what happens to the wait handles of a scope after a
// cursor, and goes on as it happens, until ctx ends; then with its error. An empty
// cursor is the beginning of what is kept. What is kept for less long than the
// subscriber was away is an ErrWaitChangesGone.
//
// Nothing is missed, also across restarts, and whichever process makes the
// changes. Those of one handle are in order.
func (rn *Runner) FollowWaits(
	ctx context.Context, scope WaitName, cursor string, actor Actor,
) iter.Seq2[WaitChange, error] {
	return func(yield func(WaitChange, error) bool) {
		if err := rn.asksFor(ctx, OpWaits, scope, actor); err != nil {
			yield(WaitChange{}, err)
			return
		}
		for c, err := range rn.wide.Follow(ctx, scope.id().Scope, cursor) {
			change := WaitChange{Kind: string(c.Kind), ID: c.Name, Type: tool.WaitType(c.Type),
				Status: tool.WaitStatus(c.Status), At: c.At, Cursor: c.Cursor}
			if !yield(change, err) {
				return
			}
		}
	}
}

// WaitsNow returns the cursor behind all that has happened in a scope.
func (rn *Runner) WaitsNow(ctx context.Context, scope WaitName, actor Actor) (string, error) {
	if err := rn.asksFor(ctx, OpWaits, scope, actor); err != nil {
		return "", err
	}
	return rn.wide.Now(ctx, scope.id().Scope)
}
