package runner

import (
	"context"
	"fmt"

	"github.com/fermata-ai/fermata/internal/session"
	"github.com/fermata-ai/fermata/tool"
)

// What a call means by the name of a handle.

// named returns the handle that a call means by a name. What a call is bound to
// it means as often as it is entered, whatever has the name by then.
func (h host) named(ctx context.Context, c tool.Call, name string) (*session.Handle, error) {
	child, bound := h.bound[name]
	switch {
	case !bound:
		return h.rn.store.Handle(ctx, c.Session, name)
	case child == "":
		return nil, fmt.Errorf("%w: %q", session.ErrUnknownHandle, name)
	}
	return h.rn.store.HandleOf(ctx, c.Session, name, child)
}

// acted is named, for what changes the handle. A wait handle is changed by its
// own tools alone: layers are asked about those.
func (h host) acted(ctx context.Context, c tool.Call, name string) (*session.Handle, error) {
	rec, err := h.named(ctx, c, name)
	if err == nil && rec.Wait != nil {
		return nil, &HandleError{ErrNotYours, fmt.Sprintf("%q is a wait handle: complete_wait_handle "+
			"ends it, and wait_for waits for it. It was not changed.", rec.Name)}
	}
	return rec, err
}

// boundTo returns the handles that a call is bound to, by the names that it has
// for them: the one that it acts on, and those that its pause has waited for.
func (s *subject) boundTo(ctx context.Context, c *session.Call) (map[string]string, error) {
	if c.Action == "" {
		return nil, nil
	}
	bound := map[string]string{}
	if c.Answer != nil {
		list, err := s.rn.store.AwaitedIn(ctx, s.session, c.Answer.Awaited)
		if err != nil {
			return nil, err
		}
		for _, w := range list {
			bound[w.Name] = w.Child
		}
	}
	if c.Handle != "" {
		bound[c.Handle] = c.Bound
	}
	return bound, nil
}
