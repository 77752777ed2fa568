package session

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/tool"
)

// A tree is a session that a user talks to, with the children below it. What
// people answer anywhere in it is listed under its root as well, so that a
// caller who ran the root sees what to answer, however deep it is.

// treeKind is the kind of those entries: the root's id, then as in the inbox.
const treeKind = "j"

// treeKey is where a call's open pause is listed for its tree; nil: nowhere.
// The root's own pauses stand in its head.
func (s *State) treeKey(c *Call) []byte {
	if s.Parent == nil || c.Pause.Machine {
		return nil
	}
	return kvstore.Key(treeKind, s.Root(), millis(c.Pause.Since), PauseID(c.ID, c.Pauses))
}

// treeHints goes through the open pauses of a session, and those of people in
// the tree that it belongs to, the oldest first.
func (s *Store) treeHints(ctx context.Context, session string) iter.Seq2[hint, error] {
	return func(yield func(hint, error) bool) {
		root := session
		var own []hint
		st, err := s.Load(ctx, session)
		switch {
		case errors.Is(err, ErrUnknownSession), err == nil && !st.Deleted.IsZero():
			return
		case err == nil:
			root, own = st.Root(), st.hints()
		case !yield(hint{}, err):
			return
		}
		merged(listOf(own), s.below(ctx, root, session))(yield)
	}
}

// below goes through the entries of a tree, but for those of one session.
func (s *Store) below(ctx context.Context, root, but string) iter.Seq2[hint, error] {
	return func(yield func(hint, error) bool) {
		for h, err := range s.hints(ctx, kvstore.Key(treeKind, root)) {
			if err == nil && h.Session == but {
				continue
			}
			if !yield(h, err) {
				return
			}
		}
	}
}

// hints lists the session's own open pauses, the oldest first.
func (s *State) hints() (own []hint) {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Status == Pending {
			own = append(own, hint{pauseEntry: s.entry(c), pause: PauseID(c.ID, c.Pauses),
				since: millis(c.Pause.Since)})
		}
	}
	slices.SortFunc(own, hint.compare)
	return own
}

func listOf(hints []hint) iter.Seq2[hint, error] {
	return func(yield func(hint, error) bool) {
		for _, h := range hints {
			if !yield(h, nil) {
				return
			}
		}
	}
}

// isBelow reports whether a pause is the session's own, or of one below it.
func isBelow(p *tool.Pause, session string) bool {
	return p.Session == session ||
		slices.ContainsFunc(p.Path, func(s tool.PathStep) bool { return s.Session == session })
}

// waitsFor reports whether the call under which a pause below the session
// stands still waits. If it doesn't, that pause is about to be cancelled.
func (s *State) waitsFor(p *tool.Pause) bool {
	i := slices.IndexFunc(p.Path, func(step tool.PathStep) bool { return step.Session == s.ID })
	if i < 0 {
		return false
	}
	below := p.Session
	if i+1 < len(p.Path) {
		below = p.Path[i+1].Session
	}
	if IsHandle(below) {
		return s.Handles > 0 // no call need wait for it
	}
	c := s.Call(p.Path[i].Call)
	return c != nil && c.Status == Pending
}

// MaxPage is how many pauses a page shows of what a tree waits for.
const MaxPage = 100

// Page is the first of what a session waits for: all its own open pauses, in
// call order, and then those of people below it, the oldest first.
type Page struct {
	Pauses []tool.Pause
	More   bool // there may be more, or some can't be read; Inbox has them
}

// Waiting returns the first of what a session waits for. Asked is as for
// Pauses. What it reads is bounded, however many wait.
func (s *Store) Waiting(ctx context.Context, st *State, asked []llm.ToolCall) (Page, error) {
	var p Page
	var err error
	if p.Pauses, err = s.Pauses(ctx, st, asked); err != nil || st.Children == 0 {
		return p, err
	}
	looked := 0
	for h, err := range s.below(ctx, st.Root(), st.ID) {
		if looked++; looked > MaxPage || len(p.Pauses) == MaxPage {
			p.More = true
			break
		}
		var pause tool.Pause
		if err == nil {
			pause, err = s.hinted(ctx, h)
		}
		switch {
		case isOver(err):
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewerVersion):
			p.More = true // it is no reason not to show the others
		case err != nil:
			return p, err
		case st.waitsFor(&pause):
			p.Pauses = append(p.Pauses, pause)
		}
	}
	return p, nil
}
