package runner

import (
	"context"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// A body that runs again, after a crash or a pause, begins its content anew. It
// stands behind what the earlier ones have produced: what was shown of a handle
// is counted in bytes, over all its bodies.

// earlierContent returns what the earlier bodies of a handle have produced, for one
// that begins. Same has the drive and the pauses of its own.
func (rn *Runner) earlierContent(
	ctx context.Context, call callName, same session.Content,
) (before tool.Content, err error) {
	if !session.IsHandle(call.session) {
		return before, nil
	}
	got, err := rn.lastContent(ctx, call)
	if err != nil {
		return before, err
	}
	if got.Driver == same.Driver && got.Pauses == same.Pauses {
		return before, nil
	}
	before = got.Content
	before.Question = nil
	if before.Screen { // its text is no part of what comes next
		before.Screen, before.Head, before.Tail = false, "", ""
	}
	shown, err := rn.shownOf(ctx, call.session)
	if shown > before.Total { // the last of it was shown, and died with its process
		before.Total, before.Tail = shown, ""
	}
	return before, err
}

// shownOf returns up to where a handle's parent was told of its content.
func (rn *Runner) shownOf(ctx context.Context, child string) (int, error) {
	st, err := rn.store.Load(ctx, child)
	if err != nil || st.Parent == nil {
		return 0, err
	}
	above := st.Parent.Path[len(st.Parent.Path)-1].Session
	h, err := rn.store.Handle(ctx, above, st.Parent.Handle)
	switch {
	case isAny(err, session.ErrUnknownHandle), err == nil && h.Child != child:
		return 0, nil
	case err != nil:
		return 0, err
	}
	return max(h.Shown, h.Noticed), nil
}
