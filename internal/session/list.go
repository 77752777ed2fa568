package session

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/fermata-ai/fermata/kvstore"
)

// Filter selects sessions; empty fields select all but children, and but those
// that are hidden.
type Filter struct {
	User, Agent string
	// Hidden: sessions that were begun as hidden are listed, too, such as those
	// that are schedules. Of the Agent that is named they are in any case. A
	// program that deletes all sessions of a user asks for them: a schedule that
	// is left goes on firing.
	Hidden bool
	// Children: the sessions that calls have made are listed, too. Otherwise
	// they aren't read, however many there are.
	Children bool
	// Root: that session, and all below it, each before its own children.
	Root string
	// After leaves out the sessions up to that id, itself included: it is the last
	// one of the page before. It doesn't go with Root.
	After string
	Limit int // 0: no limit
}

// match reports whether the session is one of the filter's, and not deleted.
func (f Filter) match(st *State) bool {
	return st.Deleted.IsZero() && (f.User == "" || f.User == st.User) &&
		(f.Agent == "" || f.Agent == st.Agent) &&
		(!st.Hidden || f.Hidden || f.Agent != "" || f.Root != "")
}

// List goes through the sessions by id. One that can't be read is an error in
// its place; the list goes on after it.
func (s *Store) List(ctx context.Context, f Filter) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		n := 0
		for st, err := range s.states(ctx, f) {
			if err == nil && !f.match(st) {
				continue
			}
			if n++; !yield(st, err) || n == f.Limit {
				return
			}
		}
	}
}

// states goes through the sessions that the filter may select.
func (s *Store) states(ctx context.Context, f Filter) iter.Seq2[*State, error] {
	if f.Root != "" {
		return func(yield func(*State, error) bool) { s.tree(ctx, f.Root, 0, yield) }
	}
	return func(yield func(*State, error) bool) {
		for e, err := range s.heads(ctx, f.Children, f.After) {
			var st *State
			failed := err != nil
			if !failed {
				st, err = s.decodeHead(ctx, e)
			}
			if !yield(st, err) || failed {
				return
			}
		}
	}
}

// tree goes through a session and those below it, and reports whether to go on.
// One that is gone, or deleted, is passed over with all below it.
func (s *Store) tree(
	ctx context.Context, id string, depth int, yield func(*State, error) bool,
) bool {
	st, err := s.Load(ctx, id)
	switch {
	case errors.Is(err, ErrUnknownSession), err == nil && !st.Deleted.IsZero(), depth > MaxDepth:
		return true
	case !yield(st, err):
		return false
	case err != nil || st.Children == 0:
		return true
	}
	for e, err := range s.scan(ctx, kvstore.Key("f", id)) {
		if err != nil {
			return yield(nil, err)
		}
		if !s.tree(ctx, lastPart(e.Key), depth+1, yield) {
			return false
		}
	}
	return true
}

// heads goes through the heads by id, with those of children or without, from
// behind an id on. The ids of children stand together, and are passed over at
// once.
func (s *Store) heads(
	ctx context.Context, children bool, behind string,
) iter.Seq2[kvstore.Entry, error] {
	all := kvstore.Key("h")
	var after []byte
	if behind != "" {
		after = kvstore.Key("h", behind)
	}
	if children {
		return s.scanRange(ctx, kvstore.Range{Prefix: all, After: after})
	}
	begin := append(kvstore.Key("h"), ChildPrefix...)
	end := slices.Clone(begin)
	end[len(end)-1]++
	var ranges []kvstore.Range
	if bytes.Compare(after, begin) < 0 {
		ranges = append(ranges, kvstore.Range{Prefix: all, After: after, Before: begin})
	}
	if bytes.Compare(after, end) < 0 {
		after = end
	}
	ranges = append(ranges, kvstore.Range{Prefix: all, After: after})
	return func(yield func(kvstore.Entry, error) bool) {
		for _, r := range ranges {
			for e, err := range s.scanRange(ctx, r) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}
