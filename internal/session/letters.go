package session

import (
	"context"
	"errors"
	"sync"
)

// letters merges what this process tells one session at a time: a thousand
// children that end at once cost their parent far fewer commits. The first
// goroutine that has something to tell a session delivers for those that come
// while it is at it.
type letters struct {
	mu    sync.Mutex // guards piles; held over no commit
	piles map[string][]*letter
}

// letter is one transition on its way to a session.
type letter struct {
	t    Transition
	done chan error
}

// maxLetters is how many a commit takes. Each writes a receipt, a payload and
// index entries, and a commit is bounded.
const maxLetters = 12

// errLeaderLeft is what letters come to whose leader's context has ended, with
// what became of them unknown. They are told once more: a session takes each
// once.
var errLeaderLeft = errors.New("session: the goroutine that delivered has left")

// tell applies a transition to another session, perhaps in one commit with what
// other goroutines tell it.
func (s *Store) tell(ctx context.Context, to string, t Transition) (err error) {
	for err = errLeaderLeft; errors.Is(err, errLeaderLeft); {
		err = s.tellOnce(ctx, to, t)
	}
	return err
}

// tellOnce is tell under one leader.
func (s *Store) tellOnce(ctx context.Context, to string, t Transition) error {
	own := &letter{t, make(chan error, 1)}
	if !s.letters.leads(to, own) {
		select {
		case err := <-own.done:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var pile []*letter
	over := false
	defer func() {
		if !over { // the engine has ended this goroutine
			s.letters.cutOff(to, pile, errCutOff)
		}
	}()
	for {
		if pile = s.letters.take(to); len(pile) == 0 {
			over = true
			return <-own.done
		}
		err := s.deliverAll(ctx, to, pile)
		if err != nil && ctx.Err() != nil { // the others' own contexts may go on
			over = true
			s.letters.cutOff(to, pile, errLeaderLeft)
			if own := <-own.done; !errors.Is(own, errLeaderLeft) {
				return own
			}
			return err
		}
		for _, l := range pile {
			if err != nil && len(pile) > 1 { // one of them may spoil the others' commit
				l.done <- s.deliverAll(ctx, to, []*letter{l})
			} else {
				l.done <- err
			}
		}
	}
}

func (s *Store) deliverAll(ctx context.Context, to string, pile []*letter) error {
	return s.Update(ctx, to, func(tx *Tx) error {
		for _, l := range pile {
			if err := l.t(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// leads puts a letter on a session's pile, and reports whether its goroutine is
// the one that delivers the pile.
func (ls *letters) leads(to string, l *letter) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	pile, underway := ls.piles[to]
	if ls.piles == nil {
		ls.piles = map[string][]*letter{}
	}
	ls.piles[to] = append(pile, l)
	return !underway
}

// cutOff gives back what is under way to a session, and what lies on its pile,
// with the reason: those who brought it try again.
func (ls *letters) cutOff(to string, underway []*letter, why error) {
	ls.mu.Lock()
	all := append(underway, ls.piles[to]...)
	delete(ls.piles, to)
	ls.mu.Unlock()
	for _, l := range all {
		select {
		case l.done <- why:
		default: // it is told already
		}
	}
}

// take takes letters off a session's pile. Without any, the pile is gone, and
// the next letter has another goroutine.
func (ls *letters) take(to string) []*letter {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	pile := ls.piles[to]
	n := min(len(pile), maxLetters)
	if n == 0 {
		delete(ls.piles, to)
		return nil
	}
	ls.piles[to] = pile[n:]
	return pile[:n:n]
}
