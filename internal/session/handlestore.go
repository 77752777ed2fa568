package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/fermata-ai/fermata/internal/strictjson"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/tool"
)

// Reading handles, and the content that their bodies produce.

// Handle returns what a session keeps of a name. Without such a name it is an
// ErrUnknownHandle.
func (s *Store) Handle(ctx context.Context, session, name string) (*Handle, error) {
	h := new(Handle)
	found, err := s.kv.record(ctx, handleKey(session, name), h)
	if err == nil && !found {
		err = fmt.Errorf("%w: %q", ErrUnknownHandle, name)
	}
	return h, err
}

// Handles returns a page of what a session keeps of its handles, in the order
// of their names, from after a name on.
func (s *Store) Handles(
	ctx context.Context, session, after string, limit int,
) (page []Handle, more bool, err error) {
	r := kvstore.Range{Prefix: kvstore.Key("z", session), Limit: limit}
	if after != "" {
		r.After = handleKey(session, after)
	}
	got, err := s.kv.Scan(ctx, r)
	if err != nil {
		return nil, false, err
	}
	for _, e := range got.Entries {
		var h Handle
		if err := decode(e.Key, e.Value, &h); err != nil {
			return nil, false, err
		}
		page = append(page, h)
	}
	return page, got.More, nil
}

// AllHandles visits what a session keeps of its handles, in the order of their
// names.
func (s *Store) AllHandles(ctx context.Context, session string) iter.Seq2[Handle, error] {
	return func(yield func(Handle, error) bool) {
		for e, err := range s.scan(ctx, kvstore.Key("z", session)) {
			var h Handle
			if err == nil {
				err = decode(e.Key, e.Value, &h)
			}
			if !yield(h, err) || err != nil {
				return
			}
		}
	}
}

// awaited returns the handles that an await waits for; nil: it is none.
func (s *Store) awaited(ctx context.Context, id string, a *Awaiting) (*tool.HandleWait, error) {
	list, err := s.Awaited(ctx, id, a)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	w := &tool.HandleWait{Success: a.Success, Scope: ScopeOf(a.Scope)}
	if a.Permit != nil {
		w.Permit = &tool.PermitWait{Most: a.Permit.Most, Priority: a.Permit.Priority,
			Before: a.Permit.Before}
	}
	for _, h := range list {
		if h.All {
			w.All = append(w.All, h.Name)
		}
		if h.Any {
			w.Any = append(w.Any, h.Name)
		}
	}
	return w, nil
}

// Awaited reads the handles that an await waits for. A may be nil.
func (s *Store) Awaited(ctx context.Context, session string, a *Awaiting) (list []Awaited, err error) {
	if a == nil {
		return nil, nil
	}
	list, err = s.AwaitedIn(ctx, session, a.List)
	if err == nil && len(list) != a.Size {
		err = fmt.Errorf("%w: a call of session %q awaits %d handles, and its list has %d", ErrCorrupt,
			session, a.Size, len(list))
	}
	return list, err
}

// AwaitedIn reads the list of an await; nil: there is none.
func (s *Store) AwaitedIn(ctx context.Context, session string, b *Blob) (list []Awaited, err error) {
	if b == nil {
		return nil, nil
	}
	raw, err := s.Value(ctx, session, b)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%w: what a call of session %q awaits can't be read: %v", ErrCorrupt,
			session, err)
	}
	return list, nil
}

// HandleOf returns what a session keeps of a child that has a name, or had it.
// Of a child whose name was given anew, that is what its own head tells.
func (s *Store) HandleOf(ctx context.Context, session, name, child string) (*Handle, error) {
	h, err := s.Handle(ctx, session, name)
	if err != nil || h.Child == child {
		return h, err
	}
	st, err := s.Load(ctx, child)
	switch {
	case errors.Is(err, ErrUnknownSession):
		return nil, fmt.Errorf("%w: %q", ErrUnknownHandle, name)
	case err != nil:
		return nil, err
	case !st.isHandle() || st.Parent.Handle != name || st.Parent.step().Session != session:
		return nil, fmt.Errorf("%w: %q is no handle %q of session %q", ErrCorrupt, child, name, session)
	}
	h = &Handle{Name: name, Child: child, Since: st.Created, Ended: st.Ended}
	if len(st.Calls) == 1 {
		c := &st.Calls[0]
		h.Tool, h.Call, h.Status = c.Tool, c.ID, c.Settled
	}
	return h, nil
}

// Content is what a call's body has produced so far.
type Content struct {
	tool.Content
	// Of the question: the drive whose body asks it, by [Lease.Driver], and how
	// often its call had paused before.
	Driver string `json:"driver,omitzero"`
	Pauses int    `json:"pauses,omitzero"`

	Rest strictjson.Rest `json:"-"` // of a later version
}

func (c *Content) check() error {
	if c.Total < len(c.Head) || c.At.IsZero() || c.Pauses < 0 {
		return errIncomplete
	}
	return nil
}

func contentKey(session, call string) []byte { return kvstore.Key("q", session, call) }

// Content reads what a call has produced, as it was last stored; nil: nothing.
func (s *Store) Content(ctx context.Context, session, call string) (*Content, error) {
	c := new(Content)
	found, err := s.kv.record(ctx, contentKey(session, call), c)
	if err != nil || !found {
		return nil, err
	}
	return c, nil
}

// Asks reports whether the body that asks the question of a content may be there
// still. With the drive that has entered it, and with a pause, it is gone, and
// nothing takes an answer.
func (s *Store) Asks(st *State, c *Call, content *Content) bool {
	return content.Question != nil && content.Pauses == c.Pauses && s.drivenBy(st, content.Driver)
}

// PutContent stores what an open call has produced so far.
func (s *Store) PutContent(ctx context.Context, session, call string, content *Content) error {
	key := contentKey(session, call)
	value, err := content.encode(key)
	if err != nil {
		return fmt.Errorf("session: content: %w", err)
	}
	put := kvstore.Put{Key: key, Value: value}
	_, err = s.besides(ctx, session, call, 0,
		func(*Call) []kvstore.Put { return []kvstore.Put{put} })
	return err
}

// PutContent stores it with this commit, which never fails for it.
func (tx *Tx) PutContent(call string, content *Content) {
	key := contentKey(tx.ID, call)
	value, err := content.encode(key)
	tx.putEncoded(key, value, err)
}

// encode returns the content as its record. One that can't be a record, or not
// be read again, loses all but its counts: a body writes it, and a result is
// committed with it.
func (c *Content) encode(key []byte) ([]byte, error) {
	value, err := encode(c)
	if err == nil && len(value) <= kvstore.MaxValue && decode(key, value, new(Content)) == nil {
		return value, nil
	}
	return encode(&Content{Content: tool.Content{Total: max(c.Total, 0), Screen: c.Screen, At: c.At}})
}
