package session

import (
	"context"
	"errors"
	"slices"
)

// What a child may still use, by what has been used beside it.

// WithinNow is Within, as things are now. A child gets what its parent's run had
// left when it was made, less what the parent and its other children have used
// since, and so on up to the root. Nothing is reserved: what asks first gets it.
// A limit of which nothing is left is negative.
//
// It reads the heads above the session, which are few, and then those of the
// children beside it that open calls wait for, or have left: maxBeside at most.
// What is not there, or can't be read, counts for nothing.
func (s *Store) WithinNow(ctx context.Context, st *State, agent Left) (Left, error) {
	within := st.Within(agent)
	b := &beside{store: s}
	line := []*State{st} // from the child up to its root
	for child := st; child.Parent != nil; child = line[len(line)-1] {
		above, err := b.load(ctx, child.Parent.step().Session)
		if err != nil {
			return within, err
		}
		if above == nil {
			break
		}
		line = append(line, above)
	}
	planned := false
	for i, above := range line[1:] {
		if err := b.add(ctx, above, line[i].ID); err != nil {
			return within, err
		}
		limits := line[i].Parent.Limits
		if planned = planned || line[i].Parent.Planned; planned {
			limits = limits.ofTokens()
		}
		within = within.less(limits, &b.used)
	}
	return within, nil
}

// maxBeside is how many heads are read for what is used beside a child.
const maxBeside = 256

// beside adds up what runs have used.
type beside struct {
	store *Store
	read  int
	used  Run
}

// load reads a head. It returns nil where that counts for nothing.
func (b *beside) load(ctx context.Context, id string) (*State, error) {
	if b.read++; b.read > maxBeside {
		return nil, nil
	}
	st, err := b.store.Load(ctx, id)
	if errors.Is(err, ErrUnknownSession) || errors.Is(err, ErrCorrupt) ||
		errors.Is(err, ErrNewerVersion) {
		return nil, nil
	}
	return st, err
}

// add adds what a session's run has used, and those that its calls wait for, or
// that it goes on without and that have yet to end, but for one.
func (b *beside) add(ctx context.Context, st *State, but string) error {
	u, o := &b.used, &st.Run
	if st.Parent == nil || !st.Parent.Planned {
		u.Turns, u.Calls, u.Waived = u.Turns+o.Turns, u.Calls+o.Calls, u.Waived+o.Waived
	}
	u.Usage = u.Usage.Add(o.Usage)
	below := slices.Clone(o.Leaving)
	for i := range st.Calls {
		below = append(below, st.Calls[i].Child)
	}
	for _, child := range below {
		if child == "" || child == but {
			continue
		}
		st, err := b.load(ctx, child)
		if err == nil && st != nil {
			err = b.add(ctx, st, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// less returns the lower of l, and of what is left of limits by what was used.
func (l Left) less(limits Left, used *Run) Left {
	lower := func(l, limit, used int) int {
		switch left := limit - used; {
		case limit == 0:
			return l
		case left <= 0:
			return -1
		case l == 0:
			return left
		default:
			return min(l, left)
		}
	}
	return Left{
		Turns:  lower(l.Turns, limits.Turns, used.Turns),
		Calls:  lower(l.Calls, limits.Calls, used.Calls),
		Tokens: lower(l.Tokens, limits.Tokens, used.Tokens()),
	}
}
