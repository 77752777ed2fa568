package session

import (
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore"
)

// Seen is the head of a session as it was looked at.
type Seen struct {
	Session  string
	Revision kvstore.Revision
}

// maxUnmoved is on how many other heads a commit depends at most. It is
// bounded, and so are they.
const maxUnmoved = 24

// unmoved refuses a transition unless these sessions are as they were seen, and
// makes its commit depend on that, as far as it has room. What depends on more
// is only looked at, right before the commit.
func (tx *Tx) unmoved(all []Seen) error {
	for _, s := range all {
		key := headKey(s.Session)
		e, err := tx.kv.Get(tx.ctx, key)
		if err != nil && !errors.Is(err, kvstore.ErrNotFound) {
			return err
		}
		if e.Revision != s.Revision {
			return fmt.Errorf("%w: session %q has moved on since it was looked at",
				ErrStale, s.Session)
		}
		if len(tx.only) < maxUnmoved {
			tx.only = append(tx.only, kvstore.Precondition{Key: key, Revision: s.Revision})
		}
	}
	return nil
}
