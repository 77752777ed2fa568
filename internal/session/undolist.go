package session

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/fermata-ai/fermata/kvstore"
)

// UndoFilter picks what is to be called off outside of calls that ended while
// they waited. Zero values pick all that did not come off at the first try, or
// can't be tried just now. Of a Session also the rest is picked.
type UndoFilter struct {
	User    string
	Session string
	Tool    string
	GivenUp bool // only what is tried no more by itself
	Limit   int  // 0: no limit
}

func (f UndoFilter) match(st *State, e *Errand) bool {
	return e.Undo != nil && (f.User == "" || f.User == st.User) &&
		(f.Tool == "" || f.Tool == e.Undo.Tool) && (!f.GivenUp || !e.Undo.Tries.GaveUp.IsZero())
}

// Undone is an errand of kind ErrandUndo, and whose it is.
type Undone struct {
	Session, User string
	Errand        Errand
}

// Undos lists what is to be called off. A session that can't be read is an
// error in its place.
func (s *Store) Undos(ctx context.Context, f UndoFilter) iter.Seq2[Undone, error] {
	return func(yield func(Undone, error) bool) {
		n := 0
		some := func(u Undone, err error) bool {
			n++
			return yield(u, err) && (f.Limit <= 0 || n < f.Limit)
		}
		if f.Session != "" {
			s.undosOf(ctx, f, f.Session, "", some)
			return
		}
		for e, err := range s.scan(ctx, kvstore.Key("b")) {
			var id, call string
			if err == nil {
				id, call, err = undoOf(e.Key)
			}
			if err != nil {
				if !some(Undone{}, err) {
					return
				}
				continue
			}
			if !s.undosOf(ctx, f, id, call, some) {
				return
			}
		}
	}
}

// undoOf returns what an entry of the list is about.
func undoOf(key []byte) (session, call string, err error) {
	parts, err := kvstore.Parts(key)
	if err == nil && len(parts) != 3 {
		err = fmt.Errorf("%w: %s", ErrCorrupt, keyName(key))
	}
	if err != nil {
		return "", "", err
	}
	return parts[1], parts[2], nil
}

// undosOf lists what is to be called off of a session, or of one of its calls.
func (s *Store) undosOf(
	ctx context.Context, f UndoFilter, id, call string, yield func(Undone, error) bool,
) (more bool) {
	st, err := s.Load(ctx, id)
	if errors.Is(err, ErrUnknownSession) && call != "" { // gone between the two reads
		return true
	}
	if err != nil {
		return yield(Undone{Session: id}, err)
	}
	for _, e := range st.Outbox {
		if (call == "" || e.Call == call) && f.match(st, &e) &&
			!yield(Undone{st.ID, st.User, e}, nil) {
			return false
		}
	}
	return true
}
